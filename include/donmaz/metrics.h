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

/* --- registry ------------------------------------------------------------------------------- */

/* A set of metrics with names and labels. Registering is thread-safe; what was registered lives
 * until the registry is freed. */
typedef struct dz_metrics dz_metrics;
typedef struct dz_counter dz_counter;
typedef struct dz_gauge dz_gauge;

typedef struct dz_label {
    /* [a-zA-Z_][a-zA-Z0-9_]*, not starting with two underscores, and not "worker", which tells the
     * processes of a cluster apart */
    const char *name;
    const char *value; /* any UTF-8 */
} dz_label;

/* Names a metric and one series of it. Copied when registering. Series of one name share type and
 * help (that of the first). */
typedef struct dz_metric {
    const char *name; /* [a-zA-Z_:][a-zA-Z0-9_:]* */
    const char *help; /* one sentence */
    const dz_label *labels;
    size_t label_count;
} dz_metric;

DZ_API dz_metrics *dz_metrics_new(void); /* NULL out of memory */
DZ_API void dz_metrics_free(dz_metrics *metrics);

/* Finds or makes the counter of that name and labels. *out belongs to the registry.
 * DZ_E_INVALID: a bad name or label; DZ_E_EXISTS: the name is taken by another type (or, for the
 * `_fn` and histogram calls, the series is there already); DZ_E_NOMEM. */
DZ_API int dz_metrics_counter(dz_metrics *metrics, const dz_metric *metric, dz_counter **out);
DZ_API int dz_metrics_gauge(dz_metrics *metrics, const dz_metric *metric, dz_gauge **out);

/* A counter or gauge whose value is asked for when the text is written. `fn` is called on the
 * writing thread and must not call this registry. Errors as above. */
typedef double (*dz_metric_fn)(void *data);
DZ_API int dz_metrics_counter_fn(dz_metrics *metrics, const dz_metric *metric, dz_metric_fn fn,
                                 void *data);
DZ_API int dz_metrics_gauge_fn(dz_metrics *metrics, const dz_metric *metric, dz_metric_fn fn,
                               void *data);

/* Shows histograms under a name. Several histograms given for the same name and labels (one a
 * loop, say) are shown as their sum. `scale` turns recorded units into shown ones (1e-9: ns to
 * seconds); `bounds` are the ascending bucket limits in shown units, without +Inf; NULL means the
 * usual ones for seconds, 0.5 ms to 10 s. The histogram stays the caller's: it must outlive the
 * registry or be taken out with dz_metrics_forget. Errors as above. */
DZ_API int dz_metrics_histogram(dz_metrics *metrics, const dz_metric *metric,
                                const dz_histogram *histogram, double scale, const double *bounds,
                                size_t bound_count);

/* Called before each text is written, on the writing thread and one at a time: the place to look at
 * what changes, to set gauges by it, and to register series that did not exist before. A negative
 * return makes dz_metrics_write fail with it. `fn` must not call dz_metrics_forget. DZ_E_NOMEM. */
typedef int (*dz_metrics_collector)(dz_metrics *metrics, void *data);
DZ_API int dz_metrics_collect(dz_metrics *metrics, dz_metrics_collector fn, void *data);

/* Takes a histogram, or every function and collector with that `data`, out of the registry; its
 * counts vanish from the text. Waits for a text being written. */
DZ_API void dz_metrics_forget(dz_metrics *metrics, const void *histogram_or_data);

/* Adds to a counter; any thread, no contention (one cache line a thread, roughly). */
DZ_API void dz_counter_add(dz_counter *counter, uint64_t amount);
DZ_API uint64_t dz_counter_value(const dz_counter *counter);

/* Any thread. */
DZ_API void dz_gauge_set(dz_gauge *gauge, int64_t value);
DZ_API void dz_gauge_add(dz_gauge *gauge, int64_t amount);
DZ_API int64_t dz_gauge_value(const dz_gauge *gauge);

/* The content type of the text. */
#define DZ_METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Appends the whole registry as Prometheus text to an owning or empty buffer. DZ_E_NOMEM: the
 * buffer holds a part and must be thrown away. Any thread, one at a time (others wait). */
DZ_API int dz_metrics_write(dz_metrics *metrics, dz_buf *text);

#endif
