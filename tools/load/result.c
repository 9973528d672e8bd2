#include "load/result.h"

#include <donmaz/error.h>

#include <stdlib.h>
#include <string.h>

size_t load_bucket(uint64_t ns)
{
    if (ns < 64)
        return (size_t)ns;
    unsigned power = 63u - (unsigned)__builtin_clzll(ns); /* 6 or more */
    size_t bucket = (size_t)(power - 5) * 64 + (size_t)((ns >> (power - 6)) & 63);
    return bucket < LOAD_BUCKETS ? bucket : LOAD_BUCKETS - 1;
}

uint64_t load_bucket_start(size_t bucket)
{
    if (bucket < 64)
        return bucket;
    unsigned power = (unsigned)(bucket / 64) + 5;
    return (UINT64_C(64) + bucket % 64) << (power - 6);
}

double load_result_seconds(const load_result *result)
{
    return (double)result->duration / 1e9;
}

static void finish_sample(load_sample *sample)
{
    dz_sort_u64(sample->values, sample->count);
    sample->summary = dz_summarise(sample->values, sample->count);
}

static int make_room(load_sample *sample, size_t count)
{
    if (count == 0)
        return 0;
    uint64_t *values = realloc(sample->values, (sample->count + count) * sizeof *values);
    if (!values)
        return DZ_E_NOMEM;
    sample->values = values;
    return 0;
}

static int append_values(load_sample *sample, const uint64_t *values, size_t count)
{
    if (make_room(sample, count) < 0)
        return DZ_E_NOMEM;
    if (count > 0)
        memcpy(sample->values + sample->count, values, count * sizeof *values);
    sample->count += count;
    return 0;
}

static int append_series(load_sample *sample, const load_series *series)
{
    if (make_room(sample, series->count) < 0)
        return DZ_E_NOMEM;
    if (series->count > 0)
        load_series_copy(series, sample->values + sample->count);
    sample->count += series->count;
    return 0;
}

static int collect_endpoint(load_result *result, size_t e, load_engine *const *engines,
                            size_t count)
{
    load_endpoint_result *endpoint = &result->endpoints[e];
    endpoint->endpoint = &result->plan->endpoints[e];
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        const load_record *record = &load_engine_records(engines[i])[e];
        load_totals_add(&endpoint->totals, &record->totals);
        rc = append_series(&endpoint->service, &record->service);
        if (rc == 0)
            rc = append_series(&endpoint->scheduled, &record->scheduled);
        if (rc == 0)
            rc = append_series(&result->lag, &record->lag);
    }
    finish_sample(&endpoint->service);
    finish_sample(&endpoint->scheduled);
    load_totals_add(&result->totals, &endpoint->totals);
    if (rc == 0)
        rc = append_values(&result->service, endpoint->service.values, endpoint->service.count);
    if (rc == 0)
        rc = append_values(&result->scheduled, endpoint->scheduled.values,
                           endpoint->scheduled.count);
    return rc;
}

/* Where a record stood at the end of interval i; a thread that ended early stays where it was. */
static load_mark mark_at(const load_record *record, size_t i)
{
    if (i < record->mark_count)
        return record->marks[i];
    return (load_mark){.completed = record->totals.completed,
                       .bytes = record->totals.bytes,
                       .latencies = record->service.count};
}

static void collect_interval(load_interval *interval, const load_record *record, size_t i,
                             const load_series *series)
{
    load_mark from = i > 0 ? mark_at(record, i - 1) : (load_mark){0}, to = mark_at(record, i);
    interval->requests += to.completed - from.completed;
    interval->bytes += to.bytes - from.bytes;
    for (size_t n = from.latencies; interval->histogram && n < to.latencies; n++) {
        uint64_t value = series->chunks[n / LOAD_CHUNK_VALUES]->values[n % LOAD_CHUNK_VALUES];
        interval->histogram[load_bucket(value)]++;
    }
}

enum { MOST_HISTOGRAMS = 3600 };

static int collect_intervals(load_result *result, load_engine *const *engines, size_t count)
{
    size_t intervals = (size_t)(result->duration / result->interval);
    if (intervals == 0)
        return 0;
    result->intervals = calloc(intervals, sizeof *result->intervals);
    if (!result->intervals)
        return DZ_E_NOMEM;
    result->interval_count = intervals;
    for (size_t i = 0; i < intervals; i++) {
        load_interval *interval = &result->intervals[i];
        if (intervals <= MOST_HISTOGRAMS) {
            interval->histogram = calloc(LOAD_BUCKETS, sizeof *interval->histogram);
            if (!interval->histogram)
                return DZ_E_NOMEM;
        }
        for (size_t n = 0; n < count; n++) {
            const load_record *records = load_engine_records(engines[n]);
            for (size_t e = 0; e < result->plan->endpoint_count; e++)
                collect_interval(interval, &records[e], i,
                                 result->corrected ? &records[e].scheduled : &records[e].service);
        }
    }
    return 0;
}

