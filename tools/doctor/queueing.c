#include "queueing.h"

#include "scheduler.h"

#include "common/percentile.h"

#include <donmaz/error.h>

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum { MAX_CONNECTIONS = 1000, MAX_CORES = DZ_SCHED_THREADS / 4 };

/* What passing a request to a worker and its answer back costs the loop, ms: as measured with
 * piscina. What a client takes from an answer to its next request, and what a loop takes from its
 * last piece of work to asking the kernel what is next: nearly the same, so that one time in ten
 * the request comes too late, where the client has slept long before. */
static const double PASS_MS = 0.15, TURN_MS = 0.05, LATE_TURN_MS = 0.2, POLL_MS = 0.1;
static const double LATE = 0.1, LONG_SLEEP_MS = 50;
static const double LONGEST_MS = 300e3;

/* One closed loop: its client's turn, then its request in the process's loop and, where that is
 * so, in a worker and in the loop once more. */
typedef struct job {
    enum { CLIENT, ON_LOOP, DISPATCHED, IN_WORKER, COMING_BACK, POLLING } stage;
    size_t route, process;
    double sent;      /* CLIENT: when the next request will be */
    bool came;        /* ON_LOOP, DISPATCHED: and the loop has not taken it yet */
    bool listed;      /* in the loop's list: see poll */
    double left;      /* CPU time of this stage */
    double work;      /* CPU time of the whole request */
    struct job *next; /* in the queue of a thread */
} job;

typedef struct queue {
    job *first, *last;
    size_t length;
} queue;

/* The connections of a process that epoll looks at next, in order. */
typedef struct list {
    job *at[MAX_CONNECTIONS];
    size_t count;
} list;

