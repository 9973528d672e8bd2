/* pingpong.h: the least two threads need to wake each other in turn, which is what handing a task
 * to a worker and back is measured against. */
#ifndef BENCH_PINGPONG_H
#define BENCH_PINGPONG_H

#include <stddef.h>
#include <stdint.h>

/* The median of `count` durations in ns, as µs; sorts them. */
double bench_median_us(uint64_t *times, size_t count);

/* The calling thread and another one pass a futex to and fro: the median round trip of `count` in
 * µs, with `times` for the single ones. `begin` (may be NULL) is called first on the other thread.
 * 0: no thread. One at a time. */
double bench_futex_us(uint64_t *times, size_t count, void (*begin)(void));

#endif
