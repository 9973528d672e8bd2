// The live page of a real service in Chromium. Argument: the service (tests/e2e/ops/server.c).
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { browser, DEADLINE_MS } from './page.mjs';

const server = path.resolve(process.argv[2]);
const hasRedis = (process.env.PATH ?? '').split(':').some((folder) => existsSync(path.join(folder, 'redis-server')));

async function until(condition, what) {
  for (const end = Date.now() + DEADLINE_MS; Date.now() < end; ) {
    const value = await condition();
    if (value) return value;
    await new Promise((next) => setTimeout(next, 20));
  }
  assert.fail(`did not happen: ${what}`);
}

/** Starts it; {service, admin}: the two addresses. Ended by its pid. */
async function start(t, ...options) {
  const dir = await mkdtemp(path.join(tmpdir(), 'donmaz-live-'));
  const log = path.join(dir, 'log');
  const process = spawn(server, ['--port', '0', '--admin', '0', '--log', log, ...options], { stdio: 'ignore' });
  t.after(async () => {
    if (process.exitCode === null && process.signalCode === null) {
      process.kill('SIGTERM');
      await once(process, 'exit');
    }
    await rm(dir, { recursive: true, force: true });
  });
  const said = (pattern) => until(async () => (await readFile(log, 'utf8').catch(() => '')).match(pattern)?.[1], pattern);
  return { process, service: await said(/listening on (http:\/\/[^"]+)"/), admin: await said(/metrics on (http:\/\/[^"]+)\/metrics/) };
}

/** The page, with everything it complains about and every request it makes to somebody else. */
async function open(instance, admin, options = {}) {
  const context = await instance.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(DEADLINE_MS);
  const page = await context.newPage();
  page.complaints = [];
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && page.complaints.push(message.text()));
  page.on('pageerror', (error) => page.complaints.push(String(error)));
  page.on('request', (request) => !request.url().startsWith(admin) && !/^data:/.test(request.url()) && page.complaints.push(`request: ${request.url()}`));
  await page.goto(`${admin}/donmaz`);
  await page.getByText('Read every second.').waitFor();
  return page;
}

const row = (page, table, name) => page.getByRole('region', { name: table, exact: true }).locator('tbody tr', { has: page.locator('th', { hasText: name }) });
const cells = (line) => line.locator('th, td').allTextContents();

test('the live page', async (t) => {
  const { process, service, admin } = await start(t);
  const instance = await browser(t);
  await fetch(service);
  const page = await open(instance, admin);

  await t.test('shows the service at a glance, its loops, pools and process', async () => {
    assert.equal(await page.title(), 'donmaz, live');
    for (const name of ['Requests / s', 'Latency, p99', 'Loop lag, now', 'Rescues / s', 'Connections', 'CPU (1 core = 100 %)', 'Memory'])
      assert.ok(await page.locator('dt', { hasText: name }).isVisible(), name);
    assert.match((await page.locator('.tile', { hasText: 'Memory' }).locator('dd').textContent()), /^\d+(\.\d)? (MB|KB)$/);
    assert.equal(await row(page, 'Loops', '0').count(), 1);
    assert.equal(await row(page, 'Pools', 'heavy').count(), 1);
    assert.equal((await cells(row(page, 'Processes', 'the service')))[1], 'up');
  });

  await t.test('follows the requests without being loaded again', async () => {
    const total = async () => Number((await cells(row(page, 'Routes', 'GET /')))[4]);
    await until(async () => (await total()) === 1, 'the first request on the page');
    for (let i = 0; i < 5; i++) assert.equal((await fetch(service)).status, 200);
    assert.equal((await fetch(`${service}/absent`)).status, 404);
    await until(async () => (await total()) === 6, 'six requests on the page');
    await until(async () => (await row(page, 'Routes', '(no route)').count()) === 1, 'the route of a 404');
    await until(async () => (await cells(row(page, 'Routes', '(no route)')))[5] === '1', 'its status');
  });

  await t.test('shows rescues per route', async () => {
    await until(async () => {
      await Promise.all([1, 2, 3].map(() => fetch(`${service}/compute/a`)));
      const line = row(page, 'Routes', '/compute/:what');
      return (await line.count()) && Number((await cells(line))[7]) > 0;
    }, 'a rescue on the page');
  });

  await t.test('can be paused and goes on', async () => {
    const button = page.getByRole('button', { name: 'Pause' });
    await button.focus();
    await page.keyboard.press('Enter');
    assert.equal(await button.getAttribute('aria-pressed'), 'true');
    await page.getByText('Paused.').waitFor();
    await page.keyboard.press('Enter');
    await page.getByText('Read every second.').waitFor();
    assert.equal(await button.getAttribute('aria-pressed'), 'false');
  });

  await t.test('asks nobody else and complains of nothing, in light, dark and small', async () => {
    for (const [options, ground] of [[{ colorScheme: 'light' }, 'rgb(255, 255, 255)'], [{ colorScheme: 'dark' }, 'rgb(22, 24, 27)'], [{ viewport: { width: 380, height: 700 } }, 'rgb(255, 255, 255)']]) {
      const other = await open(instance, admin, options);
      await row(other, 'Routes', 'GET /').first().waitFor();
      assert.equal(await other.evaluate(() => getComputedStyle(document.body).backgroundColor), ground);
      const overflow = await other.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(overflow <= 0, `the page is ${overflow} px wider than the window`);
      assert.deepEqual(other.complaints, []);
      await other.context().close();
    }
    assert.deepEqual(page.complaints, []);
  });

  await t.test('can be read by everyone: names, headings, contrast', async () => {
    assert.equal(await page.locator('html').getAttribute('lang'), 'en');
    assert.equal(await page.locator('h1').count(), 1);
    assert.equal(await page.locator('table:not(:has(caption))').count(), 0);
    assert.equal(await page.locator('th:not([scope])').count(), 0);
    assert.equal(await page.locator('svg:not([aria-hidden=true])').count(), 0);
    assert.equal(await page.locator('[role=status]').count(), 1);
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme });
      const low = await page.evaluate(() => {
        const parts = (color) => color.match(/[\d.]+/g).map(Number);
        const light = (color) => {
          const [r, g, b] = parts(color).map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const ground = (e) => { // WCAG 2, 1.4.3: 4.5 to 1
          for (; e; e = e.parentElement) if (parts(getComputedStyle(e).backgroundColor)[3] !== 0) return getComputedStyle(e).backgroundColor;
          return 'rgb(255, 255, 255)';
        };
        return [...document.querySelectorAll('h1, h2, p, th, td, dt, dd, a, button, caption')].filter((e) => e.checkVisibility() && e.textContent.trim()).filter((e) => {
          const [a, b] = [light(getComputedStyle(e).color), light(ground(e))].sort((x, y) => y - x);
          return (a + 0.05) / (b + 0.05) < 4.5;
        }).map((e) => `${e.tagName} ${e.textContent}`);
      });
      assert.deepEqual(low, [], colorScheme);
    }
  });

  await t.test('says when the service is gone, and keeps the last figures', async () => {
    process.kill('SIGKILL');
    await page.getByText(/^No answer: .* trying again\.$/).waitFor();
    assert.equal(await row(page, 'Loops', '0').count(), 1);
  });
});

test('the live page shows stalls, a pool of the program, Redis and overload protection', async (t) => {
  if (!hasRedis) return t.skip('redis-server is not installed');
  const { service, admin } = await start(t, '--everything', '--shed', 'adaptive', '--rescue-after', '0');
  const instance = await browser(t);
  for (const path of ['/task', '/value', '/value', '/compute/it']) {
    while ((await fetch(service + path)).status === 503); // a machine that is slow is overloaded, too
  }
  const page = await open(instance, admin);
  const number = async (table, name, column) => Number((await cells(row(page, table, name).first()))[column]);
  await until(async () => (await row(page, 'Pools', 'jobs').count()) === 1, 'the pool');
  await until(async () => (await number('Redis', 'cache hits', 1)) + (await number('Redis', 'cache misses', 1)) === 2, 'the reads from Redis');
  assert.equal(await number('Redis', 'connected', 1), 1);
  assert.ok((await number('Overload protection', 'admitted', 1)) >= 4);
  assert.ok((await number('Overload protection', 'limit', 1)) >= 1);
  await until(async () => (await row(page, 'Loops', '0').count()) === 1, 'the loop');
  const heads = await page.getByRole('region', { name: 'Loops', exact: true }).locator('thead th').allTextContents();
  for (const head of ['lag', 'Stalls']) assert.ok(heads.some((text) => text.toLowerCase().includes(head.toLowerCase())), `${head} in ${heads}`);
  assert.deepEqual(page.complaints, []);
});

test('the live page of a cluster names each process', async (t) => {
  const { service, admin } = await start(t, '--processes', '2');
  const instance = await browser(t);
  await fetch(service);
  const page = await open(instance, admin);
  await until(async () => (await row(page, 'Processes', 'worker').count()) === 2, 'two workers');
  assert.equal(await row(page, 'Loops', 'worker 2, 0').count(), 1);
  await until(async () => (await cells(row(page, 'Routes', 'GET /')))[4] === '1', 'the request on the page');
  assert.deepEqual(page.complaints, []);
});
