// The page of `donmaz doctor`, of real runs. Arguments: DONMAZ, the labelled servers, in Node and in donmaz.
import assert from 'node:assert/strict';
import path from 'node:path';
import test from 'node:test';
import { browser, folder, open, run } from './page.mjs';

const [donmaz, servers, service] = process.argv.slice(2).map((a) => path.resolve(a));

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

test("the page of a donmaz server has its loop's own figures, its route and the estimates", async (t) => {
  const home = await folder(t), out = path.join(home, 'doctor.html');
  await run(donmaz, ['doctor', '-o', out, '--load', '-c10 -d1500ms /', '--', service, '--port', '0', '--case', 'burn', '--rescue-after', '0']);
  const page = await open(await browser(t), out);
  await page.locator('#verdict').waitFor();
  assert.equal(await page.locator('#verdict').textContent(), 'blocked event loop');
  for (const key of ['delay', 'stalls', 'inflight'])
    assert.equal(await page.locator(`.chart[data-key="${key}"] canvas`).count(), 1, key);
  assert.equal(await page.locator('.chart.offending').getAttribute('data-key'), 'delay');
  assert.ok((await page.locator('td', { hasText: 'GET /' }).count()) >= 1);
  assert.deepEqual(page.complaints, []);
});
