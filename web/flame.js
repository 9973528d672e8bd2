// The page of donmaz flame. State is in one object; whatever changes it calls draw().
import flamegraph from 'd3-flame-graph';
import { select } from 'd3-selection';
import './base.css';
import './flame.css';
import { duration, element, pageData, percent } from './dom.js';
import { KINDS, build, hierarchy, hottest, load, matched } from './flamedata.js';

const SMALLEST_PX = 0.6, CELL_PX = 19, TOP_ROWS = 40;
const HUES = { app: 210, deps: 150, core: 45, native: 15, wasm: 280, kernel: 0, gc: 330, idle: 0 };

const page = pageData();
const profile = load(page.profile);
const kinds = KINDS.filter((kind) => kind !== 'idle' && profile.frames.some((f, i) => i > 0 && f.kind === kind));
const amount = profile.counts ? (n) => `${Math.round(n / 1000)} samples` : duration;

const state = { hidden: new Set(), merged: false, inverted: false, colour: profile.differential ? 'difference' : 'heat', term: '', focus: [] };
let tree, chart, hottestSelf = 1, test = null;

const nameOf = (frame) => frame.mark + frame.name;
const placeOf = (frame) => (frame.line ? `${frame.file}:${frame.line}` : frame.file);

/* The nodes from the root to the one zoomed to; shorter when a filter has taken some away. */
function focusPath() {
  const path = [tree.root];
  for (const id of state.focus) {
    const next = path[path.length - 1].children.get(id);
    if (!next) break;
    path.push(next);
  }
  state.focus = path.slice(1).map((node) => node.frame);
  return path;
}

/* Ancestors at full width above the zoomed node, whose small descendants then have room. */
function graphData(width) {
  const path = focusPath();
  const focused = path[path.length - 1];
  let data = hierarchy(profile, { root: focused }, (focused.value * SMALLEST_PX) / width);
  data.path = state.focus.slice();
  for (let i = path.length - 2; i >= 0; i--)
    data = { id: path[i].frame, value: focused.value, real: path[i].value, self: path[i].self, base: path[i].baseValue, children: [data] };
  return data;
}

function pathOf(d) {
  const ids = [];
  for (let at = d; at.parent; at = at.parent) ids.unshift(at.data.id);
  return ids;
}

function colourOf(d) {
  const frame = profile.frames[d.data.id];
  if (!d.parent) return '#c9ccd3';
  if (test && test(frame)) return '#d36bff';
  if (state.colour === 'kind') return `hsl(${HUES[frame.kind]} ${frame.kind === 'kernel' ? 0 : 65}% ${frame.mark === '~' ? 82 : 72}%)`;
  if (state.colour === 'difference')
    return differenceColour((d.data.real ?? d.data.value) / profile.total - d.data.base / (profile.baseTotal || 1));
  return heatColour(Math.min(1, d.data.self / hottestSelf));
}

/* From a change of this share of the time on the colour is at its strongest. */
const FULL_CHANGE = 0.2;

function differenceColour(change) {
  const strength = Math.min(1, Math.abs(change) / FULL_CHANGE);
  if (!change) return 'hsl(0 0% 94%)';
  return change > 0 ? `hsl(5 85% ${94 - 26 * strength}%)` : `hsl(215 85% ${94 - 26 * strength}%)`;
}

const heatColour = (heat) => `hsl(${50 - 48 * Math.sqrt(heat)} 92% ${80 - 14 * Math.sqrt(heat)}%)`;

/* What the colours mean, in colours and words. */
function legendRows() {
  if (state.colour === 'kind') return kinds.map((kind) => [`hsl(${HUES[kind]} ${kind === 'kernel' ? 0 : 65}% 72%)`, kind]);
  if (state.colour === 'heat') return [[heatColour(0), 'no time at the top of the stack'], [heatColour(0.25), ''], [heatColour(1), `most: ${amount(hottestSelf)} (${percent(hottestSelf, profile.total)})`]];
  const points = 100 * FULL_CHANGE;
  return [[differenceColour(-1), `${points} points less of the time than in the base, or more`], [differenceColour(-FULL_CHANGE / 2), `${points / 2} less`], [differenceColour(0), 'the same share'],
    [differenceColour(FULL_CHANGE / 2), `${points / 2} more`], [differenceColour(1), `${points} points more, or new`]];
}

