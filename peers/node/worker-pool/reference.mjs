// What reference 2 measures, in Node and Piscina, as routes of a service: those of
// bench/worker_pool, measured the same way. bench/worker_pool.py asks both in turn.
//   node reference.mjs --catalogue FILE [--host H] [--port P] [--nice N]
// Plain node:http, and bodies are received into one array of their size: Node at its best.
import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';
import { Piscina } from 'piscina';
import { parseCatalogCsv } from './catalog.mjs';

const { values } = parseArgs({
  options: {
    catalogue: { type: 'string' },
    host: { type: 'string', default: '127.0.0.1' },
    port: { type: 'string', default: '3000' },
    nice: { type: 'string', default: '0' },
  },
});
if (!values.catalogue) {
  console.error('usage: node reference.mjs --catalogue FILE [--host H] [--port P] [--nice N]');
  process.exit(2);
}
const file = readFileSync(values.catalogue);
const fresh = () => Uint8Array.from(file); // owns its whole ArrayBuffer
const catalogTask = new URL('./catalog.mjs', import.meta.url).href;
const trivialUrl = new URL('./trivial.mjs', import.meta.url);
const newPool = (threads, filename, options = {}) =>
  new Piscina({ filename, minThreads: threads, maxThreads: threads, idleTimeout: 3_600_000,
    niceIncrement: Number(values.nice), workerData: { catalogue: values.catalogue }, ...options });

// The pools of the other side: one worker and four that stay.
const warm = newPool(1, catalogTask);
const four = newPool(4, catalogTask);
const sized = newPool(Math.max(1, availableParallelism() - 1), catalogTask);
const trivial = newPool(1, trivialUrl.href);
await Promise.all([
  warm.run({ bytes: fresh() }),
  ...[0, 1, 2, 3].map(() => four.run({ bytes: fresh() })),
  sized.run({ bytes: fresh() }),
  trivial.run({}),
]);
for (let i = 0; i < 3; i++) parseCatalogCsv(file); // compiled on this thread, too

async function timed(run) {
  const start = performance.now();
  const value = await run();
  return { ms: performance.now() - start, value };
}
const median = (list) => list.sort((a, b) => a - b)[list.length >> 1];
const move = (bytes) => ({ transferList: [bytes.buffer] });

async function parse() {
  const bytes = fresh();
  const { ms, value } = await timed(() => warm.run({ bytes }, move(bytes)));
  return { wall_ms: ms, summary: value };
}

async function copy() {
  const hand = (bytes, transferList) => {
    const start = performance.now();
    const done = trivial.run({ bytes }, { transferList });
    return { ms: performance.now() - start, left: bytes.byteLength, done };
  };
  const copied = hand(fresh(), []);
  await copied.done;
  const bytes = fresh();
  const moved = hand(bytes, [bytes.buffer]);
  await moved.done;
  return { copy_ms: copied.ms, copy_left: copied.left, transfer_ms: moved.ms, transfer_left: moved.left };
}

// As watch.c: by how much a timer of 1 ms comes late at worst, and the CPU time that this thread used
// meanwhile, at most as much as the timer was late (a turn of the loop can't be measured from here).
const cpu = () => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};
let watching = false;
async function watch() {
  let last = performance.now();
  let used = cpu();
  let longest = 0;
  let most = 0;
  watching = true;
  while (watching) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    const now = performance.now();
    const usedNow = cpu();
    longest = Math.max(longest, now - last - 1);
    most = Math.max(most, Math.min(now - last - 1, usedNow - used));
    last = now;
    used = usedNow;
  }
  return { longest_stall_ms: longest, turn_cpu_ms: most };
}
function watchEnd() {
  const was = watching;
  watching = false;
  return { was };
}

const fourOnLoop = async () => ({ ms: (await timed(() => {
  for (let i = 0; i < 4; i++) parseCatalogCsv(file);
})).ms });

let copies = []; // made before, with the loop not watched
function makeCopies() {
  copies = [fresh(), fresh(), fresh(), fresh()];
  return {};
}
async function fourOnPool() {
  const { ms } = await timed(() =>
    Promise.all(copies.map((bytes) => four.run({ bytes }, move(bytes)))));
  return { ms };
}

