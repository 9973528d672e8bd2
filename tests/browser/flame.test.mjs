// The page of `donmaz flame`: that it needs no network, logs no error, shows any name as text, and does
// what its buttons and keys say. Arguments: DONMAZ.
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import test from 'node:test';
import { browser, folder, open, run } from './page.mjs';

const donmaz = path.resolve(process.argv[2]);

const frames = (page) => page.locator('g.frame');
const frame = (page, name) => page.locator(`g.frame[name="${name}"]`);
const width = async (locator) => (await locator.first().boundingBox())?.width ?? 0;

test('the flame graph page', async (t) => {
  const home = await folder(t);
  const instance = await browser(t);
  const show = (file) => open(instance, file);

  async function flamePage(name, stacks, ...more) {
    const source = path.join(home, `${name}.txt`), out = path.join(home, `${name}.html`);
    await writeFile(source, stacks);
    await run(donmaz, ['flame', '--from', source, '-o', out, '-n', '0', ...more]);
    return out;
  }

  const small = await flamePage('small',
    'main;*hot /srv/app.js:3;read_[k] 300\nmain;~hot /srv/app.js:3 200\nmain;lib /srv/node_modules/x/i.js:9 100\n' +
    'main;<img src=x onerror=alert(1)>;C:\\dir\\"q" 150\nmain;other 250\n');

  await t.test('the page shows the frames, without errors or requests', async () => {
    const page = await show(small);
    await frame(page, 'main').waitFor();
    assert.equal(await frame(page, '*hot').count(), 1);
    assert.equal(await page.locator('#hot tbody tr').count() > 3, true);
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  });

  await t.test('any name is text, never markup', async () => {
    const page = await show(small);
    await frame(page, 'main').waitFor();
    assert.equal(await page.locator('img').count(), 0);
    assert.equal(await page.getByText('<img src=x onerror=alert(1)>').count() > 0, true);
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  });

  await t.test('a click zooms, Escape goes back', async () => {
    const page = await show(small);
    const before = await width(frame(page, 'other'));
    await frame(page, 'other').click();
    await page.waitForFunction((w) => document.querySelector('g.frame[name="other"]').getBoundingClientRect().width > 2 * w, before);
    assert.equal(await frame(page, '*hot').count(), 0);
    await page.keyboard.press('Escape');
    await frame(page, '*hot').waitFor();
    await page.context().close();
  });

  await t.test('search tells the share of the time in stacks that match', async () => {
    const page = await show(small);
    await frame(page, 'main').waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('hot');
    await page.getByText('matched 50.0%').waitFor();
    await page.locator('#search').fill('C:\\dir'); // an unfinished or strange pattern is no error
    await page.locator('#search').fill('(');
    await page.context().close();
  });

  await t.test('filters hide kinds and keep the total', async () => {
    const page = await show(small);
    const total = await width(frame(page, 'main'));
    await page.getByRole('button', { name: 'deps', exact: true }).click();
    assert.equal(await frame(page, 'lib').count(), 0);
    assert.equal(await page.getByRole('button', { name: 'deps', exact: true }).getAttribute('aria-pressed'), 'false');
    assert.equal(Math.round(await width(frame(page, 'main'))), Math.round(total));
    await page.context().close();
  });

  await t.test('merge makes optimised and not optimised one', async () => {
    const page = await show(small);
    const parts = (await width(frame(page, '*hot'))) + (await width(frame(page, '~hot')));
    await page.getByRole('button', { name: 'merge * ~' }).click();
    assert.equal(await page.locator('g.frame[name$="hot"]').count(), 1);
    assert.ok(Math.abs((await width(page.locator('g.frame[name$="hot"]'))) - parts) < 3);
    await page.context().close();
  });

  await t.test('the keyboard walks and zooms', async () => {
    const page = await show(small);
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
    await page.context().close();
  });

  await t.test('inverted puts callers above', async () => {
    const page = await show(small);
    await page.getByRole('button', { name: 'inverted' }).click();
    const top = (await frame(page, 'other').first().boundingBox()).y;
    const caller = (await page.locator('g.frame[name="main"]').first().boundingBox()).y;
    assert.ok(caller > top);
    await page.context().close();
  });

  await t.test('a differential graph is coloured by the difference', async () => {
    const base = path.join(home, 'base.txt');
    await writeFile(base, 'main;other 900\nmain;*hot /srv/app.js:3 100\n');
    const page = await show(await flamePage('diff', 'main;other 100\nmain;*hot /srv/app.js:3 900\n', '--diff', base));
    const fill = (name) => frame(page, name).locator('rect').getAttribute('fill');
    assert.match(await fill('*hot'), /^hsl\(5 /);
    assert.match(await fill('other'), /^hsl\(215 /);
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  });

  await t.test('100,000 frames are drawn within seconds, and zooming brings small ones up', async () => {
    let stacks = '';
    for (let i = 0; i < 1000; i++) for (let k = 0; k < 50; k++) stacks += `root;f${i};g${i}_${k};h${i}_${k} 3\n`;
    const page = await show(await flamePage('large', stacks));
    await frame(page, 'f7').waitFor();
    assert.ok((await frames(page).count()) < 10_000);
    await frame(page, 'f7').click();
    await frame(page, 'h7_3').waitFor();
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  });

  await t.test('search shows the share of stacks with a match, each counted once, by name, place and pattern', async () => {
    const page = await show(small);
    for (const [term, share] of [['other', '25'], ['hot', '50'], ['main', '100'], ['/srv/', '60'], ['^lib$|^other$', '35'], ['(', '15'], ['no such', '0']]) {
      await page.locator('#search').fill(term);
      const text = await page.locator('#share').textContent();
      if (term === '(') assert.match(text, /matched/); // no pattern: taken as it stands
      else assert.equal(Number.parseFloat(text.replace('matched ', '')), Number(share), `${term}: ${text}`);
    }
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  });

  await t.test('stacks hundreds deep are drawn, filtered and turned over', async () => {
    const deep = Array.from({ length: 600 }, (_, i) => `d${i}`).join(';');
    const page = await show(await flamePage('deep', `${deep} 5\nmain;d0 5\n`));
    await frame(page, 'd599').waitFor({ state: 'attached' });
    await page.getByRole('button', { name: 'inverted' }).click();
    await frame(page, 'd599').first().waitFor({ state: 'attached' });
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  });
});