function drawLegend() {
  const rows = test ? [...legendRows(), ['#d36bff', 'found']] : legendRows();
  legend.replaceChildren(...rows.map(([colour, words]) => {
    const swatch = element('span', { class: 'swatch', 'aria-hidden': 'true' });
    swatch.style.background = colour;
    return element('span', { role: 'listitem' }, swatch, words);
  }));
}

function describe(d) {
  const frame = profile.frames[d.data.id];
  const value = d.data.real ?? d.data.value;
  const parts = [d.parent ? nameOf(frame) : 'all', placeOf(frame), d.parent ? frame.kind : '',
    `${amount(value)} (${percent(value, profile.total)})`, `at the top ${amount(d.data.self)} (${percent(d.data.self, profile.total)})`];
  if (profile.differential)
    parts.push(`base ${percent(d.data.base, profile.baseTotal)}`);
  return parts.filter(Boolean).join('  ·  ');
}

const detail = element('div', { id: 'detail', 'aria-live': 'polite' });
const share = element('span', { id: 'share', 'aria-live': 'polite' });
const legend = element('div', { id: 'legend', role: 'list', 'aria-label': 'colours' });
const graph = element('div', { id: 'graph', role: 'group', 'aria-label': 'flame graph: arrows walk, Enter zooms, Escape goes back' });
const search = element('input', { id: 'search', type: 'search', placeholder: 'search ( / )', 'aria-label': 'search functions', oninput: () => { state.term = search.value; draw(); } });
const hotBody = element('tbody');

function zoom(ids) {
  state.focus = ids;
  draw();
}

function makeFocusable() {
  select(graph).selectAll('g.frame').each(function (d) {
    // One stop for the tab key; arrows go on from there.
    this.setAttribute('tabindex', d.parent ? '-1' : '0');
    this.setAttribute('role', 'button');
    this.setAttribute('aria-label', describe(d));
    this.addEventListener('focus', () => {
      detail.textContent = describe(d);
      graph.querySelector('g.frame[tabindex="0"]')?.setAttribute('tabindex', '-1');
      this.setAttribute('tabindex', '0');
    });
    this.addEventListener('keydown', (event) => onFrameKey(event, d));
  });
}

function nodeElement(d) {
  return d && [...graph.querySelectorAll('g.frame')].find((g) => g.__data__ === d);
}

/* Arrows walk the graph as it is drawn; Enter zooms. */
function onFrameKey(event, d) {
  const callee = d.children && d.children.reduce((a, b) => (b.value > a.value ? b : a));
  const siblings = d.parent ? d.parent.children.slice().sort((a, b) => a.x0 - b.x0) : [d];
  const at = siblings.indexOf(d);
  const [callers, callees] = state.inverted ? ['ArrowUp', 'ArrowDown'] : ['ArrowDown', 'ArrowUp'];
  const target = { [callees]: callee, [callers]: d.parent, ArrowLeft: siblings[at - 1], ArrowRight: siblings[at + 1] }[event.key];
  if (event.key === 'Enter' || event.key === ' ') zoom(pathOf(d));
  else if (target) nodeElement(target)?.focus();
  else return;
  event.preventDefault();
}

function matcher(term) {
  if (!term) return null;
  let pattern;
  try { pattern = new RegExp(term, 'i'); } catch { pattern = null; }
  const plain = term.toLowerCase();
  return (f) => f.index > 0 && (pattern ? pattern.test(nameOf(f)) || pattern.test(placeOf(f)) : `${nameOf(f)} ${placeOf(f)}`.toLowerCase().includes(plain));
}

function drawTable() {
  const rows = hottest(profile, { hidden: state.hidden, merged: state.merged }, TOP_ROWS);
  hotBody.replaceChildren(...rows.map((row) => element('tr', { onclick: () => find(row.frame) },
    element('td', { class: 'number' }, amount(row.self)), element('td', { class: 'number' }, percent(row.self, profile.total)),
    element('td', { class: 'number' }, percent(row.total, profile.total)), element('td', {}, row.frame.kind),
    element('td', {}, element('button', { type: 'button', class: 'name', 'aria-label': `find ${nameOf(row.frame)}` }, nameOf(row.frame))), element('td', {}, placeOf(row.frame)))));
}

function find(frame) {
  search.value = state.term = frame.name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  draw();
  search.scrollIntoView({ block: 'nearest' });
}

