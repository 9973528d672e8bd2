// Reads the result of `autocannon -j` on standard input as autocannon's documentation describes it,
// and knows nothing of donmaz. Any field that is missing or of another type is an error.
import { readFileSync } from 'node:fs';

const PERCENTILES = ['p0_001', 'p0_01', 'p0_1', 'p1', 'p2_5', 'p10', 'p25', 'p50', 'p75', 'p90', 'p97_5', 'p99', 'p99_9', 'p99_99', 'p99_999'];
const result = JSON.parse(readFileSync(0, 'utf8'));

function number(holder, name) {
  if (typeof holder?.[name] !== 'number' || !Number.isFinite(holder[name])) throw new Error(`${name} is no number`);
  return holder[name];
}

function histogram(name) {
  const part = result[name];
  const values = PERCENTILES.map((p) => number(part, p));
  if (values.some((value, i) => i > 0 && value < values[i - 1])) throw new Error(`${name}: percentiles must not fall`);
  for (const key of ['average', 'mean', 'stddev', 'min', 'max']) number(part, key);
  return part;
}

const [latency, requests, throughput] = ['latency', 'requests', 'throughput'].map(histogram);
const seconds = (new Date(result.finish) - new Date(result.start)) / 1000;
if (!(seconds > 0)) throw new Error('start and finish are no dates in order');
const byClass = ['1xx', '2xx', '3xx', '4xx', '5xx'].reduce((sum, name) => sum + number(result, name), 0);
const byStatus = Object.values(result.statusCodeStats).reduce((sum, { count }) => sum + count, 0);

console.log(JSON.stringify({
  url: result.url,
  connections: number(result, 'connections'),
  pipelining: number(result, 'pipelining'),
  requests: number(requests, 'total'),
  sent: number(requests, 'sent'),
  bytes: number(throughput, 'total'),
  seconds,
  duration: number(result, 'duration'),
  byClass,
  byStatus,
  failed: number(result, 'errors') + number(result, 'timeouts') + number(result, 'mismatches') + number(result, 'resets'),
  non2xx: number(result, 'non2xx'),
  ms: { p2_5: latency.p2_5, p50: latency.p50, p99: latency.p99, max: latency.max },
}));
