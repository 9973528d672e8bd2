// What GET /seed/v1 answers with: 5,000 random bytes as hex, and a timestamp that moves once a
// minute.
import { randomBytes } from 'node:crypto';

export const data = randomBytes(5000).toString('hex');

let ts = Date.now();
setInterval(() => {
  ts = Date.now();
}, 60_000).unref();

export function timestamp() {
  return ts;
}
