// The two kinds of work, and a clock of the calling thread's own CPU time.
//
// `fib`: recursive Fibonacci of 30 (light) and 37 (heavy), as in the reference.
// `burn`: computes until the calling thread has used 6 ms or 200 ms of CPU time, so that stacks
// in different languages do equal work and only what is underneath differs.
//
// Why WASI for the clock: process.threadCpuUsage() is getrusage(RUSAGE_THREAD), which Linux brings
// up to date only at a scheduler tick (steps of 4 ms at HZ=250), far too coarse for 6 ms.
// WASI's clock 3 is clock_gettime(CLOCK_THREAD_CPUTIME_ID), exact to the nanosecond, in the main
// thread and in workers alike, and costs about a microsecond.
import { WASI } from 'node:wasi';

export const BURN_MS = { fast: 6, slow: 200 };
export const FIB_OF = { fast: 30, slow: 37 };

const THREAD_CPU_CLOCK = 3; // __WASI_CLOCK_THREAD_CPUTIME_ID
const CHUNK = 20000; // iterations between two looks at the clock: about 20 microseconds

export function fib(n) {
  return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

// The least module WASI accepts: (module (memory (export "memory") 1) (func (export "_initialize")))
const MODULE = Uint8Array.from([
  0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00, // magic, version
  0x01, 0x04, 0x01, 0x60, 0x00, 0x00, // type: () -> ()
  0x03, 0x02, 0x01, 0x00, // one function of that type
  0x05, 0x03, 0x01, 0x00, 0x01, // memory of at least one page
  0x07, 0x18, 0x02, // two exports
  0x06, ...Buffer.from('memory'), 0x02, 0x00,
  0x0b, ...Buffer.from('_initialize'), 0x00, 0x00,
  0x0a, 0x04, 0x01, 0x02, 0x00, 0x0b, // its body: end
]);

/** Returns a function that gives this thread's CPU time in nanoseconds. */
function threadCpuClock() {
  const wasi = new WASI({ version: 'preview1' });
  const instance = new WebAssembly.Instance(new WebAssembly.Module(MODULE), wasi.getImportObject());
  wasi.initialize(instance);
  // Two halves, not a BigUint64Array: a BigInt a look would be garbage, and collecting it would
  // cost CPU time beside the work.
  const result = new Uint32Array(instance.exports.memory.buffer, 0, 2);
  const read = wasi.wasiImport.clock_time_get;
  return () => {
    const error = read(THREAD_CPU_CLOCK, 0n, 0);
    if (error !== 0) throw new Error(`thread CPU clock: WASI error ${error}`);
    return result[1] * 2 ** 32 + result[0];
  };
}

let threadCpu;

/** Uses `ms` milliseconds of this thread's CPU time; returns what it used, in milliseconds. */
export function burn(ms) {
  threadCpu ??= threadCpuClock();
  const start = threadCpu();
  const end = start + ms * 1e6;
  let x = 1;
  let now;
  do {
    for (let i = 0; i < CHUNK; i++) x = (Math.imul(x, 1664525) + 1013904223) | 0;
    now = threadCpu();
  } while (now < end);
  return (now - start) / 1e6 + (x === 0 ? 1e-9 : 0); // x is used: the loop can't be optimised away
}

/** Does the work of a request of `kind` ('fast' or 'slow') and returns the response's body. */
export function compute(work, kind) {
  if (work === 'burn') {
    burn(BURN_MS[kind]);
    return { value: BURN_MS[kind] };
  }
  return { value: fib(FIB_OF[kind]) };
}
