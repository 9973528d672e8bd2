// The page of a `donmaz lab run`.
import { bars } from './bars.js';
import { lineChart } from './curves.js';
import { el, section } from './dom.js';
import { downloads } from './download.js';
import { colourOf, figure, figureOf, labelOf } from './figures.js';
import { sortableTable } from './table.js';

const measured = (stack) => (stack.phases ?? []).length > 0;

function warnings(texts) {
  if (!texts.length) return null;
  if (texts.length === 1) return el('p', { class: 'warning' }, `Warning: ${texts[0]}`);
  return el('details', { class: 'warning', open: texts.length <= 3 }, el('summary', {}, `${texts.length} warnings about this run`), el('ul', {}, texts.map((text) => el('li', {}, text))));
}

function head(doc) {
  const m = doc.machine ?? {};
  const repeats = doc.repeats > 1 ? `medians of ${doc.repeats} repeats` : 'one repeat';
  const kind = doc.quick ? 'quick: short phases, so p99 rests on few requests' : 'full times';
  return [
    el('h1', {}, doc.title),
    doc.description ? el('p', {}, doc.description) : null,
    el('p', { class: 'quiet' }, `${doc.started ?? ''}, ${repeats}, ${kind}${doc.complete ? '' : ', not complete'}`),
    el('p', { class: 'quiet' }, [m.cpu, `${m.usable_cores} cores`, m.virtual ? 'virtual machine' : null, m.memory_mb ? `${m.memory_mb} MB` : null, m.os, m.kernel, `donmaz ${m.donmaz}`].filter(Boolean).join(', ')),
    warnings(doc.warnings ?? []),
    ...doc.stacks.filter((s) => s.failed).map((s) => el('p', { class: 'warning' }, `${s.name} failed: ${s.failed}`)),
    ...doc.stacks.filter((s) => s.skipped).map((s) => el('p', { class: 'warning' }, `${s.name} was skipped: ${s.skipped}`)),
  ];
}

function figureCell(doc, stack, row) {
  const { value, low, high } = figureOf(doc.metrics, stack, row);
  return {
    text: figure(value),
    sort: value,
    title: low === null ? null : `95% confidence: ${figure(low)} to ${figure(high)}`,
  };
}

function resultTable(doc, stacks) {
  const columns = ['stack', ...doc.table.map((row) => labelOf(doc.metrics, row))];
  const rows = stacks.map((stack) => [
    { text: stack.name, sort: stack.name },
    ...doc.table.map((row) => figureCell(doc, stack, row)),
  ]);
  return sortableTable('One line a stack; a column heading sorts by it', columns, rows);
}

const ENDPOINT = ['rps', 'share_percent', 'p50_ms', 'p99_ms', 'errors', 'non2xx'];

/** A table for each phase that loads several endpoints: what of the load went where, and how it fared. */
function endpointTables(doc, stacks) {
  const shared = doc.phases.filter((phase) => phase.endpoints.length > 1);
  if (!shared.length) return null;
  const known = ENDPOINT.filter((metric) => doc.metrics[metric]); // an older run lacks some
  return section('Each endpoint', ...shared.map((phase) => {
    const rows = stacks.flatMap((stack) => phase.endpoints.map((endpoint) => [
      { text: stack.name, sort: stack.name },
      { text: endpoint.path, sort: endpoint.path },
      ...known.map((metric) => figureCell(doc, stack, { metric, phase: phase.name, path: endpoint.path })),
    ]));
    return sortableTable(`Phase ${phase.name}, one line an endpoint of a stack`, ['stack', 'endpoint', ...known.map((metric) => labelOf(doc.metrics, { metric }))], rows);
  }));
}

function expectations(doc) {
  if (!doc.expectations?.length) return null;
  return section('What was expected', el('ul', {}, doc.expectations.map((e) =>
    el('li', {}, el('strong', { class: e.holds ? 'good' : 'bad' }, e.holds ? 'holds' : e.measured ? 'fails' : 'not tested'), ` – ${e.text}`))));
}

function barCharts(doc, stacks, colours) {
  const better = (row) => ({ '-1': 'lower is better', 1: 'higher is better' })[doc.metrics[row.metric]?.better];
  return doc.table.map((row) =>
    bars(labelOf(doc.metrics, row), stacks.map((stack) => ({ name: stack.name, colour: colours.get(stack.name), ...figureOf(doc.metrics, stack, row) })), better(row)));
}

/** Lines of all stacks' first complete runs; `pick` gives {x, y} of a phase's result. */
function linesOf(doc, stacks, colours, phaseName, pick) {
  const words = [...new Set(stacks.map((s) => s.name.split(' ')[0]))];
  return stacks.flatMap((stack) => {
    const run = doc.runs.find((r) => r.stack === stack.name && r.phases.some((p) => p.name === phaseName));
    const points = run && pick(run.phases.find((p) => p.name === phaseName));
    if (!points?.x.length) return [];
    const group = words.indexOf(stack.name.split(' ')[0]);
    return [{ name: stack.name, colour: colours.get(stack.name), dash: group ? [6, 3 * group] : undefined, ...points }];
  });
}

