import { el } from './dom.js';
import { figure } from './figures.js';

/** Bars for one metric: items are {name, colour, value, low, high}. The text beside each bar is the
 * figure, so nothing is told by length or colour alone. */
export function bars(title, items, note) {
  const most = Math.max(...items.map((item) => Math.max(item.value ?? 0, item.high ?? 0)), 0);
  const percent = (value) => `${most > 0 ? (100 * value) / most : 0}%`;
  return el(
    'figure',
    {},
    el('figcaption', {}, title, note ? el('span', { class: 'quiet' }, ` – ${note}`) : null),
    el(
      'div',
      { role: 'list' },
      items.map((item) =>
        el(
          'div',
          { class: 'bar', role: 'listitem', 'data-stack': item.name },
          el('span', {}, item.name),
          el(
            'span',
            { class: 'track', 'aria-hidden': 'true' },
            item.value === null
              ? null
              : el('span', { class: 'fill', style: { width: percent(item.value), background: item.colour } }),
            item.low === null
              ? null
              : el('span', { class: 'interval', style: { left: percent(item.low), width: percent(item.high - item.low) } }),
          ),
          el('span', { class: 'value', title: item.low === null ? null : `95%: ${figure(item.low)} to ${figure(item.high)}` }, figure(item.value)),
        ),
      ),
    ),
  );
}