/* Threads: a loop for each process, then all workers, those of a process together. */
typedef struct sim {
    const dz_queue_route *routes;
    job *jobs;
    size_t job_count, processes, workers; /* workers of one process */
    uint64_t seed;
    queue queues[DZ_SCHED_THREADS];
    list *lists;  /* of each process */
    job *polls;   /* each loop's way from its last piece of work to asking for more */
    double *last; /* when each process gave its last answer */
    dz_sched sched;
    struct {
        uint64_t *latency;
        size_t count;
    } seen[DZ_QUEUE_ROUTES + 1]; /* the last: all of them */
    double from;                 /* when counting began */
    bool counting;
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

static void push(sim *s, size_t thread, job *j)
{
    queue *q = &s->queues[thread];
    j->next = NULL;
    *(q->last ? &q->last->next : &q->first) = j;
    q->last = j;
    q->length++;
    dz_sched_wake(&s->sched, thread);
}

/* Takes the first; the thread sleeps when that was the last, which is told after what follows from
 * it has been queued: see finish. */
static job *shift(sim *s, size_t thread)
{
    queue *q = &s->queues[thread];
    job *j = q->first;
    q->first = j->next;
    q->last = q->first ? q->last : NULL;
    q->length--;
    return j;
}

static size_t first_worker(const sim *s, size_t process)
{
    return s->processes + process * s->workers;
}

/* A pool gives a task to the worker that has least to do. */
static size_t worker_for(const sim *s, size_t process)
{
    size_t best = first_worker(s, process);
    for (size_t w = best + 1; w < first_worker(s, process + 1); w++)
        if (s->queues[w].length < s->queues[best].length)
            best = w;
    return best;
}

/* The loop takes what has come. epoll's list keeps a connection that was ready in its place as long
 * as it is ready again each time: one whose next request comes a moment too late is dropped, goes
 * to the end, and may be overtaken by all that are served twice meanwhile. */
static void poll(sim *s, size_t process)
{
    list *l = &s->lists[process];
    size_t kept = 0;
    for (size_t i = 0; i < l->count; i++) {
        job *j = l->at[i];
        j->listed = j->came;
        if (!j->came)
            continue;
        l->at[kept++] = j;
        j->came = false;
        push(s, process, j);
    }
    l->count = kept;
}

static void arrive(sim *s, job *j)
{
    const dz_queue_route *r = &s->routes[j->route];
    j->work = service(s, r);
    bool pooled = s->workers > 0 && r->service_ms >= DZ_QUEUE_LONG_MS;
    j->stage = pooled ? DISPATCHED : ON_LOOP;
    j->left = pooled ? PASS_MS : j->work;
    j->came = true;
    list *l = &s->lists[j->process];
    if (!j->listed)
        l->at[l->count++] = j;
    j->listed = true;
    if (!s->queues[j->process].first)
        poll(s, j->process); /* the loop waits for it */
}

static bool all_busy(const dz_sched *sched)
{
    for (size_t c = 0; c < sched->core_count; c++)
        if (sched->cores[c].running == SIZE_MAX)
            return false;
    return true;
}

static void answered(sim *s, job *j)
{
    double took = s->sched.now - j->sent;
    if (s->counting) {
        size_t both[] = {j->route, DZ_QUEUE_ROUTES};
        for (size_t i = 0; i < 2; i++)
            s->seen[both[i]].latency[s->seen[both[i]].count++] = (uint64_t)(took * 1e6);
    }
    /* The client has slept long, or must first get a core from those that compute. */
    bool slow = s->sched.now - s->last[j->process] >= LONG_SLEEP_MS || all_busy(&s->sched);
    s->last[j->process] = s->sched.now;
    j->stage = CLIENT;
    j->sent = s->sched.now + (slow && uniform(s) < LATE ? LATE_TURN_MS : TURN_MS);
}

/* The thread is through with the first job of its queue. */
static void finish(sim *s, size_t thread)
{
    job *j = shift(s, thread);
    switch (j->stage) {
    case DISPATCHED:
        j->stage = IN_WORKER;
        j->left = j->work;
        push(s, worker_for(s, j->process), j);
        break;
    case IN_WORKER:
        j->stage = COMING_BACK;
        j->left = PASS_MS;
        push(s, j->process, j);
        break;
    case POLLING:
        poll(s, j->process);
        break;
    default:
        answered(s, j);
    }
    if (!s->queues[thread].first && thread < s->processes && j != &s->polls[thread]) {
        s->polls[thread] = (job){.stage = POLLING, .process = thread, .left = POLL_MS};
        push(s, thread, &s->polls[thread]);
    }
    if (!s->queues[thread].first)
        dz_sched_sleep(&s->sched, thread);
}

/* When the next thing happens: a client's turn, the scheduler's, or the end of a job. */
static double next_event(const sim *s)
{
    double next = dz_sched_next(&s->sched);
    for (size_t i = 0; i < s->job_count; i++)
        if (s->jobs[i].stage == CLIENT)
            next = fmin(next, s->jobs[i].sent);
    for (size_t c = 0; c < s->sched.core_count; c++) {
        size_t thread = s->sched.cores[c].running;
        if (thread != SIZE_MAX)
            next = fmin(next, s->sched.now + s->queues[thread].first->left);
    }
    return next;
}

static void step(sim *s)
{
    static const double NOTHING = 1e-9;
    double to = next_event(s), took = to - s->sched.now;
    size_t running[DZ_SCHED_CORES] = {0};
    for (size_t c = 0; c < s->sched.core_count; c++) {
        running[c] = s->sched.cores[c].running;
        if (running[c] != SIZE_MAX)
            s->queues[running[c]].first->left -= took;
    }
    dz_sched_advance(&s->sched, to);
    for (size_t c = 0; c < s->sched.core_count; c++)
        if (running[c] != SIZE_MAX && s->queues[running[c]].first &&
            s->queues[running[c]].first->left <= NOTHING)
            finish(s, running[c]);
    for (size_t i = 0; i < s->job_count; i++)
        if (s->jobs[i].stage == CLIENT && s->jobs[i].sent <= to)
            arrive(s, &s->jobs[i]);
}

static dz_queue_latency sum_up(uint64_t *latency, size_t count, double span_ms)
{
    dz_sort_u64(latency, count);
    return (dz_queue_latency){
        .rps = span_ms > 0 ? (double)count / span_ms * 1e3 : 0,
        .p50_ms = count ? (double)dz_percentile(latency, count, 50) / 1e6 : 0,
        .p99_ms = count ? (double)dz_percentile(latency, count, 99) / 1e6 : 0,
    };
}

static void measure(sim *s, size_t count, size_t requests, dz_queue_result *out)
{
    enum { WARM = 10 };
    double slowest = 0;
    for (size_t i = 0; i < count; i++)
        slowest = fmax(slowest, s->routes[i].service_ms * (double)s->job_count);
    double warm = fmin(WARM * slowest, LONGEST_MS / 10);
    while (s->seen[DZ_QUEUE_ROUTES].count < requests && s->sched.now < LONGEST_MS) {
        if (!s->counting && s->sched.now >= warm) {
            s->counting = true;
            s->from = s->sched.now;
        }
        step(s);
    }
    double span = s->sched.now - s->from;
    out->all = sum_up(s->seen[DZ_QUEUE_ROUTES].latency, s->seen[DZ_QUEUE_ROUTES].count, span);
    for (size_t i = 0; i < count; i++)
        out->routes[i] = sum_up(s->seen[i].latency, s->seen[i].count, span);
}

/* The next route in order of service time. */
static size_t next_route(const sim *s, size_t count, const bool *done, bool heaviest)
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
static void connect_all(sim *s, size_t count, dz_queue_deal deal, bool heavy_first)
{
    bool done[DZ_QUEUE_ROUTES] = {0};
    size_t at = 0, all = s->processes > 0 ? s->processes : 1, others = all > 1 ? all - 1 : 1;
    for (size_t n = 0; n < count; n++) {
        size_t i = next_route(s, count, done, heavy_first);
        done[i] = true;
        for (size_t k = 0; k < (size_t)(s->routes[i].connections + 0.5); k++, at++) {
            bool missed = deal == DZ_QUEUE_UNEVEN && at >= all && at < 3 * all;
            s->jobs[at] = (job){.route = i,
                                .process = missed ? at % others : at % all,
                                .sent = TURN_MS * (double)at / (double)s->job_count};
        }
    }
}

static bool reserve(sim *s, size_t count, size_t requests)
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
    sim *s = calloc(1, sizeof *s);
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
        jobs > MAX_CONNECTIONS || requests == 0)
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
