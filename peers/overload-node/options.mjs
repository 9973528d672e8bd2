// What both programs take: --host ADDRESS --port N --burn-us N --max-delay MS --sample-ms MS.
import { burn } from '../node/work.mjs';

// The event loop delay above which requests are refused, in ms. 42 is overload-protection's own
// default; experiments/overload.yaml tells how the one used there was chosen.
export function options() {
  const values = { host: '127.0.0.1', port: '3000', 'burn-us': '5000', 'max-delay': '42', 'sample-ms': '5' };
  const words = process.argv.slice(2);
  for (let i = 0; i < words.length; i += 2) {
    const name = words[i].replace(/^--/, '');
    if (!(name in values) || words[i + 1] === undefined) {
      console.error(
        `usage: node ${process.argv[1]} [--host ADDRESS] [--port N] [--burn-us N] [--max-delay MS] [--sample-ms MS]`);
      process.exit(2);
    }
    values[name] = words[i + 1];
  }
  const burnMs = Number(values['burn-us']) / 1000;
  return {
    host: values.host,
    port: Number(values.port),
    maxDelay: Number(values['max-delay']),
    sampleMs: Number(values['sample-ms']),
    work() {
      burn(burnMs);
      return { worked: true };
    },
  };
}
