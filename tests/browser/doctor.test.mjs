// The page of `donmaz doctor`, of a real run. Arguments: DONMAZ, the labelled servers.
import assert from 'node:assert/strict';
import path from 'node:path';
import test from 'node:test';
import { browser, folder, open, run } from './page.mjs';

const [donmaz, servers] = process.argv.slice(2).map((a) => path.resolve(a));

test("doctor's page has the verdict, the marked chart and all charts", async (t) => {
  const home = await folder(t), out = path.join(home, 'doctor.html');
  await run(donmaz, ['doctor', '-o', out, '--load', '-c10 -d2 /', '--', process.execPath, servers, 'fib_in_handler']);
  const page = await open(await browser(t), out);
  await page.locator('#verdict').waitFor();
  assert.equal(await page.locator('#verdict').textContent(), 'blocked event loop');
  assert.equal(await page.locator('.chart.offending').getAttribute('data-key'), 'delay');
  assert.ok((await page.locator('.chart canvas').count()) >= 8);
  assert.ok((await page.getByText('fib').count()) > 0);
  assert.deepEqual(page.complaints, []);
});
