/* Writes the registry in the text exposition format, version 0.0.4. */
#include "metrics/registry.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Appending, with the first failure kept. */
typedef struct writer {
    dz_buf *text;
    int rc;
} writer;

static void put(writer *w, dz_slice bytes)
{
    if (w->rc == 0)
        w->rc = dz_buf_append(w->text, bytes);
}

static void put_text(writer *w, const char *text)
{
    put(w, dz_slice_of(text));
}

static void put_integer(writer *w, uint64_t value)
{
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%" PRIu64, value);
    put(w, dz_slice_make(digits, (size_t)len));
}

static void put_signed(writer *w, int64_t value)
{
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%" PRId64, value);
    put(w, dz_slice_make(digits, (size_t)len));
}

/* The shortest of 15 or 17 digits that reads back as the same number. */
static void put_double(writer *w, double value)
{
    char digits[40];
    if (isnan(value)) {
        put_text(w, "NaN");
        return;
    }
    if (isinf(value)) {
        put_text(w, value > 0 ? "+Inf" : "-Inf");
        return;
    }
    snprintf(digits, sizeof digits, "%.15g", value);
    if (strtod(digits, NULL) != value)
        snprintf(digits, sizeof digits, "%.17g", value);
    put_text(w, digits);
}

static void put_help(writer *w, const char *help)
{
    for (const char *c = help; *c; c++) {
        if (*c == '\\')
            put(w, DZ_LIT("\\\\"));
        else if (*c == '\n')
            put(w, DZ_LIT("\\n"));
        else
            put(w, dz_slice_make(c, 1));
    }
}

static void put_head(writer *w, const dz_family *family)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};
    put(w, DZ_LIT("# HELP "));
    put_text(w, family->name);
    put(w, DZ_LIT(" "));
    put_help(w, family->help);
    put(w, DZ_LIT("\n# TYPE "));
    put_text(w, family->name);
    put(w, DZ_LIT(" "));
    put_text(w, types[family->type]);
    put(w, DZ_LIT("\n"));
}

/* name_suffix{labels} and a space; the caller adds the value. */
static void put_name(writer *w, const dz_family *family, const char *suffix, const char *labels)
{
    put_text(w, family->name);
    put_text(w, suffix);
    if (*labels) {
        put(w, DZ_LIT("{"));
        put_text(w, labels);
        put(w, DZ_LIT("}"));
    }
    put(w, DZ_LIT(" "));
}

static void put_simple(writer *w, const dz_family *family, const dz_series *series)
{
    if (!series->counter && !series->gauge && !series->sources)
        return; /* its function was taken out */
    put_name(w, family, "", series->labels);
    if (series->counter)
        put_integer(w, dz_counter_value(series->counter));
    else if (series->gauge)
        put_signed(w, dz_gauge_value(series->gauge));
    else
        put_double(w, series->sources->fn(series->sources->data));
    put(w, DZ_LIT("\n"));
}

static void put_bucket(writer *w, const dz_family *family, const dz_series *series, double bound,
                       uint64_t count)
{
    put_text(w, family->name);
    put(w, DZ_LIT("_bucket{"));
    if (*series->labels) {
        put_text(w, series->labels);
        put(w, DZ_LIT(","));
    }
    put(w, DZ_LIT("le=\""));
    put_double(w, bound);
    put(w, DZ_LIT("\"} "));
    put_integer(w, count);
    put(w, DZ_LIT("\n"));
}

/* Spreads a histogram's steps over the buckets: buckets[i] gets what lies above bound i-1 and at
 * most at bound i, buckets[bound_count] the rest. */
static void add_to_buckets(const dz_family *family, const dz_histogram *histogram,
                           uint64_t *buckets)
{
    size_t bucket = 0;
    for (size_t step = 0; step < DZ_HISTOGRAM_STEPS; step++) {
        while (bucket < family->bound_count) {
            double limit = family->bounds[bucket] / family->scale;
            const double top = (double)(UINT64_C(1) << DZ_HISTOGRAM_MAX_BITS);
            /* The hair above a whole number is what the division lost. */
            uint64_t whole = limit < top ? (uint64_t)(limit * (1 + 1e-12)) : UINT64_MAX;
            if (step <= dz_histogram_step(whole))
                break;
            bucket++;
        }
        buckets[bucket] += atomic_load_explicit(&histogram->counts[step], memory_order_relaxed);
    }
}

/* _count is the +Inf bucket, not read again: the two must agree while others record. */
static void put_histogram(writer *w, const dz_family *family, const dz_series *series,
                          uint64_t *buckets)
{
    if (!series->sources)
        return;
    memset(buckets, 0, (family->bound_count + 1) * sizeof *buckets);
    double sum = 0;
    for (const dz_source *source = series->sources; source; source = source->next) {
        add_to_buckets(family, source->histogram, buckets);
        sum += (double)dz_histogram_sum(source->histogram);
    }
    uint64_t count = 0;
    for (size_t i = 0; i <= family->bound_count; i++) {
        count += buckets[i];
        put_bucket(w, family, series, i < family->bound_count ? family->bounds[i] : INFINITY,
                   count);
    }
    put_name(w, family, "_sum", series->labels);
    put_double(w, sum * family->scale);
    put(w, DZ_LIT("\n"));
    put_name(w, family, "_count", series->labels);
    put_integer(w, count);
    put(w, DZ_LIT("\n"));
}

static void put_family(writer *w, const dz_family *family)
{
    put_head(w, family);
    if (family->type != DZ_METRIC_HISTOGRAM) {
        for (const dz_series *series = family->series; series; series = series->next)
            put_simple(w, family, series);
        return;
    }
    uint64_t *buckets = malloc((family->bound_count + 1) * sizeof *buckets);
    if (!buckets) {
        w->rc = DZ_E_NOMEM;
        return;
    }
    for (const dz_series *series = family->series; series; series = series->next)
        put_histogram(w, family, series, buckets);
    free(buckets);
}

/* With metrics->writing held. */
static int collect(dz_metrics *metrics)
{
    for (const dz_collector *at = metrics->collectors; at; at = at->next) {
        int rc = at->fn(metrics, at->data);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int dz_metrics_write(dz_metrics *metrics, dz_buf *text)
{
    pthread_mutex_lock(&metrics->writing);
    writer w = {.text = text, .rc = collect(metrics)};
    pthread_mutex_lock(&metrics->lock);
    locale_t before = uselocale(metrics->c_locale);
    for (const dz_family *family = metrics->families; family && w.rc == 0; family = family->next)
        put_family(&w, family);
    uselocale(before);
    pthread_mutex_unlock(&metrics->lock);
    pthread_mutex_unlock(&metrics->writing);
    return w.rc;
}
