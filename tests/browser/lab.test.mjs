// The page of `donmaz lab run`, of a real run against a small server. Arguments: DONMAZ, the lab's
// test folder, the sources of the pages.
import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import test from 'node:test';
import { browser, folder, open, run } from './page.mjs';

const [donmaz, labTests, web] = process.argv.slice(2).map((a) => path.resolve(a));

const EXPERIMENT = `title: A try of <b>markup</b> & "quotes" </script><script>window.broken = true</script>
startups: 1
settle: 0s
phases:
  - {name: first, duration: 300ms, endpoints: [{path: /fast, connections: 2}]}
  - {name: both, duration: 300ms, endpoints: [{path: /fast}, {path: /slow}]}
stacks:
  - {name: one a, command: 'python3 SERVER --host {{host}} --port {{port}}', ready: {http: /health}}
  - {name: one b, command: 'python3 SERVER --host {{host}} --port {{port}}', ready: {http: /health}}
  - {name: two, command: 'python3 SERVER --host {{host}} --port {{port}}', ready: {http: /health}}
  - {name: absent, command: 'none {{port}}', needs: [{file: not/there, hint: build it}]}
`;

/** What the page should show for a number, written down independently of the page. */
function shown(value) {
  if (value === null) return '–';
  const size = Math.abs(value);
  return value.toFixed(size >= 100 || size < 1e-9 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

const SCALE = { rss_kb: 1024, rss_idle_kb: 1024, rss_max_kb: 1024 };

function lookUp(stack, { metric, phase, path: endpoint }) {
  const inPhase = phase ? stack.phases.find((p) => p.name === phase) : stack;
  const holder = endpoint ? inPhase.endpoints.find((e) => e.path === endpoint) : inPhase;
  return typeof holder[metric] === 'number' ? holder[metric] / (SCALE[metric] ?? 1) : null;
}

test('the report page of a lab run', async (t) => {
  const home = await folder(t);
  const file = path.join(home, 'report.html');
  await writeFile(path.join(home, 'try.yaml'), EXPERIMENT.replaceAll('SERVER', path.join(labTests, 'server.py')).replace(/^title: (.*)$/m, (_, title) => `title: '${title}'`));
  await run(donmaz, ['lab', 'run', 'try.yaml', '--repeat', '3', '--json', 'out.json', '--csv', 'out.csv', '--html', file], { cwd: home });
  const doc = JSON.parse(await readFile(path.join(home, 'out.json'), 'utf8'));
  const instance = await browser(t);
  const page = await open(instance, file);
  const measured = doc.stacks.filter((s) => s.phases.length);
  const results = page.locator('section', { has: page.getByRole('heading', { name: 'Results' }) });

  await t.test('shows the title as text, never as markup', async () => {
    assert.equal(await page.locator('h1').textContent(), doc.title);
    assert.equal(await page.evaluate(() => window.broken), undefined);
  });

  await t.test('every figure of the table equals the JSON', async () => {
    const rows = await results.locator('tbody tr').evaluateAll((trs) => trs.map((tr) => [...tr.children].map((c) => c.textContent)));
    assert.equal(rows.length, 3);
    for (const [i, stack] of measured.entries())
      assert.deepEqual(rows[i], [stack.name, ...doc.table.map((row) => shown(lookUp(stack, row)))]);
  });

  await t.test('every figure beside a bar equals the JSON', async () => {
    const figures = page.locator('.bars figure');
    assert.equal(await figures.count(), doc.table.length);
    for (const [i, row] of doc.table.entries()) {
      const values = await figures.nth(i).locator('.value').allTextContents();
      assert.deepEqual(values, measured.map((stack) => shown(lookUp(stack, row))));
    }
  });

  await t.test('has a line for every endpoint of a phase with several, as in the JSON', async () => {
    const each = page.locator('section', { has: page.getByRole('heading', { name: 'Each endpoint' }) });
    assert.equal(await each.locator('table').count(), 1); // the phase 'first' has only one
    const rows = await each.locator('tbody tr').evaluateAll((trs) => trs.map((tr) => [...tr.children].map((c) => c.textContent)));
    const wanted = measured.flatMap((stack) => stack.phases[1].endpoints.map((end) =>
      [stack.name, end.path, ...[end.rps, end.share_percent, end.p50_ms, end.p99_ms, end.errors, end.non2xx].map(shown)]));
    assert.deepEqual(rows, wanted);
    const shares = measured[0].phases[1].endpoints.map((end) => end.share_percent);
    assert.ok(Math.abs(shares[0] + shares[1] - 100) < 1e-6, String(shares));
  });

  await t.test('says what was skipped, and why', async () => {
    assert.ok(await page.getByText('absent was skipped: not/there is missing: build it').isVisible());
  });

  await t.test('a column heading sorts by its numbers, by keyboard too, and says so', async () => {
    const head = results.locator('th[scope=col]').nth(1);
    const column = () => results.locator('tbody tr').evaluateAll((trs) => trs.map((tr) => Number(tr.children[1].textContent)));
    await head.locator('button').focus();
    await page.keyboard.press('Enter');
    assert.equal(await head.getAttribute('aria-sort'), 'ascending');
    const up = await column();
    assert.deepEqual(up, [...up].sort((a, b) => a - b));
    await page.keyboard.press('Enter');
    assert.equal(await head.getAttribute('aria-sort'), 'descending');
    assert.deepEqual(await column(), [...up].reverse());
  });

  await t.test('a stack can be taken out of the charts', async () => {
    const box = page.getByLabel('one b', { exact: true });
    await box.uncheck();
    assert.equal(await page.locator('.bar[data-stack="one b"]:visible').count(), 0);
    assert.equal(await page.locator('.bar[data-stack="one a"]:visible').count(), doc.table.length);
    await box.check();
    assert.equal(await page.locator('.bar[data-stack="one b"]:visible').count(), doc.table.length);
  });

  await t.test('gives back the JSON and the CSV it was made from', async () => {
    const get = async (name) => {
      const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name }).click()]);
      return readFile(await download.path(), 'utf8');
    };
    assert.deepEqual(JSON.parse(await get('Download JSON')), doc);
    const parse = (csv) => csv.trim().split('\n').slice(1).map((line) => line.split(',')).map(([s, p, e, m, v]) => [s, p, e, m, Number(v).toPrecision(6)].join()).sort();
    assert.deepEqual(parse(await get('Download CSV')), parse(await readFile(path.join(home, 'out.csv'), 'utf8')));
  });

  await t.test('tells how to repeat it: command lines and versions', async () => {
    for (const stack of measured) assert.ok((await page.locator('pre').allTextContents()).includes(stack.command), stack.name);
  });

  await t.test('charts hold the latency curve of every endpoint', async () => {
    const chart = page.locator('figure.chart', { hasText: 'Latency of /slow, both' });
    assert.equal(await chart.count(), 1);
    await chart.locator('canvas').waitFor();
    const run0 = doc.runs.find((r) => r.stack === 'two');
    const curve = run0.phases[1].endpoints[1].curve;
    await chart.locator('summary').click({ force: true });
    const cells = await chart.locator('details table', { hasText: 'two' }).locator('tr').nth(1).locator('td').allTextContents();
    assert.deepEqual(cells, curve.map(([, ms]) => shown(ms)));
    assert.equal(shown(curve.at(-1)[1]), shown(run0.phases[1].endpoints[1].max_ms));
  });

  await t.test('needs no network and complains of nothing, in light, dark, small and print', async () => {
    for (const options of [{ colorScheme: 'dark' }, { viewport: { width: 380, height: 700 } }]) {
      const other = await open(instance, file, options);
      await other.locator('canvas').first().waitFor();
      const ground = await other.evaluate(() => getComputedStyle(document.body).backgroundColor);
      assert.equal(ground, options.colorScheme ? 'rgb(21, 23, 26)' : 'rgb(255, 255, 255)');
      const overflow = await other.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(overflow <= 0, `the page is ${overflow} px wider than the window`);
      assert.deepEqual(other.complaints, []);
    }
    assert.ok((await page.pdf()).length > 10_000);
    assert.deepEqual(page.complaints, []);
  });

  await t.test('names every control and heads every table for screen readers', async () => {
    const unnamed = await page.evaluate(() => [...document.querySelectorAll('button, input, [role=img]')].filter((e) => !(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.[0]?.textContent)).length);
    assert.equal(unnamed, 0);
    assert.equal(await page.locator('table:not(:has(caption), .u-legend)').count(), 0);
    assert.equal(await page.locator('h1').count(), 1);
    assert.equal(await page.locator('html').getAttribute('lang'), 'en');
  });

  await t.test('built without npm it shows the same figures, and says that the charts are missing', async () => {
    const work = path.join(home, 'web');
    const tools = path.join(home, 'bin'); // a PATH without npm
    await mkdir(work);
    await mkdir(tools);
    const python = (await run('python3', ['-c', 'import sys; print(sys.executable)'])).stdout.trim();
    const { stderr } = await run(python, [path.join(web, 'build.py'), web, work, work, 'report'], { env: { PATH: tools, HOME: process.env.HOME } });
    assert.match(stderr, /npm is not installed/);
    const [script, html] = [await readFile(path.join(work, 'report.js'), 'utf8'), await readFile(file, 'utf8')];
    const plain = path.join(home, 'plain.html');
    await writeFile(plain, html.slice(0, html.lastIndexOf('<script>')) + `<script>${script}</script></body></html>`);
    const other = await open(instance, plain);
    const table = (p) => p.locator('section', { has: p.getByRole('heading', { name: 'Results' }) }).locator('tbody').innerText();
    const fresh = await open(instance, file);
    assert.equal(await table(other), await table(fresh));
    assert.ok((await other.getByText('No chart: this donmaz was built without npm').count()) > 0);
    assert.equal(await other.locator('canvas').count(), 0);
    assert.deepEqual(other.complaints, []);
  });
});
