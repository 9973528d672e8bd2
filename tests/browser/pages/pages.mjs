// The pages of doctor and flame in a real browser: that they need no network, log no error, and do
// what their buttons and keys say.
// usage: node pages.mjs DONMAZ CHROMIUM SERVERS.mjs
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const [donmaz, executablePath, servers] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), 'donmaz-pages-'));
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
let failed = 0, passed = 0;

async function open(file) {
  const page = await browser.newPage({ viewport: { width: 1200, height: 900 } });
  const problems = [];
  page.on('console', (m) => { if (m.type() === 'error' || m.type() === 'warning') problems.push(m.text()); });
  page.on('pageerror', (e) => problems.push(e.message));
  page.on('request', (r) => { if (!/^(file|data):/.test(r.url())) problems.push(`request: ${r.url()}`); });
  await page.goto(`file://${file}`);
  return { page, problems };
}

async function test(name, run) {
  try {
    await run();
    passed++;
    console.log(`ok   ${name}`);
  } catch (e) {
    failed++;
    console.log(`FAIL ${name}\n${e.stack}`);
  }
}

function flamePage(name, stacks, ...more) {
  const source = join(folder, `${name}.txt`), out = join(folder, `${name}.html`);
  writeFileSync(source, stacks);
  execFileSync(donmaz, ['flame', '--from', source, '-o', out, '-n', '0', ...more], { stdio: 'ignore' });
  return out;
}

const frames = (page) => page.locator('g.frame');
const frame = (page, name) => page.locator(`g.frame[name="${name}"]`);
const width = async (locator) => (await locator.first().boundingBox())?.width ?? 0;

const small = flamePage('small',
  'main;*hot /srv/app.js:3;read_[k] 300\nmain;~hot /srv/app.js:3 200\nmain;lib /srv/node_modules/x/i.js:9 100\n' +
  'main;<img src=x onerror=alert(1)>;C:\\dir\\"q" 150\nmain;other 250\n');

await test('the page shows the frames, without errors or requests', async () => {
  const { page, problems } = await open(small);
  await frame(page, 'main').waitFor();
  assert.equal(await frame(page, '*hot').count(), 1);
  assert.equal(await page.locator('#hot tbody tr').count() > 3, true);
  assert.deepEqual(problems, []);
  await page.close();
});

await test('any name is text, never markup', async () => {
  const { page, problems } = await open(small);
  await frame(page, 'main').waitFor();
  assert.equal(await page.locator('img').count(), 0);
  assert.equal(await page.getByText('<img src=x onerror=alert(1)>').count() > 0, true);
  assert.deepEqual(problems, []);
  await page.close();
});

await test('a click zooms, Escape goes back', async () => {
  const { page } = await open(small);
  const before = await width(frame(page, 'other'));
  await frame(page, 'other').click();
  await page.waitForFunction((w) => document.querySelector('g.frame[name="other"]').getBoundingClientRect().width > 2 * w, before);
  assert.equal(await frame(page, '*hot').count(), 0);
  await page.keyboard.press('Escape');
  await frame(page, '*hot').waitFor();
  await page.close();
});

await test('search tells the share of the time in stacks that match', async () => {
  const { page } = await open(small);
  await frame(page, 'main').waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('hot');
  await page.getByText('matched 50.0%').waitFor();
  await page.locator('#search').fill('C:\\dir'); // an unfinished or strange pattern is no error
  await page.locator('#search').fill('(');
  await page.close();
});

await test('filters hide kinds and keep the total', async () => {
  const { page } = await open(small);
  const total = await width(frame(page, 'main'));
  await page.getByRole('button', { name: 'deps', exact: true }).click();
  assert.equal(await frame(page, 'lib').count(), 0);
  assert.equal(await page.getByRole('button', { name: 'deps', exact: true }).getAttribute('aria-pressed'), 'false');
  assert.equal(Math.round(await width(frame(page, 'main'))), Math.round(total));
  await page.close();
});

await test('merge makes optimised and not optimised one', async () => {
  const { page } = await open(small);
  const parts = (await width(frame(page, '*hot'))) + (await width(frame(page, '~hot')));
  await page.getByRole('button', { name: 'merge * ~' }).click();
  assert.equal(await page.locator('g.frame[name$="hot"]').count(), 1);
  assert.ok(Math.abs((await width(page.locator('g.frame[name$="hot"]'))) - parts) < 3);
  await page.close();
});

await test('the keyboard walks and zooms', async () => {
  const { page } = await open(small);
  await frame(page, 'main').focus();
  await page.keyboard.press('ArrowUp');
  const callee = await page.evaluate(() => document.activeElement.getAttribute('name'));
  assert.notEqual(callee, 'main');
  await page.keyboard.press('ArrowRight');
  const next = await page.evaluate(() => document.activeElement.getAttribute('name'));
  assert.notEqual(next, callee);
  await page.keyboard.press('ArrowDown');
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute('name')), 'main');
  await frame(page, 'other').focus();
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => !document.querySelector('g.frame[name="*hot"]'));
  await page.close();
});

await test('inverted puts callers above', async () => {
  const { page } = await open(small);
  await page.getByRole('button', { name: 'inverted' }).click();
  const top = (await frame(page, 'other').first().boundingBox()).y;
  const caller = (await page.locator('g.frame[name="main"]').first().boundingBox()).y;
  assert.ok(caller > top);
  await page.close();
});

await test('a differential graph is coloured by the difference', async () => {
  const base = join(folder, 'base.txt');
  writeFileSync(base, 'main;other 900\nmain;*hot /srv/app.js:3 100\n');
  const { page, problems } = await open(flamePage('diff', 'main;other 100\nmain;*hot /srv/app.js:3 900\n', '--diff', base));
  const fill = (name) => frame(page, name).locator('rect').getAttribute('fill');
  assert.match(await fill('*hot'), /^hsl\(5 /);
  assert.match(await fill('other'), /^hsl\(215 /);
  assert.deepEqual(problems, []);
  await page.close();
});

await test('100,000 frames are drawn within seconds, and zooming brings small ones up', async () => {
  let stacks = '';
  for (let i = 0; i < 1000; i++) for (let k = 0; k < 50; k++) stacks += `root;f${i};g${i}_${k};h${i}_${k} 3\n`;
  const { page, problems } = await open(flamePage('large', stacks));
  await frame(page, 'f7').waitFor({ timeout: 60_000 });
  assert.ok((await frames(page).count()) < 10_000);
  await frame(page, 'f7').click();
  await frame(page, 'h7_3').waitFor({ timeout: 60_000 });
  assert.deepEqual(problems, []);
  await page.close();
});

await test("doctor's page has the verdict, the marked chart and all charts", async () => {
  const out = join(folder, 'doctor.html');
  execFileSync(donmaz, ['doctor', '-o', out, '--load', '-c10 -d2 /', '--', process.execPath, servers, 'fib_in_handler'], { stdio: 'ignore' });
  const { page, problems } = await open(out);
  await page.locator('#verdict').waitFor();
  assert.equal(await page.locator('#verdict').textContent(), 'blocked event loop');
  assert.equal(await page.locator('.chart.offending').getAttribute('data-key'), 'delay');
  assert.ok((await page.locator('.chart canvas').count()) >= 8);
  assert.ok((await page.getByText('fib').count()) > 0);
  assert.deepEqual(problems, []);
  await page.close();
});

await browser.close();
rmSync(folder, { recursive: true });
console.log(`\n${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