function draw() {
  const width = Math.max(300, graph.clientWidth || document.body.clientWidth);
  tree = build(profile, state);
  test = matcher(state.term);
  share.textContent = test ? `matched ${percent(matched(profile, test), profile.total)}` : '';
  hottestSelf = 1;
  const todo = [tree.root];
  while (todo.length) {
    const node = todo.pop();
    if (node !== tree.root && node.self > hottestSelf) hottestSelf = node.self;
    for (const c of node.children.values()) todo.push(c);
  }
  const data = graphData(width);
  chart?.destroy();
  graph.replaceChildren();
  chart = flamegraph().width(width).cellHeight(CELL_PX).transitionDuration(0).minFrameSize(SMALLEST_PX)
    .inverted(state.inverted).sort((a, b) => b.value - a.value).tooltip(false)
    .getName((d) => (d.parent ? nameOf(profile.frames[d.data.id]) : 'all'))
    .setLabelHandler(describe).setColorMapper(colourOf)
    .setDetailsHandler((text) => { detail.textContent = text ?? ''; })
    .onClick((d) => zoom(pathOf(d)));
  select(graph).datum(data).call(chart);
  // So that it can be drawn at another width, as on paper.
  const svg = graph.querySelector('svg');
  svg.setAttribute('viewBox', `0 0 ${svg.getAttribute('width')} ${svg.getAttribute('height')}`);
  makeFocusable();
  drawLegend();
  for (const button of document.querySelectorAll('button[data-pressed]'))
    button.setAttribute('aria-pressed', String(pressed[button.dataset.pressed](button.dataset.value)));
  drawTable();
}

const pressed = {
  kind: (kind) => !state.hidden.has(kind),
  colour: (colour) => state.colour === colour,
  merged: () => state.merged,
  inverted: () => state.inverted,
};

function toggle(label, group, value, action, title) {
  return element('button', { type: 'button', 'data-pressed': group, 'data-value': value, title, onclick: () => { action(); draw(); } }, label);
}

function flip(kind) {
  if (!state.hidden.delete(kind)) state.hidden.add(kind);
}

document.addEventListener('keydown', (event) => {
  if ((event.key === '/' && document.activeElement !== search) || (event.key === 'f' && event.ctrlKey)) {
    search.focus();
    search.select();
    event.preventDefault();
  } else if (event.key === 'Escape') {
    search.value = state.term = '';
    zoom([]);
  }
});
window.addEventListener('resize', () => draw());

const colours = profile.differential ? ['difference', 'heat', 'kind'] : ['heat', 'kind'];
const marked = profile.frames.some((f) => f.mark);
document.getElementById('page').append(...[
  element('h1', {}, page.title),
  element('div', { class: 'dim' }, `${amount(profile.total)} ${profile.offCpu ? 'waiting' : 'on the CPU'}. Width: time; click or Enter: zoom; Esc: back; /: search; arrows: walk.`),
  page.notes.length ? element('div', { class: 'notes' }, page.notes.map((note) => element('div', {}, note))) : '',
  element('div', { id: 'bar' },
    search, share,
    element('span', { class: 'group', role: 'group', 'aria-label': 'kinds shown' }, kinds.map((kind) => toggle(kind, 'kind', kind, () => flip(kind), `show or hide ${kind}`))),
    element('span', { class: 'group', role: 'group', 'aria-label': 'colour by' }, 'colour', colours.map((c) => toggle(c, 'colour', c, () => { state.colour = c; }))),
    marked ? toggle('merge * ~', 'merged', '', () => { state.merged = !state.merged; }, 'optimised (*) and not optimised (~) as one') : null,
    toggle('inverted', 'inverted', '', () => { state.inverted = !state.inverted; state.focus = []; }, 'callers above what they call'),
    element('button', { type: 'button', id: 'reset', onclick: () => zoom([]) }, 'reset zoom')),
  legend, detail, graph,
  element('h2', {}, 'Hottest functions'),
  element('table', { id: 'hot', 'aria-label': 'hottest functions' },
    element('thead', {}, element('tr', {}, ['self', '%', 'total %'].map((h) => element('th', { class: 'number', scope: 'col' }, h)), ['kind', 'function', 'where'].map((h) => element('th', { scope: 'col' }, h)))),
    hotBody)].filter(Boolean));
draw();
