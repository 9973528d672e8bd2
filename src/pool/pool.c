#include "pool/pool.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "pool/process.h"
#include "pool/task.h"
#include "pool/worker.h"

#include <errno.h>
#include <stdlib.h>

void dz_pool_options_init(dz_pool_options *options)
{
    unsigned cpus = dz_cpu_count();
    *options = (dz_pool_options){
        .max_workers = cpus > 1 ? cpus - 1 : 1,
        .max_queue = 256,
        .idle_timeout_ns = 60 * DZ_SEC,
    };
}

/* Leaves errno as it is. */
static void free_pool(dz_pool *pool)
{
    int error = errno;
    dz_zygote_free(pool->zygote);
    dz_histogram_free(pool->wait_ns);
    dz_histogram_free(pool->run_ns);
    free(pool->registered);
    free(pool);
    errno = error;
}

/* Held for nanoseconds: whoever meets it taken looks again a few times before it sleeps, which
 * would cost both sides a system call. */
static void init_short_lock(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
#ifdef __GLIBC__
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
#endif
    pthread_mutex_init(lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

dz_pool *dz_pool_new(const dz_pool_options *options)
{
    dz_pool *pool = aligned_alloc(_Alignof(dz_pool), sizeof *pool);
    if (!pool)
        return NULL;
    *pool = (dz_pool){0};
    if (options)
        pool->options = *options;
    else
        dz_pool_options_init(&pool->options);
    if (pool->options.max_workers == 0)
        pool->options.max_workers = 1;
    pool->wait_ns = dz_histogram_new();
    pool->run_ns = dz_histogram_new();
    bool isolated = pool->options.isolation == DZ_PROCESSES;
    if (isolated)
        pool->zygote = dz_zygote_new();
    if (!pool->wait_ns || !pool->run_ns || (isolated && !pool->zygote)) {
        free_pool(pool);
        return NULL;
    }
    init_short_lock(&pool->lock);
    pthread_mutex_init(&pool->tasks_lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&pool->ended, &attributes);
    pthread_cond_init(&pool->tasks_done, &attributes);
    pthread_condattr_destroy(&attributes);
    for (size_t i = 0; i < DZ_PRIORITIES; i++)
        dz_list_init(&pool->queues[i]);
    dz_list_init(&pool->everyone);
    dz_list_init(&pool->sleepers);
    dz_list_init(&pool->dead);
    dz_list_init(&pool->tasks);
    pool->window_start = pool->windows[0].at = pool->windows[1].at = dz_now();
    return pool;
}

void dz_pool_spread(dz_pool *pool, dz_spread *spread, dz_spread_kind kind)
{
    pool->spread = spread;
    pool->spread_kind = kind;
}

/* With the lock held: whether one more job may come, for which a worker is started if need be. */
static int make_room(dz_pool *pool)
{
    if (pool->closing)
        return DZ_E_SHUTDOWN;
    if (pool->idle + pool->starting > pool->queued)
        return 0; /* somebody is free for it, now or in a moment */
    int rc =
        pool->workers < pool->options.max_workers ? dz_pool_start_worker(pool) : DZ_E_QUEUE_FULL;
    if (rc < 0 && pool->workers > 0)
        rc = dz_pool_waiting(pool) < pool->options.max_queue ? 0 : DZ_E_QUEUE_FULL;
    return rc;
}

/* With the lock held. */
static int enqueue(dz_pool *pool, dz_job *job, dz_priority priority)
{
    dz_pool_bury(pool);
    int rc = make_room(pool);
    if (rc == 0) {
        job->submitted = dz_now();
        dz_list_init(&job->link);
        dz_list_push(&pool->queues[priority], &job->link);
        pool->queued++;
    } else {
        atomic_fetch_add_explicit(&pool->refused, 1, memory_order_relaxed);
    }
    unsigned full = pool->options.max_queue;
    pool->full |= rc == DZ_E_QUEUE_FULL || (full > 0 && dz_pool_waiting(pool) >= full);
    return rc;
}

int dz_pool_submit_with(dz_pool *pool, dz_job *job, dz_priority priority)
{
    pthread_mutex_lock(&pool->lock);
    int rc = enqueue(pool, job, priority);
    _Atomic uint32_t *word = rc == 0 ? dz_pool_call_sleeper(pool) : NULL;
    dz_pool_unlock(pool);
    dz_worker_wake(word);
    return rc;
}

int dz_pool_submit(dz_pool *pool, dz_job *job)
{
    return dz_pool_submit_with(pool, job, DZ_PRIORITY_NORMAL);
}

bool dz_pool_withdraw(dz_pool *pool, dz_job *job)
{
    pthread_mutex_lock(&pool->lock);
    bool waited = !dz_list_empty(&job->link); /* taken jobs are unlinked */
    if (waited) {
        dz_list_remove(&job->link);
        dz_pool_left_queue(pool);
    }
    dz_pool_unlock(pool);
    return waited;
}

/* --- the end --- */

/* False: `until` (monotonic ns; 0: never) has passed. */
static bool wait_for(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until)
{
    const struct timespec limit = dz_timespec(until);
    if (until > 0)
        return pthread_cond_timedwait(condition, lock, &limit) != ETIMEDOUT;
    pthread_cond_wait(condition, lock);
    return true;
}

static void take_no_more(dz_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    dz_pool_call_all(pool);
    pthread_mutex_unlock(&pool->lock);
}

/* Waits until all workers have ended and all results have reached their callers. False: too late.
 */
static bool wait_for_rest(dz_pool *pool, uint64_t until)
{
    bool in_time = true;
    pthread_mutex_lock(&pool->lock);
    while (pool->threads > 0 && in_time)
        in_time = wait_for(&pool->ended, &pool->lock, until);
    pthread_mutex_unlock(&pool->lock);
    pthread_mutex_lock(&pool->tasks_lock);
    while (!dz_list_empty(&pool->tasks) && in_time)
        in_time = wait_for(&pool->tasks_done, &pool->tasks_lock, until);
    pthread_mutex_unlock(&pool->tasks_lock);
    return in_time;
}

static void cancel_and_free(dz_pool *pool)
{
    dz_pool_cancel_tasks(pool);
    (void)wait_for_rest(pool, 0);
    pthread_mutex_lock(&pool->lock);
    dz_pool_bury(pool);
    pthread_mutex_unlock(&pool->lock);
    pthread_cond_destroy(&pool->tasks_done);
    pthread_mutex_destroy(&pool->tasks_lock);
    pthread_cond_destroy(&pool->ended);
    pthread_mutex_destroy(&pool->lock);
    free_pool(pool);
}

void dz_pool_close(dz_pool *pool, uint64_t timeout_ns)
{
    if (!pool)
        return;
    uint64_t now = dz_now();
    take_no_more(pool);
    (void)wait_for_rest(pool, timeout_ns < UINT64_MAX - now ? now + timeout_ns : 0);
    cancel_and_free(pool); /* what is left: nothing, if that was in time */
}

void dz_pool_destroy(dz_pool *pool)
{
    if (!pool)
        return;
    take_no_more(pool);
    cancel_and_free(pool);
}

void dz_pool_free(dz_pool *pool)
{
    dz_pool_close(pool, UINT64_MAX);
}
