// What reference 2 measures, in Node and Piscina. Prints one JSON object.
//   node bench.mjs CATALOGUE.csv [--only parse,copy,stall,counter,warm,books]
import { readFileSync } from 'node:fs';
import { once } from 'node:events';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';
import { Piscina } from 'piscina';
import { parseCatalogCsv } from './catalog.mjs';

const PARTS = ['parse', 'copy', 'stall', 'counter', 'warm', 'dispatch', 'books'];
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { only: { type: 'string', default: PARTS.join(',') } },
});
const only = values.only.split(',');
if (positionals.length !== 1 || only.some((part) => !PARTS.includes(part))) {
  console.error(`usage: node bench.mjs CATALOGUE.csv [--only ${PARTS.join(',')}]`);
  process.exit(2);
}
const file = readFileSync(positionals[0]);
const fresh = () => Uint8Array.from(file); // owns its whole ArrayBuffer
const filename = new URL('./catalog.mjs', import.meta.url).href;
const newPool = (threads, options = {}) =>
  new Piscina({ filename, minThreads: threads, maxThreads: threads, idleTimeout: 60_000, ...options });

async function timed(run) {
  const start = performance.now();
  const value = await run();
  return { ms: performance.now() - start, value };
}

const median = (list) => list.sort((a, b) => a - b)[list.length >> 1];

// parseMs on one warm worker: the best and the median of nine.
async function parse() {
  const pool = newPool(1);
  const times = [];
  let summary;
  for (let i = 0; i < 12; i++) {
    const bytes = fresh();
    summary = await pool.run({ bytes }, { transferList: [bytes.buffer] });
    if (i >= 3) times.push(summary.parseMs);
  }
  await pool.close();
  return { best_ms: Math.min(...times), median_ms: median(times), imported: summary.imported,
    skipped: summary.skipped, errors: summary.errors };
}

// How long handing the file over keeps the main thread busy, and what the sender keeps.
async function copy() {
  const pool = newPool(1, { filename: new URL('./trivial.mjs', import.meta.url).href });
  await pool.run({});
  const hand = (bytes, transferList) => {
    const start = performance.now();
    const done = pool.run({ bytes }, { transferList });
    return { ms: performance.now() - start, left: bytes.byteLength, done };
  };
  const copied = hand(fresh(), []);
  await copied.done;
  const bytes = fresh();
  const moved = hand(bytes, [bytes.buffer]);
  await moved.done;
  await pool.close();
  return { copy_ms: copied.ms, copy_left: copied.left, transfer_ms: moved.ms, transfer_left: moved.left };
}

// Four catalogues on the main thread, then on a pool; the longest time the loop stood still.
async function stall() {
  const measure = async (run) => {
    const inputs = [fresh(), fresh(), fresh(), fresh()];
    const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
    let last = performance.now();
    let longest = 0;
    const timer = setInterval(() => {
      const now = performance.now();
      longest = Math.max(longest, now - last - 1);
      last = now;
    }, 1);
    await pause(50);
    longest = 0;
    const { ms } = await timed(() => run(inputs));
    await pause(20);
    clearInterval(timer);
    return { ms, longest_stall_ms: longest };
  };
  const main = await measure((inputs) => inputs.forEach((bytes) => parseCatalogCsv(bytes)));
  const pool = newPool(4);
  await Promise.all([0, 1, 2, 3].map(() => pool.run({ bytes: new Uint8Array(1) })));
  const workers = await measure((inputs) =>
    Promise.all(inputs.map((bytes) => pool.run({ bytes }, { transferList: [bytes.buffer] }))));
  await pool.close();
  return { main, workers };
}

// Four workers add a million each, without and with an atomic add.
async function counter() {
  const result = {};
  for (const kind of ['plain', 'atomic']) {
    const shared = new Int32Array(new SharedArrayBuffer(4));
    const pool = newPool(4, { filename: new URL('./trivial.mjs', import.meta.url).href });
    await Promise.all([0, 1, 2, 3].map(() => pool.run({ shared, kind }, { name: 'count' })));
    result[kind] = shared[0];
    await pool.close();
  }
  return result;
}

// 50 tasks: a worker each, then one warm worker.
async function warm() {
  const url = new URL('./trivial.mjs', import.meta.url);
  const cold = await timed(async () => {
    for (let i = 0; i < 50; i++) {
      const worker = new Worker(url, { workerData: { once: true } });
      await once(worker, 'message');
      await worker.terminate();
    }
  });
  const pool = newPool(1, { filename: url.href });
  await pool.run({});
  const warmed = await timed(async () => {
    for (let i = 0; i < 50; i++) await pool.run({});
  });
  await pool.close();
  return { new_worker_each_ms: cold.ms, warm_ms: warmed.ms };
}

// Trivial tasks: the round trip of one at a time, and how many a second when many are under way.
async function dispatch() {
  const pool = newPool(1, { filename: new URL('./trivial.mjs', import.meta.url).href });
  const trips = [];
  for (let i = 0; i < 5000; i++) {
    const start = performance.now();
    await pool.run({});
    if (i >= 1000) trips.push(performance.now() - start);
  }
  const count = 50_000;
  const { ms } = await timed(async () => {
    for (let sent = 0; sent < count; sent += 500)
      await Promise.all(Array.from({ length: 500 }, () => pool.run({})));
  });
  await pool.close();
  return { round_trip_p50_us: median(trips) * 1000, tasks_per_second: count / (ms / 1000) };
}

// Bringing the books themselves back: half a million objects through structured clone.
async function books() {
  const pool = newPool(1);
  const bytes = fresh();
  const { ms, value } = await timed(() =>
    pool.run({ bytes, collect: true }, { transferList: [bytes.buffer] }));
  await pool.close();
  return { total_ms: ms, parse_ms: value.parseMs, clone_ms: ms - value.parseMs, books: value.books.length };
}

const parts = { parse, copy, stall, counter, warm, dispatch, books };
const results = { node: process.version, bytes: file.length };
for (const part of PARTS) if (only.includes(part)) results[part] = await parts[part]();
console.log(JSON.stringify(results, null, 2));
