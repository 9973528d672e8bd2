/* percentile.h: exact percentiles of whole samples, never of buckets. */
#ifndef DZ_TOOLS_COMMON_PERCENTILE_H
#define DZ_TOOLS_COMMON_PERCENTILE_H

#include <stddef.h>
#include <stdint.h>

/* Sorts ascending; O(n) for large arrays, with a second array of the same size when there is memory
 * for it and in place otherwise. */
void dz_sort_u64(uint64_t *values, size_t count);

/* The value at percentile p (0 to 100) of an ascending array: nearest rank, that is, the smallest
 * value that at least p percent of all values do not exceed. Always a value that was measured.
 * 0 when count is 0. */
uint64_t dz_percentile(const uint64_t *sorted, size_t count, double p);

typedef struct dz_summary {
    size_t count;
    uint64_t min, max; /* 0 when count is 0 */
    double mean;
    double stddev; /* of the population */
} dz_summary;

dz_summary dz_summarise(const uint64_t *values, size_t count);

#endif
