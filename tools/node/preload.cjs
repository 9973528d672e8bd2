'use strict';
/* Runs inside every Node process and worker thread under a donmaz tool, before the user's code.
 *
 * Writes short lines to a FIFO that the tool reads. Each write is one synchronous call of at most
 * 4096 bytes (PIPE_BUF), which the kernel keeps whole although many processes write. It holds no
 * handle that keeps the process alive; when the tool is gone (EPIPE) or anything here throws, it
 * falls silent and the user's program goes on. It reads no request bodies, headers or environment.
 *
 * Lines, tab-separated, times in microseconds of CLOCK_MONOTONIC:
 *   H tid pid role version number   a thread starts (role: main, cluster, worker)
 *   I tid pid url                its inspector listens here
 *   S tid from to active heap_used heap_total external handles inflight begun longest work
 *                                              one interval of the loop
 *   G tid start duration kind    a garbage-collection pause
 *   R tid t count total sync sync_squared sync_max route   finished requests since the last line
 *   X tid t                      exits now and waits for the tool to fetch its profile
 */
(() => {
  /* The constant is there when the script is put into a process that runs already. */
  const feed = typeof DONMAZ_FEED_PATH === 'string' ? DONMAZ_FEED_PATH : process.env.DONMAZ_FEED;
  const guard = Symbol.for('donmaz.preload'), watched = Symbol.for('donmaz.watched');
  if (!feed || globalThis[guard]) return;

  const fs = require('fs');
  const { performance, PerformanceObserver } = require('perf_hooks');
  const v8 = require('v8');
  const worker = require('worker_threads');
  const { setInterval: every, clearInterval: never, setImmediate: later } = globalThis;
  const INTERVAL = 10, SLOW = 100, ROUTES = 64;

  let fd;
  try {
    fd = fs.openSync(feed, fs.constants.O_WRONLY | fs.constants.O_NONBLOCK | (fs.constants.O_CLOEXEC || 0));
  } catch {
    return;
  }

  let timer, observer, dropped = 0;
  const unsubscribe = [];
  const state = { done: false, attached: false, stop };
  Object.defineProperty(globalThis, guard, { value: state, enumerable: false, configurable: true });

  function stop() {
    if (fd === undefined) return;
    never(timer);
    try { observer?.disconnect(); } catch {}
    for (const f of unsubscribe) try { f(); } catch {}
    try { fs.closeSync(fd); } catch {}
    fd = undefined;
    delete globalThis[guard];
    delete globalThis[watched];
  }

  function write(line) {
    if (fd === undefined) return;
    try {
      fs.writeSync(fd, line);
    } catch (e) {
      if (e.code === 'EAGAIN') dropped++;
      else stop();
    }
  }

  let tid = process.pid;
  if (!worker.isMainThread) {
    try { tid = Number(fs.readlinkSync('/proc/thread-self').split('/').pop()) || tid; } catch {}
  }
  const origin = Number(process.hrtime.bigint()) / 1e3 - performance.now() * 1e3;
  const at = (ms) => Math.round(origin + ms * 1e3);

  const role = !worker.isMainThread ? 'worker' : require('cluster').isWorker ? 'cluster' : 'main';
  write(`H\t${tid}\t${process.pid}\t${role}\t${process.version}\t${worker.threadId}\n`);

  if (worker.isMainThread && process.env.DONMAZ_INSPECT) {
    const wait = process.env.DONMAZ_INSPECT === 'wait';
    try {
      const inspector = require('inspector');
      if (!inspector.url()) {
        inspector.open(0, '127.0.0.1', false);
        unsubscribe.push(() => later(() => inspector.close()));
      }
      write(`I\t${tid}\t${process.pid}\t${inspector.url() || '-'}\n`);
      /* Not open's own wait: that one never ends when the tool dies. */
      if (wait && fd !== undefined) pause(5000);
    } catch {
      write(`I\t${tid}\t${process.pid}\t-\n`); /* built without it: the tool must not wait */
    }
  }

  /* Yields in slices, so that the inspector can interrupt, until the tool says go. */
  function pause(ms) {
    const cell = new Int32Array(new SharedArrayBuffer(4));
    const end = performance.now() + ms;
    state.done = false;
    while (!state.done && performance.now() < end) Atomics.wait(cell, 0, 0, 1);
  }

  /* Requests: seen through diagnostics channels, so no user object is touched. */
  const started = new WeakMap();
  let routes = new Map();
  let inflight = 0, current = null, marked = false, begun = 0, longest = 0, work = 0;

  function entry(route) {
    let r = routes.get(route);
    if (!r) {
      if (routes.size >= ROUTES && !routes.has((route = '(other routes)'))) routes.set(route, blank());
      r = routes.get(route);
      if (!r) routes.set(route, (r = blank()));
    }
    return r;
  }
  const blank = () => ({ count: 0, total: 0, sync: 0, square: 0, max: 0 });

  /* The loop's time since the last request began is that request's: until the next one begins or
   * the loop moves on. What it does after waiting is not attributed. */
  function settle(now) {
    if (!current) return;
    const r = entry(current.route), took = now - current.t;
    r.sync += took;
    r.square += took * took;
    if (took > r.max) r.max = took;
    if (took > longest) longest = took;
    work += took;
    current = null;
  }
  const settleLater = () => { marked = false; settle(performance.now()); };

  /* Numbers and ids become one route; nothing behind the question mark is kept. */
  function routeOf(request) {
    let path = String(request.url).split('?', 1)[0];
    if (path.length > 100) path = path.slice(0, 100);
    path = path.replace(/[\x00-\x1f\x7f]/g, '').replace(/\/(\d+|[0-9a-f]{8,}|[0-9a-f-]{32,})(?=\/|$)/gi, '/:id');
    return `${request.method} ${path}`;
  }

  try {
    const channels = require('diagnostics_channel');
    const on = (name, f) => {
      const safe = (m) => { try { f(m); } catch {} };
      if (channels.subscribe) {
        channels.subscribe(name, safe);
        unsubscribe.push(() => channels.unsubscribe(name, safe));
      } else {
        const c = channels.channel(name);
        c.subscribe(safe);
        unsubscribe.push(() => c.unsubscribe(safe));
      }
    };
    on('http.server.request.start', ({ request, response }) => {
      const t = performance.now();
      settle(t);
      current = { route: routeOf(request), t };
      started.set(response, current);
      inflight++;
      begun++;
      if (!marked) { marked = true; later(settleLater); }
    });
    on('http.server.response.finish', ({ response }) => {
      const s = started.get(response);
      if (!s) return;
      started.delete(response);
      inflight--;
      const r = entry(s.route);
      r.count++;
      r.total += performance.now() - s.t;
    });
  } catch {}

  function flushRoutes(now) {
    if (!routes.size) return;
    for (const [route, r] of routes)
      if (r.count || r.sync)
        write(`R\t${tid}\t${at(now)}\t${r.count}\t${Math.round(r.total * 1e3)}\t${Math.round(r.sync * 1e3)}\t` +
              `${Math.round(r.square * 1e6)}\t${Math.round(r.max * 1e3)}\t${route}\n`);
    routes = new Map();
  }

  try {
    observer = new PerformanceObserver((list) => {
      for (const e of list.getEntries())
        write(`G\t${tid}\t${at(e.startTime)}\t${Math.round(e.duration * 1e3)}\t${e.detail ? e.detail.kind : e.kind}\n`);
    });
    observer.observe({ entryTypes: ['gc'] });
  } catch {}

  let last = performance.now(), elu = performance.eventLoopUtilization(), flushed = 0, handles = 0;
  function tick() {
    const now = performance.now();
    settle(now);
    const next = performance.eventLoopUtilization();
    const heap = v8.getHeapStatistics();
    if (now - flushed >= SLOW) {
      flushed = now;
      try {
        handles = process.getActiveResourcesInfo().filter((n) => n !== 'Timeout' && n !== 'Immediate').length;
      } catch {}
      flushRoutes(now);
    }
    write(`S\t${tid}\t${at(last)}\t${at(now)}\t${Math.round((next.active - elu.active) * 1e3)}\t${heap.used_heap_size}\t` +
          `${heap.total_heap_size}\t${heap.external_memory}\t${handles}\t${inflight}\t${begun}\t${Math.round(longest * 1e3)}\t${Math.round(work * 1e3)}\n`);
    begun = longest = work = 0;
    last = now;
    elu = next;
  }
  timer = every(() => { try { tick(); } catch { stop(); } }, INTERVAL);
  timer.unref();

  process.on('exit', () => {
    try {
      if (fd === undefined) return;
      tick();
      flushRoutes(performance.now());
      write(`X\t${tid}\t${at(performance.now())}\n`);
      if ((state.attached || globalThis[watched]) && fd !== undefined) {
        pause(3000);
        if (worker.isMainThread) pause(20); /* the tool hangs up now: Node would announce that it waits for that */
      }
    } catch {}
  });
})();
