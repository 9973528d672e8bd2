#include "queueing.h"

#include "common/percentile.h"

#include <donmaz/error.h>

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum { MAX_CONNECTIONS = 1000, MAX_SERVERS = 512 };

/* One closed loop: its request waits for a server, or is served. */
typedef struct job {
    size_t route;
    double sent, left; /* when it was sent; CPU time still needed, ms */
    size_t server;     /* whose queue it stands in */
    double turn;       /* order in that queue */
} job;

/* What serves one job at a time: a loop or a worker. */
typedef struct sim {
    const dz_queue_route *routes;
    job *jobs;
    size_t job_count, loops, workers;
    job *head[MAX_SERVERS]; /* being served; NULL idle */
    uint64_t seed;
    double now;
} sim;

/* xorshift64*: the same numbers every time, so that a report can be repeated. */
static double uniform(sim *s)
{
    s->seed ^= s->seed >> 12;
    s->seed ^= s->seed << 25;
    s->seed ^= s->seed >> 27;
    return (double)((s->seed * UINT64_C(2685821657736338717)) >> 11) / 9007199254740992.0;
}

/* Log-normal with the measured mean and deviation: service times are skewed, never negative. */
static double service(sim *s, const dz_queue_route *r)
{
    double mean = r->service_ms > 0.001 ? r->service_ms : 0.001, cv = r->deviation_ms / mean;
    if (cv < 0.01)
        return mean;
    double variance = log(1 + cv * cv), u = uniform(s), v = uniform(s);
    double normal = sqrt(-2 * log(u > 1e-12 ? u : 1e-12)) * cos(6.283185307179586 * v);
    return exp(log(mean) - variance / 2 + sqrt(variance) * normal);
}

/* A connection stays with its process; long requests go to any idle worker of it, else the one
 * with the shortest queue. */
static size_t choose(const sim *s, const job *j, size_t connection)
{
    size_t loop = connection % s->loops;
    if (s->workers == 0 || s->routes[j->route].service_ms < DZ_QUEUE_LONG_MS)
        return loop;
    size_t first = s->loops + loop * (s->workers / s->loops), best = first, shortest = SIZE_MAX;
    size_t own = s->workers / s->loops ? s->workers / s->loops : 1;
    for (size_t w = first; w < first + own; w++) {
        size_t queue = 0;
        for (size_t i = 0; i < s->job_count; i++)
            queue += &s->jobs[i] != j && s->jobs[i].server == w;
        if (queue < shortest) {
            shortest = queue;
            best = w;
        }
    }
    return best;
}

static void send_next(sim *s, size_t connection)
{
    job *j = &s->jobs[connection];
    j->server = SIZE_MAX;
    j->sent = s->now;
    j->turn = s->now;
    j->left = service(s, &s->routes[j->route]);
    j->server = choose(s, j, connection);
}

static void fill_heads(sim *s)
{
    for (size_t i = 0; i < s->loops + s->workers; i++)
        s->head[i] = s->head[i] && s->head[i]->server == i ? s->head[i] : NULL;
    for (size_t i = 0; i < s->job_count; i++) {
        job *j = &s->jobs[i], **head = &s->head[j->server];
        /* A job once begun stays at the head: its remaining time is less than its turn's. */
        if (!*head || ((*head)->turn > j->turn))
            *head = j;
    }
}

/* Serves until the next job is done; its connection. All heads share the cores evenly. */
static size_t step(sim *s, unsigned cores)
{
    double active = 0;
    job *first = NULL;
    fill_heads(s);
    for (size_t i = 0; i < s->loops + s->workers; i++) {
        if (!s->head[i])
            continue;
        active++;
        if (!first || s->head[i]->left < first->left)
            first = s->head[i];
    }
    if (!first) /* every connection has a job, so one is being served */
        return SIZE_MAX;
    double rate = active > cores ? cores / active : 1, took = first->left / rate;
    double work = first->left;
    for (size_t i = 0; i < s->loops + s->workers; i++)
        if (s->head[i])
            s->head[i]->left -= work;
    s->now += took;
    return (size_t)(first - s->jobs);
}

static void measure(sim *s, unsigned cores, uint64_t *latency, size_t requests,
                    dz_queue_result *out)
{
    size_t warm = requests / 10, done = 0;
    double from = 0;
    for (size_t i = 0; i < requests + warm; i++) {
        size_t connection = step(s, cores);
        if (connection == SIZE_MAX)
            break;
        if (i == warm)
            from = s->now;
        if (i >= warm)
            latency[done++] = (uint64_t)((s->now - s->jobs[connection].sent) * 1e6);
        s->head[s->jobs[connection].server] = NULL;
        send_next(s, connection);
    }
    dz_sort_u64(latency, done);
    out->rps = s->now > from ? (double)done / (s->now - from) * 1e3 : 0;
    out->p50_ms = (double)dz_percentile(latency, done, 50) / 1e6;
    out->p99_ms = (double)dz_percentile(latency, done, 99) / 1e6;
}

int dz_queue_simulate(dz_queue_mode mode, unsigned cores, const dz_queue_route *routes,
                      size_t count, size_t requests, dz_queue_result *out)
{
    size_t jobs = 0;
    for (size_t i = 0; i < count; i++)
        jobs += (size_t)(routes[i].connections + 0.5);
    if (cores == 0 || cores > MAX_SERVERS / 4 || jobs == 0 || jobs > MAX_CONNECTIONS ||
        requests == 0)
        return DZ_E_INVALID;
    bool many = mode == DZ_QUEUE_CLUSTER || mode == DZ_QUEUE_BOTH;
    bool pooled = mode == DZ_QUEUE_WORKERS || mode == DZ_QUEUE_BOTH;
    sim s = {.routes = routes,
             .job_count = jobs,
             .loops = many ? cores : 1,
             .workers = pooled ? cores : 0,
             .seed = UINT64_C(0x9e3779b97f4a7c15)};
    s.jobs = calloc(jobs, sizeof *s.jobs);
    uint64_t *latency = calloc(requests, sizeof *latency);
    int rc = s.jobs && latency ? 0 : DZ_E_NOMEM;
    if (rc == 0) {
        size_t at = 0;
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; k < (size_t)(routes[i].connections + 0.5); k++)
                s.jobs[at++].route = i;
        for (size_t i = 0; i < jobs; i++)
            send_next(&s, i);
        measure(&s, cores, latency, requests, out);
    }
    free(s.jobs);
    free(latency);
    return rc;
}

const char *dz_queue_mode_name(dz_queue_mode mode)
{
    static const char *const names[] = {"plain", "cluster", "workers", "cluster + workers"};
    return (unsigned)mode < DZ_QUEUE_MODES ? names[mode] : "";
}
