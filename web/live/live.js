// The live page: reads /metrics each second, and shows rates since the last reading. No library, so
// that the page is small and needs no network but the service itself.
'use strict';

const EVERY_MS = 1000;
const HISTORY = 120;

// --- reading the text format ---

/** Text -> [{name, labels, value}] */
function parseMetrics(text) {
  const samples = [];
  for (const line of text.split('\n')) {
    if (!line || line.startsWith('#')) continue;
    const end = line.search(/[ {]/);
    const sample = { name: line.slice(0, end), labels: {}, value: 0 };
    let at = end;
    if (line[at] === '{') {
      const label = /\s*([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)",?/y;
      label.lastIndex = ++at;
      for (let found; (found = label.exec(line)); at = label.lastIndex)
        sample.labels[found[1]] = found[2].replace(/\\(.)/g, (_, c) => (c === 'n' ? '\n' : c));
      at++; // the closing brace
    }
    const word = line.slice(at).trim();
    sample.value = word === '+Inf' ? Infinity : Number(word);
    samples.push(sample);
  }
  return samples;
}

/** One reading of all metrics, and the sums asked of it. */
class Reading {
  constructor(samples, at) {
    this.at = at;
    this.names = new Map();
    for (const sample of samples) {
      if (!this.names.has(sample.name)) this.names.set(sample.name, []);
      this.names.get(sample.name).push(sample);
    }
  }

  all(name, where = {}) {
    return (this.names.get(name) ?? []).filter((s) => Object.entries(where).every(([k, v]) => s.labels[k] === v));
  }

  has(name) { return this.names.has(name); }

  sum(name, where) { return this.all(name, where).reduce((sum, s) => sum + s.value, 0); }

  max(name, where) { return this.all(name, where).reduce((most, s) => Math.max(most, s.value), 0); }

  /** The different values of a label, in order of appearance. */
  values(name, label) { return [...new Set(this.all(name).map((s) => s.labels[label]))]; }

  /** Upper limit -> how many values were at most that, over all series. */
  buckets(name, where) {
    const sums = new Map();
    for (const s of this.all(`${name}_bucket`, where)) {
      const limit = s.labels.le === '+Inf' ? Infinity : Number(s.labels.le);
      sums.set(limit, (sums.get(limit) ?? 0) + s.value);
    }
    return [...sums].sort((a, b) => a[0] - b[0]);
  }
}

/** How much a counter grew; a restarted process begins at zero. */
const growth = (now, before) => (now >= before ? now - before : now);

function rate(now, before, name, where) {
  return growth(now.sum(name, where), before.sum(name, where)) / ((now.at - before.at) / 1000);
}

/** The quantile of what a histogram counted between two readings; null without any. */
function quantile(now, before, name, q, where) {
  const old = new Map(before.buckets(name, where));
  const buckets = now.buckets(name, where).map(([limit, count]) => [limit, growth(count, old.get(limit) ?? 0)]);
  const total = buckets.at(-1)?.[1] ?? 0;
  if (!total) return null;
  const wanted = q * total;
  let [below, under] = [0, 0];
  for (const [limit, count] of buckets) {
    if (count >= wanted) return limit === Infinity ? below : below + (limit - below) * ((wanted - under) / (count - under || 1));
    [below, under] = [limit, count];
  }
  return below;
}

// --- showing numbers ---

function count(value) {
  if (value >= 1e6) return `${(value / 1e6).toFixed(2)} M`;
  if (value >= 1e4) return `${(value / 1e3).toFixed(1)} k`;
  return value >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toFixed(1);
}

function seconds(value) {
  if (value === null) return '–';
  if (value >= 1) return `${value.toFixed(2)} s`;
  if (value >= 1e-3) return `${(value * 1e3).toFixed(value >= 0.1 ? 0 : 1)} ms`;
  return `${(value * 1e6).toFixed(0)} µs`;
}

const bytes = (value) => (value >= 1 << 20 ? `${(value / (1 << 20)).toFixed(1)} MB` : `${(value / 1024).toFixed(0)} KB`);
const percent = (value) => `${(100 * value).toFixed(value >= 0.1 ? 0 : 1)} %`;

// --- building the page ---

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const content = document.getElementById('content');
const state = document.getElementById('state');
const pause = document.getElementById('pause');

/** A figure with its last two minutes as a line. Made once, then only filled. */
class Tile {
  constructor(list, name) {
    const SVG = 'http://www.w3.org/2000/svg';
    this.value = element('dd', {}, '–');
    this.path = document.createElementNS(SVG, 'path');
    const svg = document.createElementNS(SVG, 'svg');
    for (const [k, v] of Object.entries({ viewBox: `0 0 ${HISTORY} 20`, preserveAspectRatio: 'none', 'aria-hidden': 'true' })) svg.setAttribute(k, v);
    svg.append(this.path);
    const box = element('div', { class: 'tile' }, element('dt', {}, name), this.value);
    this.value.after(svg);
    list.append(box);
    this.past = [];
  }

  show(value, format) {
    this.value.textContent = format(value);
    this.past.push(value ?? 0);
    if (this.past.length > HISTORY) this.past.shift();
    const top = Math.max(...this.past) || 1;
    const start = HISTORY - this.past.length;
    this.path.setAttribute('d', this.past.map((v, i) => `${i ? 'L' : 'M'}${start + i},${(19 - (18 * v) / top).toFixed(2)}`).join(''));
  }
}

/** A table whose rows are replaced in place, so that a reader's place and selection stay. */
class Table {
  constructor(title, caption, columns) {
    this.body = element('tbody');
    const head = element('tr', {}, ...columns.map(([name, kind]) => element('th', { scope: 'col', class: kind ?? '' }, name)));
    const table = element('table', {}, element('caption', {}, caption), element('thead', {}, head), this.body);
    this.section = element('section', {}, element('h2', {}, title), element('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': title }, table));
    this.columns = columns;
    this.section.hidden = true;
    content.append(this.section);
  }

  show(rows) {
    this.section.hidden = rows.length === 0;
    while (this.body.rows.length > rows.length) this.body.deleteRow(-1);
    rows.forEach((row, i) => {
      const tr = this.body.rows[i] ?? this.body.insertRow();
      row.forEach((text, j) => {
        const cell = tr.children[j] ?? tr.appendChild(j ? element('td') : element('th', { scope: 'row' }));
        const [shown, bad] = Array.isArray(text) ? text : [text, false];
        if (cell.textContent !== shown) cell.textContent = shown;
        cell.className = [this.columns[j][1] ?? '', bad ? 'bad' : ''].join(' ').trim();
      });
    });
  }
}

const NUMBER = 'number';
const tiles = element('dl', { class: 'tiles', 'aria-label': 'The service at a glance' });
content.append(tiles);
const glance = {
  requests: new Tile(tiles, 'Requests / s'),
  p99: new Tile(tiles, 'Latency, p99'),
  errors: new Tile(tiles, 'Errors (5xx) / s'),
  flight: new Tile(tiles, 'In flight'),
  connections: new Tile(tiles, 'Connections'),
  lag: new Tile(tiles, 'Loop lag, now'),
  rescues: new Tile(tiles, 'Rescues / s'),
  cpu: new Tile(tiles, 'CPU (1 core = 100 %)'),
  memory: new Tile(tiles, 'Memory'),
};
const tables = {
  routes: new Table('Routes', 'Since the last reading, but for the totals', [['Route'], ['Requests / s', NUMBER], ['p50', NUMBER], ['p99', NUMBER], ['Total', NUMBER], ['4xx', NUMBER], ['5xx', NUMBER], ['Rescues', NUMBER], ['Runs on']]),
  loops: new Table('Loops', 'Lag: how late timers and messages ran. Stall: a handler held the loop for 1 ms or more', [['Loop'], ['Lag now', NUMBER], ['Lag p99', NUMBER], ['Stalls', NUMBER], ['Stall p99', NUMBER], ['Rescues', NUMBER], ['Not rescued', NUMBER], ['Turns / s', NUMBER]]),
  pools: new Table('Pools', 'Workers for what computes', [['Pool'], ['Busy', NUMBER], ['Workers', NUMBER], ['Queued', NUMBER], ['Tasks / s', NUMBER], ['Wait p99', NUMBER], ['Run p99', NUMBER], ['Refused', NUMBER], ['Failed', NUMBER]]),
  redis: new Table('Redis', 'As the client counts', [['Figure'], ['Value', NUMBER], ['/ s', NUMBER]]),
  shed: new Table('Overload protection', 'Requests refused so that the others are served', [['Figure'], ['Value', NUMBER], ['/ s', NUMBER]]),
  processes: new Table('Processes', 'Of this service', [['Process'], ['State'], ['CPU', NUMBER], ['Memory', NUMBER], ['Threads', NUMBER], ['Descriptors', NUMBER], ['Connections', NUMBER], ['Log lines', NUMBER], ['Lines missing', NUMBER], ['Up for', NUMBER]]),
};

function showGlance(now, before) {
  const errors = (reading) => reading.all('donmaz_http_requests_total').filter((s) => s.labels.status?.startsWith('5')).reduce((sum, s) => sum + s.value, 0);
  const span = (now.at - before.at) / 1000;
  glance.requests.show(rate(now, before, 'donmaz_http_requests_total'), count);
  glance.p99.show(quantile(now, before, 'donmaz_http_request_duration_seconds', 0.99), seconds);
  glance.errors.show(growth(errors(now), errors(before)) / span, count);
  glance.flight.show(now.sum('donmaz_http_requests_in_flight'), count);
  glance.connections.show(now.sum('donmaz_http_connections'), count);
  glance.lag.show(now.max('donmaz_loop_delay_seconds'), seconds);
  glance.rescues.show(rate(now, before, 'donmaz_loop_rescues_total'), count);
  glance.cpu.show(rate(now, before, 'process_cpu_seconds_total'), percent);
  glance.memory.show(now.sum('process_resident_memory_bytes'), bytes);
}

const CLASSES = ['the loop', 'a worker', 'a worker of lower priority'];

function showRoutes(now, before) {
  const name = 'donmaz_http_request_duration_seconds';
  const seen = new Map();
  for (const s of now.all('donmaz_http_requests_total')) seen.set(`${s.labels.method} ${s.labels.route}`, { method: s.labels.method, route: s.labels.route });
  tables.routes.show([...seen].map(([label, where]) => {
    const total = (digit) => now.all('donmaz_http_requests_total', where).filter((s) => s.labels.status.startsWith(digit)).reduce((sum, s) => sum + s.value, 0);
    return [label.replace(/^ANY \(/, '('), count(rate(now, before, 'donmaz_http_requests_total', where)),
      seconds(quantile(now, before, name, 0.5, where)), seconds(quantile(now, before, name, 0.99, where)),
      count(now.sum('donmaz_http_requests_total', where)), count(total('4')), [count(total('5')), total('5') > 0],
      count(now.sum('donmaz_route_rescues_total', where)), CLASSES[now.max('donmaz_route_class', where)] ?? ''];
  }));
}

/** Worker and another label, as rows; without a cluster only the other. */
function places(now, name, label) {
  return now.all(name).map((s) => ({ where: s.labels.worker ? { worker: s.labels.worker, [label]: s.labels[label] } : { [label]: s.labels[label] }, title: s.labels.worker ? `worker ${s.labels.worker}, ${s.labels[label]}` : s.labels[label] }));
}

function showLoops(now, before) {
  tables.loops.show(places(now, 'donmaz_loop_delay_seconds', 'loop').map(({ where, title }) => {
    const missed = now.sum('donmaz_loop_rescues_capped_total', where) + now.sum('donmaz_loop_rescues_failed_total', where);
    return [title, seconds(now.sum('donmaz_loop_delay_seconds', where)), seconds(quantile(now, before, 'donmaz_loop_lag_seconds', 0.99, where)),
      count(now.sum('donmaz_loop_stall_seconds_count', where)), seconds(quantile(now, before, 'donmaz_loop_stall_seconds', 0.99, where)),
      count(now.sum('donmaz_loop_rescues_total', where)), [count(missed), missed > 0], count(rate(now, before, 'donmaz_loop_ticks_total', where))];
  }));
}

function showPools(now, before) {
  tables.pools.show(places(now, 'donmaz_pool_workers', 'pool').map(({ where, title }) => {
    const ended = (result) => now.sum('donmaz_pool_tasks_total', { ...where, result });
    const bad = ended('failed') + ended('timed_out') + ended('crashed');
    return [title, count(now.sum('donmaz_pool_running', where)), `${now.sum('donmaz_pool_workers', where)} of ${now.sum('donmaz_pool_workers_max', where)}`,
      count(now.sum('donmaz_pool_queued', where)), count(rate(now, before, 'donmaz_pool_run_seconds_count', where)),
      seconds(quantile(now, before, 'donmaz_pool_wait_seconds', 0.99, where)), seconds(quantile(now, before, 'donmaz_pool_run_seconds', 0.99, where)),
      [count(ended('refused')), ended('refused') > 0], [count(bad), bad > 0]];
  }));
}

/** Whatever a part of the service registered under a prefix, as rows. */
function showFamily(table, prefix, now, before) {
  const rows = [];
  for (const name of now.names.keys()) {
    if (!name.startsWith(prefix) || /_(bucket|sum)$/.test(name)) continue;
    const keys = new Map();
    for (const { labels } of now.all(name)) {
      const { worker, ...rest } = labels;
      keys.set(JSON.stringify(rest), rest);
    }
    for (const where of keys.values()) {
      const words = [name.slice(prefix.length).replace(/_total$/, '').replaceAll('_', ' '), ...Object.values(where)];
      const changes = /_(total|count)$/.test(name);
      const shown = /_bytes$/.test(name) ? bytes : /_seconds$/.test(name) ? seconds : count;
      rows.push([words.join(', '), shown(now.sum(name, where)), changes ? count(rate(now, before, name, where)) : '']);
    }
  }
  table.show(rows);
}

function age(from, at) {
  const s = Math.max(0, at / 1000 - from);
  if (s < 120) return `${s.toFixed(0)} s`;
  return s < 7200 ? `${(s / 60).toFixed(0)} min` : `${(s / 3600).toFixed(1)} h`;
}

function showProcesses(now, before) {
  const workers = now.has('donmaz_worker_up') ? now.values('donmaz_worker_up', 'worker') : [null];
  tables.processes.show(workers.map((worker) => {
    const where = worker ? { worker } : {};
    if (worker && !now.sum('donmaz_worker_up', where)) return [`worker ${worker}`, ['does not answer', true], '', '', '', '', '', '', '', ''];
    const missing = now.sum('donmaz_log_dropped_total', where) + now.sum('donmaz_log_lost_total', where);
    return [worker ? `worker ${worker}` : 'the service', 'up', percent(rate(now, before, 'process_cpu_seconds_total', where)), bytes(now.sum('process_resident_memory_bytes', where)),
      count(now.sum('process_threads', where)), `${now.sum('process_open_fds', where)} of ${count(now.sum('process_max_fds', where))}`, count(now.sum('donmaz_http_connections', where)),
      count(now.sum('donmaz_log_lines_total', where)), [count(missing), missing > 0], age(now.sum('process_start_time_seconds', where), Date.now())];
  }));
}

// --- the clock ---

let last = null;
let paused = false;

function say(text, bad = false) {
  if (state.textContent !== text) state.textContent = text;
  state.classList.toggle('bad', bad);
}

async function read() {
  const response = await fetch('/metrics', { cache: 'no-store', signal: AbortSignal.timeout(5000) });
  if (!response.ok) throw new Error(`the service answered ${response.status}`);
  return new Reading(parseMetrics(await response.text()), performance.now());
}

async function turn() {
  try {
    const now = await read();
    if (last && !paused) {
      showGlance(now, last);
      showRoutes(now, last);
      showLoops(now, last);
      showPools(now, last);
      showFamily(tables.redis, 'donmaz_redis_', now, last);
      showFamily(tables.shed, 'donmaz_shed_', now, last);
      showProcesses(now, last);
      say('Read every second.');
    }
    last = now;
  } catch (error) {
    say(`No answer: ${error.message}. The figures are the last ones; trying again.`, true);
  }
  if (!paused) setTimeout(turn, EVERY_MS);
}

pause.addEventListener('click', () => {
  paused = !paused;
  pause.setAttribute('aria-pressed', String(paused));
  if (paused) say('Paused.');
  else turn();
});

turn();
