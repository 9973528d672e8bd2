#include "queueing.h"

#include "queueing_sim.h"

#include "common/percentile.h"

#include <donmaz/error.h>

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum { MAX_CORES = DZ_SCHED_THREADS / 4 };

/* What is simulated at most, and what counts as one run of it. */
static const double LONGEST_MS = 1000e3, RUN_MS = 20e3;

/* The p99 of the requests of one route, run by run: of a few hundred requests it is one of the two
 * or three longest, so that what one run shows is chance, and what runs show on average is not the
 * p99 of all their requests. */
typedef struct runs {
    size_t begun; /* where the present one's begin */
    double p99_ms, count;
} runs;

static double p99_of(uint64_t *latency, size_t count)
{
    dz_sort_u64(latency, count);
    return (double)dz_percentile(latency, count, 99) / 1e6;
}

static void end_runs(dz_queue_sim *s, runs *all)
{
    for (size_t i = 0; i <= DZ_QUEUE_ROUTES; i++) {
        size_t n = s->seen[i].count - all[i].begun;
        if (n == 0)
            continue;
        all[i].p99_ms += p99_of(s->seen[i].latency + all[i].begun, n);
        all[i].count++;
        all[i].begun += n;
    }
}

static dz_queue_latency sum_up(uint64_t *latency, size_t count, const runs *r, double span_ms)
{
    double p99 = count ? p99_of(latency, count) : 0;
    return (dz_queue_latency){
        .rps = span_ms > 0 ? (double)count / span_ms * 1e3 : 0,
        .p50_ms = count ? (double)dz_percentile(latency, count, 50) / 1e6 : 0,
        .p99_ms = r->count > 0 ? r->p99_ms / r->count : p99,
    };
}

/* Work of a second or two of ours at most: nobody waits longer for an estimate. */
static bool goes_on(const dz_queue_sim *s, size_t steps, size_t requests)
{
    enum { STEPS = 40 }; /* for each request */
    return steps < STEPS * requests && s->seen[DZ_QUEUE_ROUTES].count < requests &&
           s->sched.now < LONGEST_MS;
}

static void measure(dz_queue_sim *s, size_t count, size_t requests, dz_queue_result *out)
{
    enum { WARM = 10 };
    runs all[DZ_QUEUE_ROUTES + 1] = {0};
    double slowest = 0, from = 0, run_ends = RUN_MS;
    for (size_t i = 0; i < count; i++)
        slowest = fmax(slowest, s->routes[i].service_ms * (double)s->job_count);
    double warm = fmin(WARM * slowest, LONGEST_MS / 10);
    for (size_t steps = 0; goes_on(s, steps, requests); steps++) {
        if (!s->counting && (s->sched.now >= warm || s->answers >= requests / 2)) {
            s->counting = true;
            from = s->sched.now;
            run_ends = from + RUN_MS;
        }
        dz_queue_sim_step(s);
        if (s->counting && s->sched.now >= run_ends) {
            end_runs(s, all);
            run_ends = s->sched.now + RUN_MS;
        }
    }
    double span = s->sched.now - from;
    size_t last = DZ_QUEUE_ROUTES;
    out->all = sum_up(s->seen[last].latency, s->seen[last].count, &all[last], span);
    for (size_t i = 0; i < count; i++)
        out->routes[i] = sum_up(s->seen[i].latency, s->seen[i].count, &all[i], span);
}

/* The next route in order of service time. */
static size_t next_route(const dz_queue_sim *s, size_t count, const bool *done, bool heaviest)
{
    size_t best = count;
    for (size_t i = 0; i < count; i++)
        if (!done[i] &&
            (best == count || (s->routes[i].service_ms < s->routes[best].service_ms) != heaviest))
            best = i;
    return best;
}

/* Clients connect one after the other, each route's together. A cluster's primary gives each
 * connection to a process that is free: in turn, unless the last one computes already when it would
 * be its turn again, and misses what comes until then. */
