/* --compare: is it faster, slower, or the same?
 *
 * Latencies that follow each other resemble each other, so resampling single requests would give
 * intervals far too narrow. Whole sample intervals (one second by default) are resampled instead:
 * a block bootstrap. Each interval's latencies are kept as a histogram fine to 1.6 %. */
#include "load/report.h"

#include "common/format.h"
#include "common/table.h"

#include <donmaz/error.h>

#include <math.h>
#include <stdlib.h>

enum { RESAMPLES = 1000, FEWEST_INTERVALS = 5 };

typedef struct bucket {
    uint32_t index, count;
} bucket;

typedef struct block {
    double requests; /* a second */
    bucket *buckets; /* owned */
    size_t count;
} block;

typedef struct series {
    block *blocks;
    size_t count;
    json_t *json; /* the base's figures; NULL for the present run */
    double rps;   /* over the whole run */
} series;

static void free_series(series *s)
{
    for (size_t i = 0; s->blocks && i < s->count; i++)
        free(s->blocks[i].buckets);
    free(s->blocks);
    json_decref(s->json);
    *s = (series){0};
}

static int from_result(series *s, const load_result *r)
{
    *s = (series){.count = r->interval_count,
                  .blocks = calloc(r->interval_count + 1, sizeof(block))};
    if (!s->blocks)
        return DZ_E_NOMEM;
    s->rps = r->duration > 0 ? (double)r->totals.completed / load_result_seconds(r) : 0;
    for (size_t i = 0; i < s->count; i++) {
        const load_interval *interval = &r->intervals[i];
        block *b = &s->blocks[i];
        b->requests = (double)interval->requests * 1e9 / (double)r->interval;
        b->buckets = calloc(LOAD_BUCKETS, sizeof *b->buckets);
        if (!b->buckets)
            return DZ_E_NOMEM;
        for (uint32_t n = 0; interval->histogram && n < LOAD_BUCKETS; n++)
            if (interval->histogram[n] > 0)
                b->buckets[b->count++] = (bucket){.index = n, .count = interval->histogram[n]};
    }
    return 0;
}

/* One [bucket, count] pair; false when it is none. */
static bool read_bucket(json_t *pair, bucket *out)
{
    json_int_t index = json_integer_value(json_array_get(pair, 0));
    json_int_t count = json_integer_value(json_array_get(pair, 1));
    if (index < 0 || index >= LOAD_BUCKETS || count < 1 || count > UINT32_MAX)
        return false;
    *out = (bucket){.index = (uint32_t)index, .count = (uint32_t)count};
    return true;
}

static int from_json(series *s, json_t *json)
{
    json_t *intervals = json_object_get(json, "intervals");
    double interval_ms = json_number_value(json_object_get(json, "sampleInt"));
    *s = (series){.json = json, .count = json_array_size(intervals)};
    s->rps = json_number_value(json_object_get(json_object_get(json, "requests"), "average"));
    s->blocks = calloc(s->count + 1, sizeof *s->blocks);
    if (!s->blocks)
        return DZ_E_NOMEM;
    if (!json_is_array(intervals) || interval_ms <= 0)
        return DZ_E_FORMAT;
    for (size_t i = 0; i < s->count; i++) {
        json_t *interval = json_array_get(intervals, i);
        json_t *pairs = json_object_get(interval, "latency");
        block *b = &s->blocks[i];
        b->requests = json_number_value(json_object_get(interval, "requests")) * 1000 / interval_ms;
        b->buckets = calloc(json_array_size(pairs) + 1, sizeof *b->buckets);
        if (!b->buckets)
            return DZ_E_NOMEM;
        for (size_t n = 0; n < json_array_size(pairs); n++)
            if (!read_bucket(json_array_get(pairs, n), &b->buckets[b->count++]))
                return DZ_E_FORMAT;
    }
    return 0;
}

