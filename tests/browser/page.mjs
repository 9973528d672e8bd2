// What the page tests share: a browser, a page that notes everything it complains about, a temporary
// folder, and the runner of `donmaz`.
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';

const { chromium } = await import(pathToFileURL(process.env.PLAYWRIGHT).href);

export const run = promisify(execFile);

/** For the browser's start and anything a page must come to show; far above what it takes, because the
 * machine may be busy. */
export const DEADLINE_MS = 90_000;

const endings = new WeakMap();

/** At the end of the test, the last first (node:test's own hooks begin with the first): a browser is
 * closed before the folder it writes to is removed. Each is tried, whatever became of the others. */
function atEnd(t, undo) {
  if (!endings.has(t)) {
    endings.set(t, []);
    t.after(async () => {
      const errors = [];
      for (const one of endings.get(t).reverse())
        await Promise.resolve().then(one).catch((error) => errors.push(error));
      if (errors.length) throw errors[0];
    });
  }
  endings.get(t).push(undo);
}

export async function folder(t) {
  const name = await mkdtemp(path.join(tmpdir(), 'donmaz-page-'));
  atEnd(t, () => rm(name, { recursive: true, force: true, maxRetries: 10 }));
  return name;
}

export async function browser(t) {
  const instance = await chromium.launch({
    executablePath: process.env.CHROMIUM,
    timeout: DEADLINE_MS,
    args: ['--no-sandbox', '--disable-gpu'], // as root in a container there is no sandbox to have
  });
  atEnd(t, () => instance.close());
  return instance;
}

/** Opens a file with the network off; page.complaints holds console errors and requests made. */
export async function open(instance, file, options = {}) {
  const context = await instance.newContext({ offline: true, acceptDownloads: true, viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(DEADLINE_MS);
  const page = await context.newPage();
  page.complaints = [];
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && page.complaints.push(message.text()));
  page.on('pageerror', (error) => page.complaints.push(String(error)));
  page.on('request', (request) => !/^(file|data|blob):/.test(request.url()) && page.complaints.push(`request: ${request.url()}`));
  await page.goto(pathToFileURL(file).href);
  await page.waitForSelector('h1');
  return page;
}

/** A browser whose own developer tools are served as pages, at an address of this machine. */
export async function launchWithDevTools(t, home) {
  const context = await chromium.launchPersistentContext(home, {
    executablePath: process.env.CHROMIUM,
    args: ['--no-sandbox', '--disable-gpu', '--remote-debugging-port=0'],
    acceptDownloads: true,
    timeout: DEADLINE_MS,
  });
  context.setDefaultTimeout(DEADLINE_MS);
  atEnd(t, () => context.close());
  let port = '';
  for (const deadline = Date.now() + DEADLINE_MS; !port && Date.now() < deadline; await new Promise((next) => setTimeout(next, 20)))
    [port] = (await readFile(path.join(home, 'DevToolsActivePort'), 'utf8').catch(() => '')).split('\n');
  return { context, devtools: `http://127.0.0.1:${port}` };
}