static void connect_all(dz_queue_sim *s, size_t count, dz_queue_deal deal, bool heavy_first)
{
    bool done[DZ_QUEUE_ROUTES] = {0};
    size_t at = 0, all = s->processes > 0 ? s->processes : 1, others = all > 1 ? all - 1 : 1;
    for (size_t n = 0; n < count; n++) {
        size_t i = next_route(s, count, done, heavy_first);
        done[i] = true;
        for (size_t k = 0; k < (size_t)(s->routes[i].connections + 0.5); k++, at++) {
            bool missed = deal == DZ_QUEUE_UNEVEN && at >= all && at < 3 * all;
            s->jobs[at] =
                (dz_queue_job){.route = i,
                               .process = missed ? at % others : at % all,
                               .sent = DZ_QUEUE_TURN_MS * (double)at / (double)s->job_count};
        }
    }
}

static bool reserve(dz_queue_sim *s, size_t count, size_t requests)
{
    s->jobs = calloc(s->job_count, sizeof *s->jobs);
    s->lists = calloc(s->processes, sizeof *s->lists);
    s->polls = calloc(s->processes, sizeof *s->polls);
    s->last = calloc(s->processes, sizeof *s->last);
    bool got = s->jobs && s->lists && s->polls && s->last;
    for (size_t i = 0; i <= DZ_QUEUE_ROUTES; i++)
        if (i < count || i == DZ_QUEUE_ROUTES)
            got &= (s->seen[i].latency = calloc(requests + s->job_count, sizeof(uint64_t))) != NULL;
    return got;
}

static int simulate(dz_queue_mode mode, dz_queue_deal deal, unsigned cores, bool heavy_first,
                    const dz_queue_route *routes, size_t count, size_t jobs, size_t requests,
                    dz_queue_result *out)
{
    dz_queue_sim *s = calloc(1, sizeof *s);
    if (!s)
        return DZ_E_NOMEM;
    bool many = mode == DZ_QUEUE_CLUSTER || mode == DZ_QUEUE_BOTH;
    bool pooled = mode == DZ_QUEUE_WORKERS || mode == DZ_QUEUE_BOTH;
    s->routes = routes;
    s->job_count = jobs;
    s->processes = many ? cores : 1;
    s->workers = pooled ? cores / s->processes : 0;
    s->seed = UINT64_C(0x9e3779b97f4a7c15);
    int rc = reserve(s, count, requests) ? 0 : DZ_E_NOMEM;
    if (rc == 0) {
        dz_sched_init(&s->sched, cores, s->processes * (1 + s->workers));
        connect_all(s, count, deal, heavy_first);
        measure(s, count, requests, out);
    }
    free(s->jobs);
    free(s->lists);
    free(s->polls);
    free(s->last);
    for (size_t i = 0; i <= DZ_QUEUE_ROUTES; i++)
        free(s->seen[i].latency);
    free(s);
    return rc;
}

static void average(dz_queue_latency *a, const dz_queue_latency *b)
{
    a->rps = (a->rps + b->rps) / 2;
    a->p50_ms = (a->p50_ms + b->p50_ms) / 2;
    a->p99_ms = (a->p99_ms + b->p99_ms) / 2;
}

int dz_queue_simulate(dz_queue_mode mode, dz_queue_deal deal, unsigned cores,
                      const dz_queue_route *routes, size_t count, size_t requests,
                      dz_queue_result *out)
{
    size_t jobs = 0;
    for (size_t i = 0; i < count; i++)
        jobs += (size_t)(routes[i].connections + 0.5);
    if (cores == 0 || cores > MAX_CORES || count > DZ_QUEUE_ROUTES || jobs == 0 ||
        jobs > DZ_QUEUE_CONNECTIONS || requests == 0)
        return DZ_E_INVALID;
    dz_queue_result other = {0};
    *out = (dz_queue_result){0};
    int rc = simulate(mode, deal, cores, false, routes, count, jobs, requests, out);
    if (rc < 0 || count == 1 || deal == DZ_QUEUE_UNEVEN)
        return rc;
    /* Which route's connections come first is chance. */
    rc = simulate(mode, deal, cores, true, routes, count, jobs, requests, &other);
    average(&out->all, &other.all);
    for (size_t i = 0; i < count; i++)
        average(&out->routes[i], &other.routes[i]);
    return rc;
}

const char *dz_queue_mode_name(dz_queue_mode mode)
{
    static const char *const names[] = {"plain", "cluster", "workers", "cluster + workers"};
    return (unsigned)mode < DZ_QUEUE_MODES ? names[mode] : "";
}
