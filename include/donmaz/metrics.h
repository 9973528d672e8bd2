/* metrics.h: histograms, counters and gauges that cost nanoseconds to record, and the Prometheus
 * text that shows them (exposition format 0.0.4).
 *
 * Recording never allocates, locks or fails. Reading may happen on any thread at any time; a
 * reader sees each number whole, though not all of them as of the same instant. */
#ifndef DONMAZ_METRICS_H
#define DONMAZ_METRICS_H

#include <donmaz/buf.h>
#include <donmaz/export.h>

#include <stdint.h>

/* --- histogram ------------------------------------------------------------------------------ */

/* Counts of unsigned values (nanoseconds, bytes) in log-linear steps: values below 64 are exact,
 * above that a step is at most 1/64 of its value wide, so a percentile is at most 0.8 % off.
 * Values of 2^44 (4.9 hours in ns) and more share the last step. About 20 KB, touched as needed. */
typedef struct dz_histogram dz_histogram;

/* NULL out of memory. The caller frees it with dz_histogram_free. */
DZ_API dz_histogram *dz_histogram_new(void);
DZ_API void dz_histogram_free(dz_histogram *histogram); /* NULL is harmless */

/* Counts one value. One writer at a time: for a histogram that belongs to one thread or loop. */
DZ_API void dz_histogram_record(dz_histogram *histogram, uint64_t value);

/* Counts one value; any number of threads at once (atomic increments, a few ns more). */
DZ_API void dz_histogram_record_shared(dz_histogram *histogram, uint64_t value);

/* Adds the counts of `from` to `into`. Only one thread may write to `into` meanwhile. */
DZ_API void dz_histogram_merge(dz_histogram *into, const dz_histogram *from);

/* Forgets all counts; what other threads record meanwhile may or may not survive. */
DZ_API void dz_histogram_reset(dz_histogram *histogram);

DZ_API uint64_t dz_histogram_count(const dz_histogram *histogram);
DZ_API uint64_t dz_histogram_sum(const dz_histogram *histogram); /* exact; wraps at 2^64 */
DZ_API uint64_t dz_histogram_max(const dz_histogram *histogram); /* exact; 0 when empty */
DZ_API double dz_histogram_mean(const dz_histogram *histogram);  /* 0 when empty */

/* The value that `percent` (0 to 100; others are clamped, NaN counts as 100) of the recorded
 * values do not exceed; 0 when empty, never above the maximum. */
DZ_API uint64_t dz_histogram_percentile(const dz_histogram *histogram, double percent);

/* How many values are at most `limit`, as precise as the steps. */
DZ_API uint64_t dz_histogram_count_at_most(const dz_histogram *histogram, uint64_t limit);

#endif
