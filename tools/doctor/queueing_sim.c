#include "queueing_sim.h"

#include <math.h>

/* What passing a request to a worker and its answer back costs the loop, ms: as measured with
 * piscina. */
static const double PASS_MS = 0.15;

/* From its last piece of work to asking the kernel what is next takes a loop about as long as the
 * client takes to send its next request. How often that comes too late was counted in the
 * concurrency experiment: after work of 50 ms and more, in which the client slept, one time in ten
 * (45 of 419); after short work never (of 158) where a core is idle, and a few times in a hundred
 * (two or more in each run of 150 in which it shows) where the client must first get a core from
 * threads that compute. */
static const double POLL_MS = 0.1, LATE_TURN_MS = 0.2, LONG_SLEEP_MS = 50;
static const double LATE = 0.1, LATE_BUSY = 0.03;

/* xorshift64*: the same numbers every time, so that a report can be repeated. */
static double uniform(dz_queue_sim *s)
{
    s->seed ^= s->seed >> 12;
    s->seed ^= s->seed << 25;
    s->seed ^= s->seed >> 27;
    return (double)((s->seed * UINT64_C(2685821657736338717)) >> 11) / 9007199254740992.0;
}

/* Log-normal with the measured mean and deviation: service times are skewed, never negative. */
static double service(dz_queue_sim *s, const dz_queue_route *r)
{
    double mean = r->service_ms > 0.001 ? r->service_ms : 0.001, cv = r->deviation_ms / mean;
    if (cv < 0.01)
        return mean;
    double variance = log(1 + cv * cv), u = uniform(s), v = uniform(s);
    double normal = sqrt(-2 * log(u > 1e-12 ? u : 1e-12)) * cos(6.283185307179586 * v);
    return exp(log(mean) - variance / 2 + sqrt(variance) * normal);
}

static void push(dz_queue_sim *s, size_t thread, dz_queue_job *j)
{
    dz_queue_fifo *q = &s->queues[thread];
    j->next = NULL;
    *(q->last ? &q->last->next : &q->first) = j;
    q->last = j;
    q->length++;
    dz_sched_wake(&s->sched, thread);
}

/* Takes the first; the thread sleeps when that was the last, which is told after what follows from
 * it has been queued: see finish. */
static dz_queue_job *shift(dz_queue_sim *s, size_t thread)
{
    dz_queue_fifo *q = &s->queues[thread];
    dz_queue_job *j = q->first;
    q->first = j->next;
    q->last = q->first ? q->last : NULL;
    q->length--;
    return j;
}

static size_t first_worker(const dz_queue_sim *s, size_t process)
{
    return s->processes + process * s->workers;
}

/* A pool gives a task to the worker that has least to do. */
static size_t worker_for(const dz_queue_sim *s, size_t process)
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
static void poll(dz_queue_sim *s, size_t process)
{
    dz_queue_list *l = &s->lists[process];
    size_t kept = 0;
    for (size_t i = 0; i < l->count; i++) {
        dz_queue_job *j = l->at[i];
        j->listed = j->came;
        if (!j->came)
            continue;
        l->at[kept++] = j;
        j->came = false;
        push(s, process, j);
    }
    l->count = kept;
}

static void arrive(dz_queue_sim *s, dz_queue_job *j)
{
    const dz_queue_route *r = &s->routes[j->route];
    j->work = service(s, r);
    bool pooled = s->workers > 0 && r->service_ms >= DZ_QUEUE_LONG_MS;
    j->stage = pooled ? DZ_QUEUE_DISPATCHED : DZ_QUEUE_ON_LOOP;
    j->left = pooled ? PASS_MS : j->work;
    j->came = true;
    dz_queue_list *l = &s->lists[j->process];
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

static void answered(dz_queue_sim *s, dz_queue_job *j)
{
    double took = s->sched.now - j->sent;
    s->answers++;
    if (s->counting) {
        size_t both[] = {j->route, DZ_QUEUE_ROUTES};
        for (size_t i = 0; i < 2; i++)
            s->seen[both[i]].latency[s->seen[both[i]].count++] = (uint64_t)(took * 1e6);
    }
    double late = s->sched.now - s->last[j->process] >= LONG_SLEEP_MS ? LATE
                  : all_busy(&s->sched)                               ? LATE_BUSY
                                                                      : 0;
    s->last[j->process] = s->sched.now;
    j->stage = DZ_QUEUE_CLIENT;
    j->sent = s->sched.now + (late > 0 && uniform(s) < late ? LATE_TURN_MS : DZ_QUEUE_TURN_MS);
}

/* The thread is through with the first job of its queue. */
static void finish(dz_queue_sim *s, size_t thread)
{
    dz_queue_job *j = shift(s, thread);
    switch (j->stage) {
    case DZ_QUEUE_DISPATCHED:
        j->stage = DZ_QUEUE_IN_WORKER;
        j->left = j->work;
        push(s, worker_for(s, j->process), j);
        break;
    case DZ_QUEUE_IN_WORKER:
        j->stage = DZ_QUEUE_COMING_BACK;
        j->left = PASS_MS;
        push(s, j->process, j);
        break;
    case DZ_QUEUE_POLLING:
        poll(s, j->process);
        break;
    default:
        answered(s, j);
    }
    if (!s->queues[thread].first && thread < s->processes && j != &s->polls[thread]) {
        s->polls[thread] =
            (dz_queue_job){.stage = DZ_QUEUE_POLLING, .process = thread, .left = POLL_MS};
        push(s, thread, &s->polls[thread]);
    }
    if (!s->queues[thread].first)
        dz_sched_sleep(&s->sched, thread);
}

/* When the next thing happens: a client's turn, the scheduler's, or the end of a job. */
static double next_event(const dz_queue_sim *s)
{
    double next = dz_sched_next(&s->sched);
    for (size_t i = 0; i < s->job_count; i++)
        if (s->jobs[i].stage == DZ_QUEUE_CLIENT)
            next = fmin(next, s->jobs[i].sent);
    for (size_t c = 0; c < s->sched.core_count; c++) {
        size_t thread = s->sched.cores[c].running;
        if (thread != SIZE_MAX)
            next = fmin(next, s->sched.now + s->queues[thread].first->left);
    }
    return next;
}

void dz_queue_sim_step(dz_queue_sim *s)
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
        if (s->jobs[i].stage == DZ_QUEUE_CLIENT && s->jobs[i].sent <= to)
            arrive(s, &s->jobs[i]);
}
