// The page of donmaz doctor: the verdict, what it rests on, what to do, and the charts.
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import './base.css';
import './doctor.css';
import { element, pageData, percent } from './dom.js';

const COLOURS = ['#0b68cb', '#d9480f', '#2b8a3e', '#9c36b5', '#0b7285', '#c2255c', '#5f3dc4', '#846100'];
const MB = 1e6;
const report = pageData();
const { loops, processes, threads, probe, inside } = report.series;

const column = (series, name) => series.columns.indexOf(name);
const timesOf = (series) => series.rows.map((row) => row[0] / 1000);

/* Series with times of their own on one axis; each point stays where it was measured. */
function joined(lines) {
  const tables = lines.map((line) => [line.times, line.values]);
  return tables.length > 1 ? uPlot.join(tables) : tables[0];
}

function line(series, name, label, scale = 1) {
  const at = column(series, name);
  return { label, times: timesOf(series), values: series.rows.map((row) => row[at] * scale) };
}

const loopName = (s) => (loops.length > 1 ? `${s.role} ${s.tid}` : s.role);
const processName = (s) => (processes.length > 1 ? `${s.name} ${s.pid}` : s.name);

/* Pauses are points in time: how much of each tenth of a second they took. */
function gcLine(series) {
  const end = series.rows.length ? series.rows[series.rows.length - 1][0] : 0;
  const parts = new Array(Math.ceil(end / 100) + 1).fill(0);
  for (const [at, took] of series.gc) if (at >= 0 && at <= end) parts[Math.floor(at / 100)] += took;
  return { label: loopName(series), times: parts.map((_, i) => i / 10), values: parts };
}

/* The loops of a donmaz server, which tell of themselves. */
const insideName = (s) => (inside.loops.length > 1 ? `${s.worker ? `worker ${s.worker}, ` : ''}loop ${s.loop}` : 'loop');
const insideLines = (name) => inside.loops.map((s) => line(s, name, insideName(s)));

const charts = [
  { key: 'delay', title: 'Event-loop delay', unit: 'ms', lines: [...loops.map((s) => line(s, 'delay_ms', loopName(s))), ...insideLines('delay_ms')] },
  { key: 'stalls', title: 'Loop held by handlers', unit: 'ms in each reading', lines: insideLines('stall_ms') },
  { key: 'rescues', title: 'Rescues in each reading', unit: '', lines: insideLines('rescues') },
  { key: 'probe', title: 'Answer to a probe from outside', unit: 'ms', lines: [line(probe, 'took_ms', 'took')] },
  { key: 'utilisation', title: 'Event-loop utilisation, each interval', unit: '%', lines: loops.map((s) => line(s, 'utilisation', loopName(s), 100)) },
  { key: 'cpu', title: 'CPU, one core = 100', unit: '%', lines: processes.map((s) => line(s, 'cpu', processName(s), 100)) },
  { key: 'threads', title: 'CPU by thread', unit: '%', lines: threads.length > 1 ? threads.map((s) => line(s, 'cpu', `${s.name} ${s.tid}`, 100)) : [] },
  { key: 'wait', title: 'Waiting for a core', unit: '%', lines: processes.map((s) => line(s, 'wait', processName(s), 100)) },
  { key: 'heap', title: 'Heap', unit: 'MB', lines: loops.flatMap((s) => [line(s, 'heap_used', `used, ${loopName(s)}`, 1 / MB), line(s, 'heap_total', `total, ${loopName(s)}`, 1 / MB)]) },
  { key: 'rss', title: 'Memory (RSS)', unit: 'MB', lines: processes.map((s) => line(s, 'rss', processName(s), 1 / MB)) },
  { key: 'gc', title: 'Garbage collection', unit: 'ms in each 100', lines: loops.map(gcLine) },
  { key: 'inflight', title: 'Requests in flight', unit: '', lines: [...loops.map((s) => line(s, 'inflight', loopName(s))), ...(inside.rows.length ? [line(inside, 'inflight', 'in flight')] : [])] },
  { key: 'queued', title: 'Waiting for a worker', unit: '', lines: inside.loops.length ? [line(inside, 'queued', 'queued')] : [] },
  { key: 'handles', title: 'Active handles', unit: '', lines: loops.map((s) => line(s, 'handles', loopName(s))) },
  { key: 'switches', title: 'Context switches of the main thread, by itself', unit: 'each interval', lines: processes.map((s) => line(s, 'switches', processName(s))) },
  { key: 'fds', title: 'Open descriptors', unit: '', lines: processes.map((s) => line(s, 'fds', processName(s))) },
].filter((chart) => chart.lines.some((l) => l.times.length > 1));