static uint64_t next_random(uint64_t *seed)
{
    uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* What is compared: percentiles, the mean (percentile < 0), and throughput. */
static const struct {
    const char *name, *key;
    double percentile;
} latencies[] = {{"Latency mean", "mean", -1},
                 {"Latency 50%", "p50", 50},
                 {"Latency 90%", "p90", 90},
                 {"Latency 99%", "p99", 99},
                 {"Latency 99.9%", "p99_9", 99.9}};

enum { LATENCIES = sizeof latencies / sizeof latencies[0], FIGURES = LATENCIES + 1 };

static double middle(size_t index)
{
    return ((double)load_bucket_start(index) + (double)load_bucket_start(index + 1)) / 2;
}

/* A percentile of the histogram, between the bucket's ends in proportion to the rank. */
static double histogram_percentile(const uint64_t *counts, uint64_t total, double p)
{
    double rank = p * (double)total / 100, before = 0;
    for (size_t i = 0; i < LOAD_BUCKETS; i++) {
        double n = (double)counts[i];
        if (n > 0 && before + n >= rank) {
            double start = (double)load_bucket_start(i), end = (double)load_bucket_start(i + 1);
            return start + (end - start) * (rank - before) / n;
        }
        before += n;
    }
    return 0;
}

/* Draws as many blocks as there are, with repetition, and computes all figures. */
static void resample(const series *s, uint64_t *seed, uint64_t *counts, double *figures)
{
    uint64_t total = 0;
    double requests = 0, sum = 0;
    memset(counts, 0, LOAD_BUCKETS * sizeof *counts);
    for (size_t i = 0; i < s->count; i++) {
        const block *b = &s->blocks[next_random(seed) % s->count];
        requests += b->requests;
        for (size_t n = 0; n < b->count; n++) {
            counts[b->buckets[n].index] += b->buckets[n].count;
            total += b->buckets[n].count;
            sum += middle(b->buckets[n].index) * (double)b->buckets[n].count;
        }
    }
    for (size_t i = 0; i < LATENCIES; i++)
        figures[i] = latencies[i].percentile >= 0
                         ? histogram_percentile(counts, total, latencies[i].percentile)
                     : total > 0 ? sum / (double)total
                                 : 0;
    figures[LATENCIES] = requests / (double)s->count;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct interval95 {
    double low, high; /* of the change, as a share of the base */
    bool known;
} interval95;

static int intervals(const series *base, const series *now, interval95 *out)
{
    double *changes = calloc((size_t)FIGURES * RESAMPLES, sizeof *changes);
    uint64_t *counts = calloc(LOAD_BUCKETS, sizeof *counts);
    if (!changes || !counts) {
        free(changes);
        free(counts);
        return DZ_E_NOMEM;
    }
    uint64_t seed = 1; /* fixed: the same runs always give the same intervals */
    for (size_t i = 0; i < RESAMPLES; i++) {
        double before[FIGURES], after[FIGURES];
        resample(base, &seed, counts, before);
        resample(now, &seed, counts, after);
        for (size_t f = 0; f < FIGURES; f++)
            changes[f * RESAMPLES + i] = before[f] > 0 ? after[f] / before[f] - 1 : 0;
    }
    for (size_t f = 0; f < FIGURES; f++) {
        double *of = changes + f * RESAMPLES;
        qsort(of, RESAMPLES, sizeof *of, compare_doubles);
        out[f] = (interval95){.low = of[RESAMPLES * 25 / 1000],
                              .high = of[RESAMPLES * 975 / 1000 - 1],
                              .known = true};
    }
    free(changes);
    free(counts);
    return 0;
}

static void row(dz_table *t, const char *name, dz_text before, dz_text after, double change,
                const interval95 *ci, bool less_is_better)
{
    dz_table_cell(t, "%s", name);
    dz_table_cell(t, "%s", before.text);
    dz_table_cell(t, "%s", after.text);
    dz_table_cell(t, "%+.1f%%", change * 100);
    if (!ci->known) {
        dz_table_cell(t, "-");
        dz_table_cell(t, "unknown");
        return;
    }
    dz_table_cell(t, "%+.1f%% to %+.1f%%", ci->low * 100, ci->high * 100);
    bool same = ci->low <= 0 && ci->high >= 0;
    bool better = !same && (ci->high < 0) == less_is_better;
    dz_table_cell(t, "%s", same ? "no difference shown" : better ? "better" : "worse");
    dz_table_style(t, same ? DZ_STYLE_NONE : better ? DZ_STYLE_GREEN : DZ_STYLE_RED);
}

static dz_text in_ms(double ms)
{
    dz_text out;
    snprintf(out.text, sizeof out.text, "%.28s ms", dz_format_ms((uint64_t)(ms * 1e6)).text);
    return out;
}

static int print_table(const load_result *r, const series *base, const series *now,
                       const interval95 *ci, FILE *out)
{
    static const char *const heads[] = {"Figure", "Base", "Now", "Change", "95% interval", ""};
    const load_sample *s = load_result_latency(r);
    json_t *before = json_object_get(base->json, "latency");
    dz_table *t = dz_table_new(6);
    for (size_t i = 0; i < 6; i++)
        dz_table_head(t, heads[i], i == 0 || i == 5 ? DZ_LEFT : DZ_RIGHT);
    row(t, "Requests/Sec", dz_format_number(base->rps), dz_format_number(now->rps),
        base->rps > 0 ? now->rps / base->rps - 1 : 0, &ci[LATENCIES], false);
    for (size_t i = 0; i < LATENCIES; i++) {
        double old = json_number_value(json_object_get(before, latencies[i].key));
        double new = (latencies[i].percentile < 0
                          ? s->summary.mean
                          : (double)dz_percentile(s->values, s->count, latencies[i].percentile)) /
                     1e6;
        row(t, latencies[i].name, in_ms(old), in_ms(new), old > 0 ? new / old - 1 : 0, &ci[i],
            true);
    }
    int rc = dz_table_print(t, out);
    dz_table_free(t);
    return rc;
}

static int compare(const load_result *r, series *base, const char *file, FILE *out)
{
    series now;
    interval95 ci[FIGURES] = {0};
    int rc = from_result(&now, r);
    bool enough = base->count >= FEWEST_INTERVALS && now.count >= FEWEST_INTERVALS;
    if (rc == 0 && enough)
        rc = intervals(base, &now, ci);
    if (rc == 0) {
        fprintf(out, "\ncompared with %s:\n", file);
        rc = print_table(r, base, &now, ci, out);
    }
    if (rc == 0 && !enough)
        fprintf(out,
                "no intervals: they need %d samples on each side, here are %zu and %zu "
                "(run longer, or sample more often: -L)\n",
                FEWEST_INTERVALS, base->count, now.count);
    free_series(&now);
    return rc;
}

static json_t *read_base(const char *file)
{
    json_error_t error;
    json_t *json = json_load_file(file, 0, &error);
    if (!json)
        dz_usage(LOAD_TOOL, "--compare: can't read '%s': %s", file, error.text);
    return json;
}

int load_check_comparison(const char *file)
{
    json_t *json = read_base(file);
    series base;
    if (!json)
        return DZ_EXIT_USAGE;
    int rc = from_json(&base, json);
    free_series(&base);
    if (rc < 0)
        return dz_usage(LOAD_TOOL, "--compare: '%s' is no result of donmaz load --json", file);
    return DZ_OPTIONS_OK;
}

int load_print_comparison(const load_session *session, const char *base_file, FILE *out)
{
    json_t *json = read_base(base_file);
    if (!json)
        return DZ_EXIT_USAGE;
    series base;
    int rc = from_json(&base, json);
    if (rc == 0)
        rc = compare(session->total, &base, base_file, out);
    free_series(&base);
    if (rc < 0)
        return dz_usage(LOAD_TOOL, "--compare: %s", dz_strerror(rc));
    return DZ_OPTIONS_OK;
}
