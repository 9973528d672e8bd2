#include "metrics/histogram.h"

#include <math.h>
#include <stdlib.h>

static uint64_t get(const _Atomic uint64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

dz_histogram *dz_histogram_new(void)
{
    return calloc(1, sizeof(dz_histogram));
}

void dz_histogram_free(dz_histogram *histogram)
{
    free(histogram);
}

void dz_histogram_record(dz_histogram *histogram, uint64_t value)
{
    dz_histogram_put(histogram, value);
}

static void raise_max(dz_histogram *histogram, uint64_t value)
{
    uint64_t max = get(&histogram->max);
    while (value > max &&
           !atomic_compare_exchange_weak_explicit(&histogram->max, &max, value,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

void dz_histogram_record_shared(dz_histogram *histogram, uint64_t value)
{
    atomic_fetch_add_explicit(&histogram->counts[dz_histogram_step(value)], 1,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->sum, value, memory_order_relaxed);
    raise_max(histogram, value);
}

void dz_histogram_merge(dz_histogram *into, const dz_histogram *from)
{
    for (size_t step = 0; step < DZ_HISTOGRAM_STEPS; step++) {
        uint64_t count = get(&from->counts[step]);
        if (count > 0)
            dz_histogram_bump(&into->counts[step], count);
    }
    dz_histogram_bump(&into->sum, get(&from->sum));
    raise_max(into, get(&from->max));
}

void dz_histogram_reset(dz_histogram *histogram)
{
    for (size_t step = 0; step < DZ_HISTOGRAM_STEPS; step++)
        if (get(&histogram->counts[step]) > 0) /* a clean page stays untouched */
            atomic_store_explicit(&histogram->counts[step], 0, memory_order_relaxed);
    atomic_store_explicit(&histogram->sum, 0, memory_order_relaxed);
    atomic_store_explicit(&histogram->max, 0, memory_order_relaxed);
}

uint64_t dz_histogram_count(const dz_histogram *histogram)
{
    uint64_t count = 0;
    for (size_t step = 0; step < DZ_HISTOGRAM_STEPS; step++)
        count += get(&histogram->counts[step]);
    return count;
}

uint64_t dz_histogram_sum(const dz_histogram *histogram)
{
    return get(&histogram->sum);
}

uint64_t dz_histogram_max(const dz_histogram *histogram)
{
    return get(&histogram->max);
}

double dz_histogram_mean(const dz_histogram *histogram)
{
    uint64_t count = dz_histogram_count(histogram);
    return count > 0 ? (double)dz_histogram_sum(histogram) / (double)count : 0;
}

/* The middle of a step: half a step off at most. */
static uint64_t middle_of(size_t step)
{
    size_t shift = step >> DZ_HISTOGRAM_SUB_BITS;
    if (shift <= 1) /* the first two groups are single values */
        return step;
    shift--;
    uint64_t low = (uint64_t)(step - (shift << DZ_HISTOGRAM_SUB_BITS)) << shift;
    return low + (UINT64_C(1) << shift) / 2;
}

uint64_t dz_histogram_percentile(const dz_histogram *histogram, double percent)
{
    uint64_t count = dz_histogram_count(histogram);
    uint64_t max = dz_histogram_max(histogram);
    if (count == 0)
        return 0;
    if (!(percent < 100))
        return max;
    double exact = ceil((percent > 0 ? percent : 0) / 100 * (double)count);
    uint64_t rank = exact < 1 ? 1 : (uint64_t)exact;
    for (size_t step = 0; step < DZ_HISTOGRAM_STEPS; step++) {
        uint64_t here = get(&histogram->counts[step]);
        if (rank <= here) {
            uint64_t value = middle_of(step);
            return value < max ? value : max;
        }
        rank -= here;
    }
    return max;
}

uint64_t dz_histogram_count_at_most(const dz_histogram *histogram, uint64_t limit)
{
    size_t last = dz_histogram_step(limit);
    uint64_t count = 0;
    for (size_t step = 0; step <= last; step++)
        count += get(&histogram->counts[step]);
    return count;
}
