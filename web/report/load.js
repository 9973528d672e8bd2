// The page of a `donmaz load`.
import { lineChart } from './curves.js';
import { el, section } from './dom.js';
import { downloads } from './download.js';
import { colourOf, figure } from './figures.js';
import { sortableTable } from './table.js';

const COLUMNS = [['path', 'path'], ['connections', 'connections'], ['requests', 'requests'], ['rps', 'req/s'], ['mean_ms', 'mean (ms)'], ['p50_ms', 'p50 (ms)'], ['p90_ms', 'p90 (ms)'], ['p99_ms', 'p99 (ms)'], ['p99_9_ms', 'p99.9 (ms)'], ['max_ms', 'max (ms)'], ['errors', 'errors'], ['timeouts', 'timeouts'], ['non2xx', 'not 2xx']];

const WHOLE = new Set(['connections', 'requests', 'errors', 'timeouts', 'non2xx']);

function text(key, value) {
  return typeof value === 'number' && !WHOLE.has(key) ? figure(value) : String(value ?? '–');
}

/** [[percentile, ms]] from the p0_001 … p99_999 of autocannon's names. */
export function percentilesOf(latency) {
  return Object.entries(latency ?? {})
    .filter(([key, value]) => /^p\d/.test(key) && typeof value === 'number')
    .map(([key, value]) => [Number(key.slice(1).replace('_', '.')), value])
    .sort((a, b) => a[0] - b[0]);
}

export function showLoad(page, doc, uPlot) {
  const endpoints = doc.endpoints ?? [];
  const rows = endpoints.map((e) => COLUMNS.map(([key]) => ({ text: text(key, e[key]), sort: e[key] ?? null })));
  const curve = percentilesOf(doc.latency);
  const seconds = (doc.sampleInt ?? 1000) / 1000;
  const rates = (doc.intervals ?? []).map((i) => i.requests / seconds);
  const samples = doc.target?.samples ?? [];
  const charts = [];
  if (curve.length)
    charts.push(lineChart(uPlot, 'Latency', [{ name: 'all endpoints', colour: colourOf(0), x: curve.map((c) => c[0]), y: curve.map((c) => c[1]) }], { xName: 'percentile', yName: 'ms', logY: true, tail: true }));
  if (rates.length > 1)
    charts.push(lineChart(uPlot, 'Throughput', [{ name: 'req/s', colour: colourOf(2), x: rates.map((_, i) => (i + 1) * seconds), y: rates }], { xName: 'seconds', yName: 'req/s' }));
  if (samples.length > 1) {
    const x = samples.map((s) => s.t_ms / 1000);
    charts.push(lineChart(uPlot, 'CPU of the server', [{ name: 'CPU', colour: colourOf(1), x, y: samples.map((s) => s.cpu_percent) }], { xName: 'seconds', yName: '% of a core' }));
    charts.push(lineChart(uPlot, 'RSS of the server', [{ name: 'RSS', colour: colourOf(4), x, y: samples.map((s) => s.rss_kb / 1024) }], { xName: 'seconds', yName: 'MB' }));
  }
  page.append(
    el('h1', {}, doc.title || `Load on ${[].concat(doc.url ?? []).join(', ')}`),
    el('p', { class: 'quiet' }, `${doc.start ?? ''}, ${doc.connections ?? '?'} connections, ${doc.duration ?? '?'} s${doc.openLoop ? ', open loop: latency counts from when a request was due' : ''}`),
    section('Results', sortableTable('One line an endpoint', COLUMNS.map((c) => c[1]), rows),
      downloads('load', doc, [COLUMNS.map((c) => c[0]), ...endpoints.map((e) => COLUMNS.map(([key]) => e[key]))])),
    section('Percentiles', sortableTable('Latency of all endpoints, every request counted', ['percentile', 'ms'], curve.map(([p, ms]) => [{ text: String(p), sort: p }, { text: figure(ms), sort: ms }]))),
    section('Charts', el('div', { class: 'charts' }, charts)),
  );
}
