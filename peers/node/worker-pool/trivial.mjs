// Tasks that do next to nothing, to measure what surrounds them.
import { parentPort, workerData } from 'node:worker_threads';

if (workerData?.once) parentPort.postMessage('done');

export default function task() {
  return 0;
}

export function count({ shared, kind }) {
  Atomics.add(shared, 1, 1); // all four begin together
  while (Atomics.load(shared, 1) < 4);
  for (let i = 0; i < 1_000_000; i++)
    if (kind === 'atomic') Atomics.add(shared, 0, 1);
    else shared[0]++;
}

// Computes until it is stopped, and notes when it last did.
export function burn({ beat }) {
  for (;;) Atomics.store(beat, 0, process.hrtime.bigint());
}
