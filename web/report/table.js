import { el } from './dom.js';

/**
 * A table whose columns sort. columns: [{title, sort?: 'number'|'text'}]; rows: arrays of
 * {text, sort, title?}. A sorted column says so to screen readers (aria-sort).
 */
export function sortableTable(caption, columns, rows) {
  const body = el('tbody');
  const heads = columns.map((column, i) =>
    el('th', { scope: 'col' }, el('button', { type: 'button', onclick: () => sortBy(i) }, column)),
  );
  const lines = rows.map((cells) => ({
    cells,
    element: el(
      'tr',
      {},
      cells.map((cell, i) => el(i ? 'td' : 'th', { scope: i ? null : 'row', title: cell.title }, cell.text)),
    ),
  }));

  function sortBy(column) {
    const up = heads[column].getAttribute('aria-sort') !== 'ascending';
    heads.forEach((head) => head.removeAttribute('aria-sort'));
    heads[column].setAttribute('aria-sort', up ? 'ascending' : 'descending');
    // What was not measured stays at the end, either way.
    const missing = (v) => v === null || v === undefined;
    lines.sort(({ cells: a }, { cells: b }) => {
      const [x, y] = [a[column].sort, b[column].sort];
      if (missing(x) || missing(y)) return missing(x) - missing(y);
      const order = typeof x === 'number' ? x - y : String(x).localeCompare(String(y));
      return up ? order : -order;
    });
    body.replaceChildren(...lines.map((line) => line.element));
  }

  body.append(...lines.map((line) => line.element));
  return el(
    'div',
    { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': caption },
    el('table', {}, el('caption', {}, caption), el('thead', {}, el('tr', {}, heads)), body),
  );
}
