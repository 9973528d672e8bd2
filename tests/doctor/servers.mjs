// Small servers, each with one known fault or none: what donmaz doctor is examined with.
// usage: node servers.mjs CASE
import cluster from 'node:cluster';
import { execSync } from 'node:child_process';
import { pbkdf2, randomBytes } from 'node:crypto';
import { EventEmitter } from 'node:events';
import http from 'node:http';
import net from 'node:net';
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/* CPU time, not wall time: on a busy machine the work stays the same. */
function burn(ms) {
  const start = process.cpuUsage();
  for (;;) {
    const used = process.cpuUsage(start);
    if (used.user + used.system >= ms * 1000) return;
    for (let i = 0; i < 2000; i++) Math.sqrt(i);
  }
}

function fib(n) {
  return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

function serve(handler) {
  const server = http.createServer(async (req, res) => {
    const body = await handler(req, res);
    res.end(body === undefined ? 'ok\n' : String(body));
  });
  server.listen(0, '127.0.0.1');
}

/* A pool that computes in worker threads, as many as asked for. */
function pool(count, ms) {
  const idle = [], waiting = [];
  for (let i = 0; i < count; i++) {
    const worker = new Worker(new URL(import.meta.url), { workerData: { burn: ms } });
    const turn = () => (waiting.length ? run(worker, waiting.shift()) : idle.push(worker));
    worker.on('message', () => { const done = worker.done; turn(); done(); });
    idle.push(worker);
  }
  function run(worker, done) { worker.done = done; worker.postMessage(0); }
  return () => new Promise((done) => (idle.length ? run(idle.pop(), done) : waiting.push(done)));
}

/* Burns `ms` and counts it by the thread's own clock, since cpuUsage is the whole process's. */
function burnThread(ms) {
  const start = process.threadCpuUsage ? process.threadCpuUsage() : null;
  if (!start) { for (let n = 0; n < ms; n++) fib(21); return; }
  for (;;) {
    const used = process.threadCpuUsage(start);
    if (used.user + used.system >= ms * 1000) return;
    for (let i = 0; i < 2000; i++) Math.sqrt(i);
  }
}

const cases = {
  // healthy
  hello: () => serve(() => 'hello'),
  json: () => serve(() => JSON.stringify({ a: [1, 2, 3], at: Date.now() })),
  quick_wait: () => serve(async () => { await sleep(3); }),
  rare_hiccup: () => { setTimeout(function hiccup() { burn(45); }, 1500); serve(async () => { await sleep(2); }); },
  bounded_cache: () => {
    const cache = new Map();
    let n = 0;
    serve(async () => {
      await sleep(5);
      if (cache.size < 60) cache.set(n++, randomBytes(100_000).toString('hex'));
    });
  },
  worker_pool_light: () => { const run = pool(1, 2); serve(async () => { await sleep(10); await run(); }); },

  // blocked loop
  fib_in_handler: () => serve(function slowFib() { return fib(31); }),
  big_json: () => {
    const data = Array.from({ length: 60_000 }, (_, i) => ({ i, name: `item ${i}`, list: [i, i + 1] }));
    serve(function bigJson() { return JSON.stringify(data).length; });
  },
  timer_blocks: () => {
    setInterval(function rebuild() { burn(120); }, 250);
    serve(() => 'quick');
  },
  sync_child: () => serve(function shellOut() { execSync('sleep 0.06'); }),
  listener_pile: () => {
    const bus = new EventEmitter().setMaxListeners(Infinity);
    serve(() => {
      bus.on('done', function forgotten() { burn(0.4); });
      bus.emit('done');
    });
  },
  regex: () => serve(function validate() { return /^(\w+\s?)*$/.test('aaaaaaaaaaaaaaaaaaaaaaaa!'); }),
  one_in_five: () => { let n = 0; serve(function mixed() { if (n++ % 5 === 0) burn(90); }); },
  hangs: () => { let n = 0; serve(function hang() { if (++n > 50) for (;;) n++; }); },
  in_worker_cluster: () => {
    if (cluster.isPrimary) cluster.fork();
    else serve(function clusterFib() { return fib(31); });
  },

  // too few cores
  cluster_of_five: () => {
    if (cluster.isPrimary) for (let i = 0; i < 5; i++) cluster.fork();
    else serve(() => { burn(4); });
  },
  many_workers: () => { const run = pool(6, 20); serve(async () => { await run(); }); },
  crypto_pool: () => serve(() => new Promise((done) => pbkdf2('x', 'y', 60_000, 64, 'sha512', () => done()))),

  // garbage collection
  live_heap: () => {
    const keep = Array.from({ length: 400_000 }, (_, i) => ({ i, list: [i, { i }] }));
    let at = 0;
    serve(function replace() {
      for (let i = 0; i < 2000; i++) keep[(at = (at + 7919) % keep.length)] = { i, list: [i, { i }] };
    });
  },
  survivors: () => {
    const build = () => Array.from({ length: 2000 }, (_, i) => ({ a: { b: { c: { d: [i, { i }] } } } }));
    const ring = Array.from({ length: 120 }, build);
    let at = 0;
    serve(() => { ring[at++ % ring.length] = build(); });
  },

  // memory growth
  leak_objects: () => {
    const seen = [];
    serve(async (req) => {
      await sleep(4);
      seen.push({ url: req.url, at: Date.now(), body: Array.from({ length: 4000 }, (_, i) => i + 0.5) });
    });
  },
  leak_buffers: () => { const kept = new Map(); let n = 0; serve(async () => { await sleep(4); kept.set(n++, randomBytes(40_000)); }); },
  leak_closures: () => {
    const bus = new EventEmitter().setMaxListeners(0);
    serve(async () => {
      await sleep(4);
      const big = new Array(5000).fill(1.5);
      bus.on('never', () => big.length);
    });
  },

  // waiting for an outside service
  slow_timer: () => serve(async () => { await sleep(120); }),
  slow_upstream: () => {
    const upstream = net.createServer((s) => s.on('data', () => setTimeout(() => s.end('answer'), 80)).on('error', () => {}));
    upstream.listen(`\0donmaz-upstream-${process.pid}`, () => serve(() => new Promise((done) => {
      const s = net.connect(`\0donmaz-upstream-${process.pid}`);
      s.on('error', done).on('data', (d) => done(d)).write('question');
    })));
  },
  two_waits: () => serve(async () => { await sleep(30); burn(1); await sleep(30); }),

  // overloaded: many requests, each cheap
  cheap_many: () => serve(() => { burn(0.7); }),
  cheap_async: () => serve(async () => { await null; burn(1); }),

  // not enough data
  idle: () => serve(() => 'never asked'),
};

if (!isMainThread) {
  parentPort.on('message', () => { burnThread(workerData.burn); parentPort.postMessage(0); });
} else {
  const name = process.argv[2];
  if (!Object.hasOwn(cases, name)) {
    console.error(`usage: node servers.mjs ${Object.keys(cases).join('|')}`);
    process.exit(2);
  }
  cases[name]();
}
