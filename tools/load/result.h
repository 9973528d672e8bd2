/* result.h: a run's figures, put together from the records of all threads. */
#ifndef DZ_LOAD_RESULT_H
#define DZ_LOAD_RESULT_H

#include "load/engine.h"

#include "common/percentile.h"

/* Latencies, ascending, in nanoseconds. */
typedef struct load_sample {
    uint64_t *values; /* owned */
    size_t count;
    dz_summary summary;
} load_sample;

typedef struct load_endpoint_result {
    const load_endpoint *endpoint;
    load_totals totals;
    load_sample service;   /* from each request's own send */
    load_sample scheduled; /* from when it was due; empty without a rate */
} load_endpoint_result;

/* One req/s sample: what ended within it. */
typedef struct load_interval {
    uint64_t requests, bytes;
    uint32_t *histogram; /* load_bucket counts of its latencies, LOAD_BUCKETS of them; owned;
                            NULL when there are too many intervals to keep them */
} load_interval;

typedef struct load_target_sample {
    uint64_t at;        /* ns since counting began */
    double cpu_percent; /* of one core, since the sample before */
    uint64_t rss_kb;
} load_target_sample;

typedef struct load_target_usage {
    int pid; /* 0: none was sampled */
    double cpu_seconds, cpu_percent;
    uint64_t rss_kb_start, rss_kb_max;
    double rss_kb_mean;
    load_target_sample *samples; /* owned */
    size_t count, cap;
    bool ended; /* it went away before the end */
} load_target_usage;

typedef struct load_result {
    const load_plan *plan;
    load_endpoint_result *endpoints;
    load_totals totals;
    load_sample service, scheduled, lag;
    load_interval *intervals;
    size_t interval_count;
    uint64_t interval;          /* ns of one */
    uint64_t duration;          /* ns that counted */
    uint64_t started, finished; /* unix time, ns */
    load_unfinished unfinished;
    double client_cpu; /* seconds while counting */
    load_target_usage target;
    bool interrupted, bailed_out, out_of_memory;
    bool corrected; /* the main latency figures are the scheduled ones */
    char tls_reason[160];
} load_result;

/* Latency buckets for comparing runs: 64 to each power of two, so 1.6 % wide at most. */
enum { LOAD_BUCKETS = 64 * 48 };
size_t load_bucket(uint64_t ns);
uint64_t load_bucket_start(size_t bucket); /* the least value in it */

/* Adds up the engines' records. DZ_E_NOMEM. */
int load_result_collect(load_result *result, load_engine *const *engines, size_t count);

/* Appends what `more` measured: the phases of a scenario add up to one result. DZ_E_NOMEM. */
int load_result_add(load_result *total, const load_result *more);

void load_result_free(load_result *result);

/* The figures that count as "the latency": scheduled with a rate, service otherwise. */
static inline const load_sample *load_result_latency(const load_result *r)
{
    return r->corrected ? &r->scheduled : &r->service;
}

static inline const load_sample *load_endpoint_latency(const load_result *r,
                                                       const load_endpoint_result *e)
{
    return r->corrected ? &e->scheduled : &e->service;
}

double load_result_seconds(const load_result *result);

#endif