/* Shades what was not judged: start-up and idle ends. */
function shade(plot) {
  const { ctx, bbox } = plot;
  const from = plot.valToPos(report.window.from_ms / 1000, 'x', true);
  const to = plot.valToPos(report.window.to_ms / 1000, 'x', true);
  ctx.save();
  ctx.fillStyle = 'rgba(128,128,128,0.15)';
  ctx.fillRect(bbox.left, bbox.top, Math.max(0, Math.min(from, bbox.left + bbox.width) - bbox.left), bbox.height);
  ctx.fillRect(Math.max(to, bbox.left), bbox.top, Math.max(0, bbox.left + bbox.width - Math.max(to, bbox.left)), bbox.height);
  ctx.restore();
}

function drawChart(chart, container) {
  const ink = getComputedStyle(document.body).color;
  const axis = { stroke: ink, grid: { stroke: 'rgba(128,128,128,0.2)' }, ticks: { stroke: 'rgba(128,128,128,0.2)' } };
  const options = {
    width: container.clientWidth, height: 190, scales: { x: { time: false } },
    cursor: { sync: { key: 'doctor' } },
    axes: [{ ...axis, values: (_, ticks) => ticks.map((t) => `${t} s`) }, { ...axis, size: 60 }],
    series: [{ label: 's', value: (_, v) => (v == null ? '' : v.toFixed(2)) },
      ...chart.lines.map((l, i) => ({ label: l.label, stroke: COLOURS[i % COLOURS.length], width: 1.25, spanGaps: true, points: { show: false }, value: (_, v) => (v == null ? '' : v.toFixed(1)) }))],
    hooks: { drawClear: [shade] },
  };
  const plot = new uPlot(options, joined(chart.lines), container);
  window.addEventListener('resize', () => plot.setSize({ width: container.clientWidth, height: 190 }));
}

function list(lines) {
  return element('ul', {}, lines.map((text) => element('li', {}, text)));
}

function table(heads, rows) {
  return element('table', {}, element('thead', {}, element('tr', {}, heads.map((h, i) => element('th', { class: i ? 'number' : '' }, h)))),
    element('tbody', {}, rows.map((row) => element('tr', {}, row.map((cell, i) => element('td', { class: i ? 'number' : '' }, cell))))));
}

function routes() {
  const rows = report.loops.flatMap((loop) => loop.routes.map((r) => [r.route, String(r.requests), r.ms.toFixed(1), r.loop_ms.toFixed(2), r.loop_max_ms.toFixed(1), percent(r.share, 1)]));
  if (report.inside) return [element('h2', {}, 'Routes'), table(['route', 'requests', 'ms', 'ms of CPU', 'ms in its handler', 'rescued', 'of all work'], report.inside.routes.map((r) => [r.route, String(r.requests), r.ms.toFixed(1), r.cpu_ms.toFixed(2), r.held_ms.toFixed(2), percent(r.rescued, 1), percent(r.share, 1)]))];
  return rows.length ? [element('h2', {}, 'Routes'), table(['route', 'requests', 'ms', 'ms of the loop', 'longest', 'of busy time'], rows)] : [];
}

function estimates() {
  if (!report.prescription) return [];
  const rows = report.prescription.estimates.flatMap((e) => e.routes.map((r, i) => [i ? '' : e.name + (e.deal === 'uneven' ? ', dealt unevenly' : ''), r.route, r.rps.toFixed(r.rps < 100 ? 1 : 0), r.p50_ms.toFixed(1), r.p99_ms.toFixed(1)]));
  return [element('h2', {}, 'What each way of running it would give'), element('div', { class: 'dim' }, report.prescription.basis), table(['', 'route', 'req/s', 'p50 ms', 'p99 ms'], rows)];
}

const containers = charts.map((chart) => element('div'));
document.getElementById('page').append(...[
  element('h1', {}, report.title),
  element('div', { id: 'verdict', class: report.verdict }, report.words),
  report.also.length ? element('div', { class: 'dim' }, `also: ${report.also.join(', ')}`) : '',
  report.notes.length ? element('div', { class: 'notes' }, report.notes.map((n) => element('div', {}, n))) : '',
  element('div', { class: 'columns' },
    element('section', {}, element('h2', {}, `Evidence (${report.window.seconds.toFixed(1)} s under load)`), list(report.evidence)),
    element('section', {}, element('h2', {}, 'What to do'), list(report.recommendations))),
  ...estimates(), ...routes(),
  element('h2', {}, 'Charts'), element('div', { class: 'dim' }, 'Shaded: not judged. Drag: zoom; double click: back.'),
  element('div', { id: 'charts' }, charts.map((chart, i) => element('div', { class: chart.key === report.chart ? 'chart offending' : 'chart', 'data-key': chart.key },
    element('h3', {}, chart.unit ? `${chart.title} (${chart.unit})` : chart.title), containers[i])))].filter(Boolean));
charts.forEach((chart, i) => drawChart(chart, containers[i]));
