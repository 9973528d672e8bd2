// Line charts by uPlot. Where that is missing (the command was built without npm), the same figures
// are given as tables.
import { el } from './dom.js';
import { figure } from './figures.js';

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const shown = new Set(); // charts on the page, redrawn when the colour scheme changes

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  for (const chart of shown) chart.redraw();
});

/** How far into the tail a percentile lies: 90 -> 1, 99 -> 2, 99.9 -> 3. */
export function nines(percentile) {
  return -Math.log10(1 - percentile / 100);
}

const TAIL = [[0, '0'], [nines(50), '50'], [1, '90'], [2, '99'], [3, '99.9'], [4, '99.99'], [5, '99.999']];

function axis(label, values) {
  return { label, labelSize: 22, font: '12px system-ui', labelFont: '12px system-ui', stroke: () => css('--quiet'), grid: { stroke: () => css('--line'), width: 1 }, ticks: { stroke: () => css('--line') }, ...values };
}

function tableOf(title, lines, xName, yName) {
  return el(
    'details',
    { open: false },
    el('summary', {}, `Figures: ${title}`),
    el(
      'div',
      { class: 'scroll' },
      lines.map((line) =>
        el(
          'table',
          {},
          el('caption', {}, line.name),
          el('tbody', {},
            el('tr', {}, el('th', { scope: 'row' }, xName), line.x.map((x) => el('td', {}, figure(x)))),
            el('tr', {}, el('th', { scope: 'row' }, yName), line.y.map((y) => el('td', {}, figure(y))))),
        ),
      ),
    ),
  );
}

/**
 * A chart of lines {name, colour, dash, x: [], y: []}. `options`: xName, yName, logY, tail (x holds
 * percentiles). Returns the element; its `toggle(name, on)` hides a line.
 */
export function lineChart(uPlot, title, lines, options) {
  const holder = el('div');
  const figureElement = el('figure', { class: 'chart' }, el('figcaption', {}, title), holder,
    tableOf(title, lines, options.xName, options.yName));
  figureElement.toggle = () => {};
  if (!uPlot) {
    holder.append(el('p', { class: 'quiet' }, 'No chart: this donmaz was built without npm. The figures are below.'));
    figureElement.querySelector('details').open = true;
    return figureElement;
  }
  holder.setAttribute('role', 'img');
  holder.setAttribute('aria-label', `${title}: ${lines.map((l) => l.name).join(', ')}. The figures are in the table below.`);
  const place = options.tail ? nines : (x) => x;
  const data = lines.length
    ? uPlot.join(lines.map((line) => {
        // A percentile of 100 lies infinitely far out: the tables give the largest value.
        const points = line.x.map((x, i) => [place(x), line.y[i]]).filter(([x]) => Number.isFinite(x));
        return [points.map((p) => p[0]), points.map((p) => p[1])];
      }))
    : [[]];
  const tailAxis = {
    splits: (chart) => TAIL.map((t) => t[0]).filter((x) => x >= chart.scales.x.min && x <= chart.scales.x.max),
    values: (_, splits) => splits.map((x) => TAIL.find((t) => t[0] === x)?.[1] ?? ''),
  };
  const build = () => new uPlot({
    width: Math.max(280, holder.clientWidth || 600),
    height: 280,
    scales: { x: { time: false }, y: options.logY ? { distr: 3 } : { range: (_, low, high) => [0, high > 0 ? high * 1.05 : 1] } },
    axes: [
      axis(options.xName, options.tail ? tailAxis : {}),
      axis(options.yName, { size: 62, values: (_, splits) => splits.map((v) => (v === null ? '' : String(v))) }),
    ],
    legend: { live: true },
    series: [
      { label: options.xName, value: (_, x) => (x === null ? '' : figure(options.tail ? 100 * (1 - 10 ** -x) : x)) },
      ...lines.map((line) => ({ label: line.name, stroke: line.colour, width: 1.5, dash: line.dash, spanGaps: true, points: { show: false }, value: (_, y) => figure(y) })),
    ],
  }, data, holder);
  // Its width is known once the page holds it.
  requestAnimationFrame(() => {
    const chart = build();
    shown.add(chart);
    new ResizeObserver(() => {
      if (Math.abs(chart.width - holder.clientWidth) > 1 && holder.clientWidth >= 280)
        chart.setSize({ width: holder.clientWidth, height: 280 });
    }).observe(holder);
    figureElement.toggle = (name, on) => {
      const index = lines.findIndex((line) => line.name === name);
      if (index >= 0) chart.setSeries(index + 1, { show: on });
    };
  });
  return figureElement;
}
