// The page of `donmaz load --html`. Arguments: DONMAZ, a server that takes --host and --port.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import test from 'node:test';
import { browser, folder, open, run } from './page.mjs';

const [donmaz, server] = process.argv.slice(2).map((a) => path.resolve(a));

test('the report page of a load', async (t) => {
  const home = await folder(t);
  await run(donmaz, ['load', '-n', '-d', '2', '-c', '4', '--json', 'out.json', '--html', 'out.html', '/fast@2', '/health@2', '--', server, '--quiet', '--port', '0'], { cwd: home });
  const doc = JSON.parse(await readFile(path.join(home, 'out.json'), 'utf8'));
  const page = await open(await browser(t), path.join(home, 'out.html'));
  const rows = await page.locator('tbody').first().locator('tr').evaluateAll((trs) => trs.map((tr) => [...tr.children].map((c) => c.textContent)));
  assert.deepEqual(rows.map((r) => [r[0], r[2]]), doc.endpoints.map((e) => [e.path, String(e.requests)]));
  const percentiles = await page.locator('tbody').nth(1).locator('tr').evaluateAll((trs) => trs.map((tr) => [...tr.children].map((c) => c.textContent)));
  assert.ok(percentiles.some(([p, ms]) => p === '99' && Number(ms) > 0));
  assert.deepEqual(page.complaints, []);
});
