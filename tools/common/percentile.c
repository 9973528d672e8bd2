#include "common/percentile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    DIGIT_BITS = 11,
    DIGITS = 1 << DIGIT_BITS,
    PASSES = (64 + DIGIT_BITS - 1) / DIGIT_BITS,
    SMALL = 4096, /* below this qsort is as fast and needs no second array */
};

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static size_t digit(uint64_t value, unsigned pass)
{
    return (size_t)(value >> (pass * DIGIT_BITS)) & (DIGITS - 1);
}

/* One stable pass; false when all values have the same digit, so nothing moved. */
static int radix_pass(const uint64_t *from, uint64_t *to, size_t count, unsigned pass)
{
    size_t at[DIGITS] = {0};
    for (size_t i = 0; i < count; i++)
        at[digit(from[i], pass)]++;
    if (at[digit(from[0], pass)] == count)
        return 0;
    size_t sum = 0;
    for (size_t d = 0; d < DIGITS; d++) {
        size_t n = at[d];
        at[d] = sum;
        sum += n;
    }
    for (size_t i = 0; i < count; i++)
        to[at[digit(from[i], pass)]++] = from[i];
    return 1;
}

void dz_sort_u64(uint64_t *values, size_t count)
{
    uint64_t *other = count < SMALL ? NULL : malloc(count * sizeof *other);
    if (!other) {
        if (count > 1)
            qsort(values, count, sizeof *values, compare);
        return;
    }
    uint64_t *from = values, *to = other;
    for (unsigned pass = 0; pass < PASSES; pass++) {
        if (!radix_pass(from, to, count, pass))
            continue;
        uint64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != values)
        memcpy(values, from, count * sizeof *values);
    free(other);
}

uint64_t dz_percentile(const uint64_t *sorted, size_t count, double p)
{
    if (count == 0)
        return 0;
    /* 99.9 is not exact in binary: without the margin, 99.9 % of 1000 would be rank 1000. */
    long double rank = ceill((long double)p * (long double)count / 100.0L - 1e-6L);
    if (rank < 1)
        rank = 1;
    if (rank > (long double)count)
        rank = (long double)count;
    return sorted[(size_t)rank - 1];
}

dz_summary dz_summarise(const uint64_t *values, size_t count)
{
    dz_summary s = {.count = count};
    if (count == 0)
        return s;
    s.min = s.max = values[0];
    /* Welford: no loss of digits when the spread is small beside the values. */
    double mean = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        double value = (double)values[i], from_old = value - mean;
        mean += from_old / (double)(i + 1);
        squares += from_old * (value - mean);
        if (values[i] < s.min)
            s.min = values[i];
        if (values[i] > s.max)
            s.max = values[i];
    }
    s.mean = mean;
    s.stddev = sqrt(squares / (double)count);
    return s;
}