async function counter() {
  const result = {};
  for (const kind of ['plain', 'atomic']) {
    const shared = new Int32Array(new SharedArrayBuffer(8)); // the counter, who has arrived
    await Promise.all([0, 1, 2, 3].map(() => counters.run({ shared, kind }, { name: 'count' })));
    result[kind] = shared[0];
  }
  return result;
}
const counters = newPool(4, trivialUrl.href);

async function warmAgainstNew() {
  const cold = await timed(async () => {
    for (let i = 0; i < 50; i++) await onNewWorker();
  });
  await trivial.run({});
  const warmed = await timed(async () => {
    for (let i = 0; i < 50; i++) await trivial.run({});
  });
  return { new_worker_each_ms: cold.ms, warm_ms: warmed.ms };
}
async function onNewWorker() {
  const worker = new Worker(trivialUrl, { workerData: { once: true } });
  await once(worker, 'message');
  await worker.terminate();
}

// Five rounds as on the other side: their median, and the best rate.
async function dispatch() {
  const trips = [];
  let most = 0;
  const one = async (count) => {
    const times = [];
    for (let i = 0; i < count; i++) {
      const start = performance.now();
      await trivial.run({});
      times.push(performance.now() - start);
    }
    return median(times);
  };
  await one(2000);
  for (let round = 0; round < 5; round++) {
    trips.push(await one(4000));
    const { ms } = await timed(async () => {
      for (let sent = 0; sent < 20_000; sent += 500)
        await Promise.all(Array.from({ length: 500 }, () => trivial.run({})));
    });
    most = Math.max(most, 20_000 / (ms / 1000));
  }
  return { round_trip_p50_us: median(trips) * 1000, tasks_per_second: most };
}

// The books themselves: half a million objects through structured clone.
async function books() {
  const bytes = fresh();
  const { ms, value } = await timed(() => warm.run({ bytes, collect: true }, move(bytes)));
  return { total_ms: ms, parse_ms: value.parseMs, back_ms: ms - value.parseMs, books: value.books.length };
}

// A client asks for this and goes away; /beat tells when the task last computed.
const beatBoard = new BigInt64Array(new SharedArrayBuffer(8));
const burners = newPool(1, trivialUrl.href);
async function burn(req, res) {
  const abort = new AbortController();
  res.once('close', () => res.writableFinished || abort.abort());
  await burners.run({ beat: beatBoard }, { name: 'burn', signal: abort.signal });
}
const beat = () => ({ ns: String(Atomics.load(beatBoard, 0)) });

async function receive(req) {
  const bytes = new Uint8Array(Number(req.headers['content-length']));
  let length = 0;
  for await (const chunk of req) {
    bytes.set(chunk, length);
    length += chunk.length;
  }
  return bytes;
}
async function upload(req) {
  const bytes = await receive(req);
  return sized.run({ bytes }, move(bytes));
}

const routes = {
  '/health': () => ({ ok: true }),
  '/task': async () => { await trivial.run({}); return 'done'; },
  '/cold-task': async () => { await onNewWorker(); return 'done'; },
  '/validate': () => four.run({ held: true }),
  '/watch': watch, '/watch/end': watchEnd,
  '/copies': makeCopies, '/four/loop': fourOnLoop, '/four/pool': fourOnPool,
  '/parts/parse': parse, '/parts/copy': copy, '/parts/counter': counter,
  '/parts/warm': warmAgainstNew, '/parts/books': books, '/parts/dispatch': dispatch,
  '/burn': burn, '/beat': beat, '/upload': upload,
};
const server = createServer(async (req, res) => {
  const route = routes[req.url];
  try {
    const result = route ? await route(req, res) : { error: 'no such route' };
    const text = typeof result === 'string' ? result : JSON.stringify(result);
    res.writeHead(route ? 200 : 404, {
      'Content-Type': typeof result === 'string' ? 'text/plain' : 'application/json',
      'Content-Length': Buffer.byteLength(text),
    });
    res.end(text);
  } catch (error) {
    if (error.name !== 'AbortError') res.writeHead(500).end(error.message);
  }
});
server.listen(Number(values.port), values.host, () =>
  console.log(`listening on http://${values.host}:${server.address().port}`));
for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, () => process.exit(0));
