import { el } from './dom.js';

function save(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  el('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

function quoted(value) {
  const text = String(value ?? '');
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function csvOf(rows) {
  return rows.map((row) => row.map(quoted).join(',') + '\n').join('');
}

/** Buttons that give back the figures: the document itself, and `rows` as CSV. */
export function downloads(name, document, rows) {
  return el(
    'p',
    { class: 'controls' },
    el('button', { type: 'button', onclick: () => save(`${name}.json`, 'application/json', JSON.stringify(document, null, 2) + '\n') }, 'Download JSON'),
    el('button', { type: 'button', onclick: () => save(`${name}.csv`, 'text/csv', csvOf(rows)) }, 'Download CSV'),
  );
}
