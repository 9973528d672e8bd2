/* clock.h: time in nanoseconds. */
#ifndef DZ_BASE_CLOCK_H
#define DZ_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define DZ_MS  UINT64_C(1000000)
#define DZ_SEC UINT64_C(1000000000)

static inline uint64_t dz_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t); /* cannot fail: the clock exists and t is ours */
    return (uint64_t)t.tv_sec * DZ_SEC + (uint64_t)t.tv_nsec;
}

/* Monotonic time; through the vDSO, no system call. */
static inline uint64_t dz_now(void)
{
    return dz_clock(CLOCK_MONOTONIC);
}

/* CPU time of the calling thread; a system call. */
static inline uint64_t dz_thread_cpu(void)
{
    return dz_clock(CLOCK_THREAD_CPUTIME_ID);
}

static inline struct timespec dz_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / DZ_SEC), .tv_nsec = (long)(ns % DZ_SEC)};
}

#endif