function latencyCharts(doc, stacks, colours, uPlot) {
  return doc.phases.flatMap((phase) =>
    phase.endpoints.flatMap((endpoint) => {
      const lines = linesOf(doc, stacks, colours, phase.name, (p) => {
        const curve = p.endpoints.find((e) => e.path === endpoint.path)?.curve ?? [];
        return { x: curve.map((c) => c[0]), y: curve.map((c) => c[1]) };
      });
      if (!lines.length) return [];
      return [lineChart(uPlot, `Latency of ${endpoint.path}, ${phase.name}`, lines, { xName: 'percentile', yName: 'ms', logY: true, tail: true })];
    }));
}

function usageCharts(doc, stacks, colours, uPlot) {
  return doc.phases.flatMap((phase) =>
    [['cpu_percent', 'CPU of the server', '% of a core', 1], ['rss_kb', 'RSS of the server', 'MB', 1024]].flatMap(([key, title, unit, scale]) => {
      const lines = linesOf(doc, stacks, colours, phase.name, (p) => ({ x: p.series?.t_s ?? [], y: (p.series?.[key] ?? []).map((v) => v / scale) }));
      if (!lines.length) return [];
      return [lineChart(uPlot, `${title}, ${phase.name}`, lines, { xName: 'seconds', yName: unit })];
    }));
}

function toggles(stacks, colours, charts) {
  const show = (name, on) => {
    for (const bar of document.querySelectorAll('.bar')) if (bar.dataset.stack === name) bar.hidden = !on, bar.style.display = on ? '' : 'none';
    for (const chart of charts) chart.toggle(name, on);
  };
  return el('fieldset', { class: 'controls' }, el('legend', {}, 'Show in charts'),
    stacks.map((stack) =>
      el('label', {}, el('input', { type: 'checkbox', checked: true, onchange: (event) => show(stack.name, event.target.checked) }),
        el('span', { class: 'swatch', style: { background: colours.get(stack.name) }, 'aria-hidden': 'true' }), stack.name)));
}

function csvRows(doc, stacks) {
  const rows = [['stack', 'phase', 'path', 'metric', 'value', 'ci_low', 'ci_high']];
  for (const stack of stacks) {
    const put = (holder, phase, path) => {
      for (const metric of Object.keys(doc.metrics))
        if (typeof holder[metric] === 'number') rows.push([stack.name, phase, path, metric, holder[metric], ...(holder.ci?.[metric] ?? ['', ''])]);
    };
    put(stack, '', '');
    for (const phase of stack.phases) {
      put(phase, phase.name, '');
      for (const endpoint of phase.endpoints) put(endpoint, phase.name, endpoint.path);
    }
  }
  return rows;
}

function reproduce(doc, stacks) {
  const quick = doc.quick ? ' --quick' : '';
  const repeat = doc.repeats > 1 ? ` --repeat ${doc.repeats}` : '';
  return section('Repeat it',
    el('pre', {}, `donmaz lab run experiments/${doc.experiment}.yaml${quick}${repeat}`),
    el('p', {}, 'Phases: ', doc.phases.map((p) => `${p.name} ${p.duration_s} s${p.warmup_s ? ` after ${p.warmup_s} s of warm-up` : ''} (${p.endpoints.map((e) => `${e.path} with ${e.connections} connections`).join(', ')})`).join('; '), '.'),
    stacks.map((stack) => [
      el('h3', {}, stack.name),
      el('pre', {}, stack.command ?? ''),
      el('dl', {}, Object.entries(stack.versions ?? {}).flatMap(([name, version]) => [el('dt', {}, name), el('dd', {}, version ?? 'unknown')])),
    ]).flat());
}

export function showLab(page, doc, uPlot) {
  const stacks = doc.stacks.filter(measured);
  const colours = new Map(stacks.map((stack, i) => [stack.name, colourOf(i)]));
  const latency = latencyCharts(doc, stacks, colours, uPlot);
  const usage = usageCharts(doc, stacks, colours, uPlot);
  page.append(
    ...head(doc).filter(Boolean),
    section('Results', resultTable(doc, stacks), downloads(doc.experiment, doc, csvRows(doc, stacks))),
    ...[endpointTables(doc, stacks), expectations(doc)].filter(Boolean),
    section('Side by side', toggles(stacks, colours, [...latency, ...usage]), el('div', { class: 'bars' }, barCharts(doc, stacks, colours))),
  );
  if (latency.length) page.append(section('Latency, every request counted', el('p', { class: 'quiet' }, 'Exact percentiles of the first repeat. Further right is rarer; the scale of milliseconds is logarithmic.'), el('div', { class: 'charts' }, latency)));
  if (usage.length) page.append(section('The servers while loaded', el('div', { class: 'charts' }, usage)));
  page.append(reproduce(doc, stacks));
}
