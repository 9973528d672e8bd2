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

  /* WCAG 2.2, 1.4.3: relative luminance, and the contrast of two colours. */
  const contrasts = (page) => page.evaluate(() => {
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const luminance = (colour) => {
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ratio = (a, b) => (Math.max(luminance(a), luminance(b)) + 0.05) / (Math.min(luminance(a), luminance(b)) + 0.05);
    const style = getComputedStyle(document.body);
    const label = getComputedStyle(document.querySelector('.d3-flame-graph-label')).color;
    return { text: ratio(style.color, style.backgroundColor), labels: [...document.querySelectorAll('g.frame rect')].map((rect) => ratio(rect.getAttribute('fill'), label)) };
  });

  await t.test('text can be read in light and dark, in every colouring', async () => {
    const base = path.join(home, 'base2.txt');
    await writeFile(base, 'main;other 900\nmain;*hot /srv/app.js:3 100\nmain;gone 300\n');
    const file = await flamePage('colours', 'main;other 100\nmain;*hot /srv/app.js:3;x_[k] 900\nmain;lib /srv/node_modules/x/i.js:9 100\nmain;w [wasm] 40\n(garbage collector) 60\n', '--diff', base);
    for (const colorScheme of ['light', 'dark']) {
      const page = await open(instance, file, { colorScheme });
      for (const colour of ['difference', 'heat', 'kind']) {
        await page.getByRole('button', { name: colour, exact: true }).click();
        const { text, labels } = await contrasts(page);
        assert.ok(text > 7, `${colorScheme}: text ${text}`);
        assert.ok(Math.min(...labels) >= 4.5, `${colorScheme}, ${colour}: ${Math.min(...labels)}`);
      }
      assert.deepEqual(page.complaints, []);
      await page.context().close();
    }
  });

  await t.test('a legend says what the colours mean', async () => {
    const page = await show(small), legend = page.getByRole('list', { name: 'colours' });
    await legend.getByText('most: 300 samples (30.0%)').waitFor();
    await page.getByRole('button', { name: 'kind', exact: true }).click();
    assert.deepEqual((await legend.getByRole('listitem').allTextContents()).sort(), ['app', 'deps', 'kernel', 'native']);
    await page.locator('#search').fill('hot');
    await legend.getByText('found').waitFor();
    await page.context().close();
    const base = path.join(home, 'base3.txt');
    await writeFile(base, 'main;other 900\nmain;fresh 100\n');
    const diff = await show(await flamePage('legend', 'main;other 100\nmain;fresh 900\n', '--diff', base));
    const words = await diff.getByRole('list', { name: 'colours' }).getByRole('listitem').allTextContents();
    assert.equal(words.length, 5);
    assert.match(words[0], /less/);
    assert.match(words[4], /more/);
    // The legend's strongest colours are those of the frames that changed most.
    const swatches = await diff.locator('#legend .swatch').evaluateAll((all) => all.map((one) => one.style.background));
    const fill = (name) => frame(diff, name).locator('rect').evaluate((rect) => {
      const probe = document.createElement('i');
      probe.style.background = rect.getAttribute('fill');
      return probe.style.background;
    });
    assert.equal(await fill('fresh'), swatches[4]);
    assert.equal(await fill('other'), swatches[0]);
    assert.equal(await fill('main'), swatches[2]);
    await diff.context().close();
  });

  await t.test('a screen reader is told what each frame is, and the tab key stops once in the graph', async () => {
    const page = await show(small);
    await page.getByRole('group', { name: /flame graph/ }).waitFor();
    await page.getByRole('button', { name: /\*hot · \/srv\/app\.js:3 · app · 300 samples \(30\.0%\) · at the top 0 samples/ }).waitFor();
    assert.equal(await page.locator('g.frame[tabindex="0"]').count(), 1);
    await frame(page, 'other').focus();
    assert.equal(await page.locator('g.frame[tabindex="0"]').count(), 1);
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute('tabindex')), '0');
    assert.match(await page.locator('#detail').textContent(), /other/);
    for (const unnamed of await page.locator('button, input').all()) assert.notEqual((await unnamed.getAttribute('aria-label')) ?? (await unnamed.textContent()), '');
    assert.equal(await page.getByRole('table', { name: 'hottest functions' }).getByRole('columnheader').count(), 6);
    await page.context().close();
  });

  await t.test('the table of hottest functions has times, kinds and places, and finds a function', async () => {
    const page = await show(small);
    const rows = await page.locator('#hot tbody tr').evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
    assert.deepEqual(rows[0], ['300 samples', '30.0%', '30.0%', 'kernel', 'read', '']);
    assert.deepEqual(rows.find((row) => row[4] === '~hot'), ['200 samples', '20.0%', '20.0%', 'app', '~hot', '/srv/app.js:3']);
    const button = page.getByRole('button', { name: 'find C:\\dir\\"q"' });
    await button.focus();
    await page.keyboard.press('Enter');
    await page.getByText('matched 15.0%').waitFor();
    await page.keyboard.press('Escape');
    assert.equal(await page.locator('#share').textContent(), '');
    await page.keyboard.press('Control+f');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'search');
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  });

  await t.test('on paper it is the graph, in colour and as wide as the paper, without the buttons', async () => {
    const page = await open(instance, small, { colorScheme: 'dark' });
    await frame(page, 'main').waitFor();
    await page.emulateMedia({ media: 'print' });
    assert.equal(await page.locator('#bar').isVisible(), false);
    // Paper is narrower than the window, and nothing tells the page to draw itself anew.
    const width = await page.evaluate(() => {
      document.body.style.width = '600px';
      return document.querySelector('#graph svg').getBoundingClientRect().width;
    });
    assert.ok(width <= 600 && width > 500, `${width}`);
    assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), 'rgb(255, 255, 255)');
    const pdf = await page.pdf({ format: 'A4', printBackground: true });
    assert.equal(pdf.subarray(0, 5).toString(), '%PDF-');
    await page.context().close();
  });

  await t.test('functions on one line of minified code are told apart by their column', async () => {
    const page = await show(await flamePage('minified', 'a /srv/app.min.js:1:10;b /srv/app.min.js:1:90 300\na /srv/app.min.js:1:500 200\n'));
    assert.equal(await frame(page, 'a').count(), 2);
    assert.equal(await page.locator('#hot tbody tr').count(), 3);
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