int load_result_collect(load_result *result, load_engine *const *engines, size_t count)
{
    result->endpoints = calloc(result->plan->endpoint_count, sizeof *result->endpoints);
    if (!result->endpoints)
        return DZ_E_NOMEM;
    int rc = 0;
    for (size_t e = 0; e < result->plan->endpoint_count && rc == 0; e++)
        rc = collect_endpoint(result, e, engines, count);
    finish_sample(&result->service);
    finish_sample(&result->scheduled);
    finish_sample(&result->lag);
    for (size_t i = 0; i < count; i++) {
        load_unfinished u = load_engine_unfinished(engines[i]);
        result->unfinished.in_flight += u.in_flight;
        result->unfinished.never_sent += u.never_sent;
        if (u.oldest > result->unfinished.oldest)
            result->unfinished.oldest = u.oldest;
        result->out_of_memory = result->out_of_memory || load_engine_out_of_memory(engines[i]);
    }
    return rc < 0 ? rc : collect_intervals(result, engines, count);
}

static int add_intervals(load_result *total, const load_result *more)
{
    size_t count = total->interval_count + more->interval_count;
    if (more->interval_count == 0)
        return 0;
    load_interval *intervals = realloc(total->intervals, count * sizeof *intervals);
    if (!intervals)
        return DZ_E_NOMEM;
    total->intervals = intervals;
    for (size_t i = 0; i < more->interval_count; i++) {
        load_interval copy = more->intervals[i];
        if (copy.histogram) {
            copy.histogram = malloc(LOAD_BUCKETS * sizeof *copy.histogram);
            if (!copy.histogram)
                return DZ_E_NOMEM;
            memcpy(copy.histogram, more->intervals[i].histogram,
                   LOAD_BUCKETS * sizeof *copy.histogram);
        }
        total->intervals[total->interval_count++] = copy;
    }
    return 0;
}

static int add_sample(load_sample *to, const load_sample *from)
{
    int rc = append_values(to, from->values, from->count);
    finish_sample(to);
    return rc;
}

/* All phases have the same endpoints in the same order. */
static int add_endpoints(load_result *total, const load_result *more)
{
    size_t count = more->plan->endpoint_count;
    if (!total->endpoints)
        total->endpoints = calloc(count, sizeof *total->endpoints);
    if (!total->endpoints)
        return DZ_E_NOMEM;
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        load_endpoint_result *to = &total->endpoints[i];
        const load_endpoint_result *from = &more->endpoints[i];
        to->endpoint = &total->plan->endpoints[i];
        load_totals_add(&to->totals, &from->totals);
        rc = add_sample(&to->service, &from->service);
        if (rc == 0)
            rc = add_sample(&to->scheduled, more->corrected ? &from->scheduled : &from->service);
    }
    return rc;
}

static void add_target(load_target_usage *to, const load_target_usage *from)
{
    if (from->pid == 0)
        return;
    size_t count = to->count + from->count;
    if (to->pid == 0)
        to->rss_kb_start = from->rss_kb_start;
    to->pid = from->pid;
    to->cpu_seconds += from->cpu_seconds;
    to->rss_kb_max = from->rss_kb_max > to->rss_kb_max ? from->rss_kb_max : to->rss_kb_max;
    if (count > 0)
        to->rss_kb_mean =
            (to->rss_kb_mean * (double)to->count + from->rss_kb_mean * (double)from->count) /
            (double)count;
    to->count = count; /* samples stay with their phase */
    to->ended = to->ended || from->ended;
}

int load_result_add(load_result *total, const load_result *more)
{
    load_totals_add(&total->totals, &more->totals);
    total->duration += more->duration;
    total->interval = more->interval;
    total->finished = more->finished;
    total->started = total->started ? total->started : more->started;
    total->client_cpu += more->client_cpu;
    total->corrected = total->corrected || more->corrected;
    total->interrupted = total->interrupted || more->interrupted;
    total->bailed_out = total->bailed_out || more->bailed_out;
    total->out_of_memory = total->out_of_memory || more->out_of_memory;
    total->unfinished.in_flight += more->unfinished.in_flight;
    total->unfinished.never_sent += more->unfinished.never_sent;
    if (more->unfinished.oldest > total->unfinished.oldest)
        total->unfinished.oldest = more->unfinished.oldest;
    int rc = add_sample(&total->service, &more->service);
    if (rc == 0)
        rc = add_sample(&total->lag, &more->lag);
    /* A phase without a rate has no schedule: there, when due is when sent. */
    if (rc == 0)
        rc = add_sample(&total->scheduled, more->corrected ? &more->scheduled : &more->service);
    if (rc == 0)
        rc = add_endpoints(total, more);
    add_target(&total->target, &more->target);
    if (total->duration > 0)
        total->target.cpu_percent = 100 * total->target.cpu_seconds / load_result_seconds(total);
    return rc < 0 ? rc : add_intervals(total, more);
}

void load_result_free(load_result *result)
{
    for (size_t e = 0; result->endpoints && e < result->plan->endpoint_count; e++) {
        free(result->endpoints[e].service.values);
        free(result->endpoints[e].scheduled.values);
    }
    for (size_t i = 0; i < result->interval_count; i++)
        free(result->intervals[i].histogram);
    free(result->endpoints);
    free(result->service.values);
    free(result->scheduled.values);
    free(result->lag.values);
    free(result->intervals);
    free(result->target.samples);
    *result = (load_result){0};
}
