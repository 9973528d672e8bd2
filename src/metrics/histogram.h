/* histogram.h: the layout behind dz_histogram, for those who record inline. */
#ifndef DZ_METRICS_HISTOGRAM_H
#define DZ_METRICS_HISTOGRAM_H

#include <donmaz/metrics.h>

#include <stdatomic.h>

enum {
    DZ_HISTOGRAM_SUB_BITS = 6, /* 64 steps in each doubling */
    DZ_HISTOGRAM_MAX_BITS = 44,
    DZ_HISTOGRAM_STEPS = (DZ_HISTOGRAM_MAX_BITS - DZ_HISTOGRAM_SUB_BITS + 1)
                         << DZ_HISTOGRAM_SUB_BITS,
};

struct dz_histogram {
    _Atomic uint64_t sum;
    _Atomic uint64_t max;
    _Atomic uint64_t counts[DZ_HISTOGRAM_STEPS];
};

/* Steps 0..63 are the values themselves; from there on, dropping `shift` low bits leaves 64..127,
 * so that step = shift * 64 + (value >> shift) runs on without a gap. */
static inline size_t dz_histogram_step(uint64_t value)
{
    const uint64_t top = (UINT64_C(1) << DZ_HISTOGRAM_MAX_BITS) - 1;
    if (value > top)
        value = top;
    int high = 63 - __builtin_clzll(value | 1);
    int shift = high > DZ_HISTOGRAM_SUB_BITS ? high - DZ_HISTOGRAM_SUB_BITS : 0;
    return ((size_t)shift << DZ_HISTOGRAM_SUB_BITS) + (size_t)(value >> shift);
}

/* Adds without a locked instruction: right only where one thread at a time writes. */
static inline void dz_histogram_bump(_Atomic uint64_t *number, uint64_t amount)
{
    atomic_store_explicit(number, atomic_load_explicit(number, memory_order_relaxed) + amount,
                          memory_order_relaxed);
}

/* dz_histogram_record, inline. */
static inline void dz_histogram_put(dz_histogram *histogram, uint64_t value)
{
    dz_histogram_bump(&histogram->counts[dz_histogram_step(value)], 1);
    dz_histogram_bump(&histogram->sum, value);
    if (value > atomic_load_explicit(&histogram->max, memory_order_relaxed))
        atomic_store_explicit(&histogram->max, value, memory_order_relaxed);
}

#endif
