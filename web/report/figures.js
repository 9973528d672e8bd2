// Numbers as the terminal table prints them: three significant digits or more, no exponents.
export function figure(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  const size = Math.abs(value);
  const decimals = size >= 100 || size < 1e-9 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return value.toFixed(decimals);
}

/** Where a metric's figure lies in a stack: the stack, one of its phases, or an endpoint. */
export function holderOf(stack, row) {
  if (!row.phase) return stack;
  const phase = (stack.phases ?? []).find((p) => p.name === row.phase);
  if (!row.path) return phase;
  return phase?.endpoints.find((e) => e.path === row.path);
}

/** {value, low, high} in the metric's unit; value null when it was not measured. */
export function figureOf(metrics, stack, row) {
  const holder = holderOf(stack, row);
  const scale = metrics[row.metric]?.scale ?? 1;
  const value = holder?.[row.metric];
  const interval = holder?.ci?.[row.metric];
  return {
    value: typeof value === 'number' ? value / scale : null,
    low: interval ? interval[0] / scale : null,
    high: interval ? interval[1] / scale : null,
  };
}

export function labelOf(metrics, row) {
  if (row.label) return row.label;
  const { label, unit } = metrics[row.metric] ?? { label: row.metric, unit: '' };
  const name = label === unit ? 'throughput' : label;
  return `${row.path ? row.path + ' ' : ''}${name}${unit ? ` (${unit})` : ''}${row.phase ? ', ' + row.phase : ''}`;
}

/* Distinct in both colour schemes; the second half repeats the hues darker, drawn dashed. */
const HUES = [210, 28, 140, 345, 265, 180, 50, 310, 95, 0];
export function colourOf(index) {
  return `hsl(${HUES[index % HUES.length]} 62% ${index % 2 ? 46 : 52}%)`;
}
