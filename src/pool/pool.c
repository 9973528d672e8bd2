#include "pool/pool.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "pool/process.h"
#include "pool/task.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WORKER_STACK = 1 << 20 };

typedef struct worker {
    dz_thread thread; /* so that fibers can run here */
    dz_pool *pool;
    dz_list link; /* in pool->sleepers or pool->dead */
    _Atomic uint32_t asleep;
    pthread_t handle;
    dz_child *child; /* with processes, from its first task on */
} worker;

static _Thread_local worker *current;

/* A function of its own, so that no caller keeps the address over a change of threads. */
__attribute__((noinline)) dz_child **dz_worker_child(void)
{
    return &current->child;
}

void dz_pool_options_init(dz_pool_options *options)
{
    unsigned cpus = dz_cpu_count();
    *options = (dz_pool_options){
        .max_workers = cpus > 1 ? cpus - 1 : 1,
        .max_queue = 256,
        .idle_timeout_ns = 60 * DZ_SEC,
    };
}

static void free_pool(dz_pool *pool)
{
    dz_zygote_free(pool->zygote);
    dz_histogram_free(pool->wait_ns);
    dz_histogram_free(pool->run_ns);
    free(pool->registered);
    free(pool);
}

dz_pool *dz_pool_new(const dz_pool_options *options)
{
    dz_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->options = *options;
    if (pool->options.max_workers == 0)
        pool->options.max_workers = 1;
    pool->wait_ns = dz_histogram_new();
    pool->run_ns = dz_histogram_new();
    bool isolated = options->isolation == DZ_PROCESSES;
    if (isolated)
        pool->zygote = dz_zygote_new();
    if (!pool->wait_ns || !pool->run_ns || (isolated && !pool->zygote)) {
        free_pool(pool);
        return NULL;
    }
    pthread_mutex_init(&pool->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&pool->ended, &attributes);
    pthread_condattr_destroy(&attributes);
    for (size_t i = 0; i < DZ_PRIORITIES; i++)
        dz_list_init(&pool->queues[i]);
    dz_list_init(&pool->sleepers);
    dz_list_init(&pool->dead);
    dz_list_init(&pool->tasks);
    pool->window_start = dz_now();
    return pool;
}

void dz_pool_spread(dz_pool *pool, dz_spread *spread, dz_spread_kind kind)
{
    pool->spread = spread;
    pool->spread_kind = kind;
}

/* With the lock held: the job to run next, NULL when none waits. */
static dz_job *take_job(dz_pool *pool)
{
    static const dz_priority order[] = {DZ_PRIORITY_HIGH, DZ_PRIORITY_NORMAL, DZ_PRIORITY_LOW};
    for (size_t i = 0; i < DZ_PRIORITIES; i++) {
        dz_list *link = dz_list_shift(&pool->queues[order[i]]);
        if (!link)
            continue;
        dz_pool_left_queue(pool);
        return DZ_CONTAINER(link, dz_job, link);
    }
    return NULL;
}

static struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / DZ_SEC), .tv_nsec = (long)(ns % DZ_SEC)};
}

/* --- sleeping: each worker on a word of its own, so that the one that slept last is woken first,
 * whose stack is still in a cache, and so that it is woken after the lock was dropped. --- */

/* With the lock held: the worker to be woken once the lock is dropped; NULL: none sleeps, and those
 * on their way will take what waits. */
static _Atomic uint32_t *call_sleeper(dz_pool *pool)
{
    dz_list *link = pool->sleepers.prev;
    if (dz_list_empty(&pool->sleepers))
        return NULL;
    dz_list_remove(link);
    worker *self = DZ_CONTAINER(link, worker, link);
    atomic_store_explicit(&self->asleep, 0, memory_order_relaxed);
    return &self->asleep;
}

/* The worker may be gone by now, with its word: the kernel only looks who waits at the address. */
static void wake(_Atomic uint32_t *word)
{
    if (word)
        syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* With the lock held, which keeps the words alive. */
static void call_all(dz_pool *pool)
{
    for (_Atomic uint32_t *word; (word = call_sleeper(pool));)
        wake(word);
}

/* With the lock held, which is dropped meanwhile. False: nobody called until `until` (monotonic ns;
 * 0: no limit). */
static bool sleep_until_called(worker *self, uint64_t until)
{
    dz_pool *pool = self->pool;
    const struct timespec limit = timespec_of(until);
    pool->idle++;
    atomic_store_explicit(&self->asleep, 1, memory_order_relaxed);
    dz_list_push(&pool->sleepers, &self->link);
    pthread_mutex_unlock(&pool->lock);
    while (atomic_load_explicit(&self->asleep, memory_order_relaxed) &&
           (until == 0 || dz_now() < until))
        syscall(SYS_futex, &self->asleep, FUTEX_WAIT_BITSET_PRIVATE, 1, until ? &limit : NULL, NULL,
                FUTEX_BITSET_MATCH_ANY);
    pthread_mutex_lock(&pool->lock);
    pool->idle--;
    bool called = dz_list_empty(&self->link);
    dz_list_remove(&self->link);
    return called;
}

/* With the lock held: waits for a job; NULL when this worker should end. */
static dz_job *next_job(worker *self)
{
    dz_pool *pool = self->pool;
    const dz_pool_options *options = &pool->options;
    uint64_t now = dz_now(), until = UINT64_MAX;
    if (options->idle_timeout_ns < UINT64_MAX - now)
        until = now + options->idle_timeout_ns;
    for (;;) {
        dz_job *job = take_job(pool);
        if (job || pool->closing)
            return job;
        bool stays = pool->workers <= options->min_workers;
        if (!sleep_until_called(self, stays ? 0 : until) && pool->queued == 0 &&
            pool->workers > options->min_workers)
            return NULL;
    }
}

static void run_job(dz_pool *pool, dz_job *job)
{
    uint64_t start = dz_now();
    dz_histogram_record_shared(pool->wait_ns, start - job->submitted);
    dz_spread_member member;
    if (pool->spread)
        dz_spread_enter(pool->spread, pool->spread_kind, &member);
    job->run(job); /* and may be gone after this */
    if (pool->spread)
        dz_spread_leave(pool->spread, &member);
    uint64_t took = dz_now() - start;
    dz_histogram_record_shared(pool->run_ns, took);
    atomic_fetch_add_explicit(&pool->busy_ns, took, memory_order_relaxed);
}

static void *worker_main(void *arg)
{
    worker *self = arg;
    dz_pool *pool = self->pool;
    dz_thread_enter(&self->thread);
    current = self;
    if (pool->options.nice > 0) {
        id_t id = (id_t)atomic_load(&self->thread.id);
        setpriority(PRIO_PROCESS, id, getpriority(PRIO_PROCESS, id) + pool->options.nice);
    }
    pthread_mutex_lock(&pool->lock);
    pool->starting--;
    for (dz_job *job; (job = next_job(self));) {
        dz_pool_unlock(pool);
        run_job(pool, job);
        pthread_mutex_lock(&pool->lock);
    }
    pool->workers--; /* at once, so that a job submitted now gets another one */
    pthread_mutex_unlock(&pool->lock);
    dz_child_free(self->child);
    pthread_mutex_lock(&pool->lock);
    pool->threads--;
    dz_list_push(&pool->dead, &self->link);
    pthread_cond_broadcast(&pool->ended);
    pthread_mutex_unlock(&pool->lock);
    dz_thread_leave(&self->thread);
    return NULL;
}

/* With the lock held: joins the workers that ended. */
static void bury(dz_pool *pool)
{
    for (dz_list *link; (link = dz_list_shift(&pool->dead));) {
        worker *dead = DZ_CONTAINER(link, worker, link);
        pthread_mutex_unlock(&pool->lock);
        pthread_join(dead->handle, NULL);
        free(dead);
        pthread_mutex_lock(&pool->lock);
    }
}

/* With the lock held. */
static int start_worker(dz_pool *pool)
{
    worker *self = calloc(1, sizeof *self);
    if (!self)
        return DZ_E_NOMEM;
    self->pool = pool;
    dz_list_init(&self->link);
    int rc = dz_thread_create(&self->handle, WORKER_STACK, worker_main, self);
    if (rc < 0) {
        free(self);
        return rc;
    }
    pool->workers++;
    pool->threads++;
    pool->starting++;
    return 0;
}

/* With the lock held: how many wait and no worker is on its way to them. */
static unsigned waiting(const dz_pool *pool)
{
    unsigned coming = pool->idle + pool->starting;
    return pool->queued > coming ? pool->queued - coming : 0;
}

/* With the lock held: whether one more job may come, for which a worker is started if need be. */
static int make_room(dz_pool *pool)
{
    if (pool->closing)
        return DZ_E_SHUTDOWN;
    if (pool->idle + pool->starting > pool->queued)
        return 0; /* somebody is free for it, now or in a moment */
    int rc = pool->workers < pool->options.max_workers ? start_worker(pool) : DZ_E_QUEUE_FULL;
    if (rc < 0 && pool->workers > 0)
        rc = waiting(pool) < pool->options.max_queue ? 0 : DZ_E_QUEUE_FULL;
    return rc;
}

/* With the lock held. */
static int enqueue(dz_pool *pool, dz_job *job, dz_priority priority)
{
    bury(pool);
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
    pool->full |= rc == DZ_E_QUEUE_FULL || (full > 0 && waiting(pool) >= full);
    return rc;
}

int dz_pool_submit_with(dz_pool *pool, dz_job *job, dz_priority priority)
{
    pthread_mutex_lock(&pool->lock);
    int rc = enqueue(pool, job, priority);
    _Atomic uint32_t *word = rc == 0 ? call_sleeper(pool) : NULL;
    dz_pool_unlock(pool);
    wake(word);
    return rc;
}

int dz_pool_submit(dz_pool *pool, dz_job *job)
{
    return dz_pool_submit_with(pool, job, DZ_PRIORITY_NORMAL);
}

int dz_pool_submit_task(dz_pool *pool, dz_task *task)
{
    pthread_mutex_lock(&pool->lock);
    int rc = enqueue(pool, &task->job, task->options.priority);
    _Atomic uint32_t *word = rc == 0 ? call_sleeper(pool) : NULL;
    if (rc == 0)
        dz_list_push(&pool->tasks, &task->all);
    dz_pool_unlock(pool);
    wake(word);
    return rc;
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

/* With the lock held: workers that run, or results on their way to a loop. */
static bool in_use(const dz_pool *pool)
{
    return pool->threads > 0 || !dz_list_empty(&pool->tasks);
}

void dz_pool_close(dz_pool *pool, uint64_t timeout_ns)
{
    if (!pool)
        return;
    uint64_t now = dz_now();
    struct timespec until = timespec_of(timeout_ns < UINT64_MAX / 2 - now ? now + timeout_ns : 0);
    bool limited = until.tv_sec != 0, in_time = true;
    pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    call_all(pool);
    while (in_use(pool) && in_time) {
        if (limited)
            in_time = pthread_cond_timedwait(&pool->ended, &pool->lock, &until) != ETIMEDOUT;
        else
            pthread_cond_wait(&pool->ended, &pool->lock);
    }
    if (!in_time) {
        pthread_mutex_unlock(&pool->lock);
        dz_pool_cancel_tasks(pool);
        pthread_mutex_lock(&pool->lock);
    }
    while (in_use(pool))
        pthread_cond_wait(&pool->ended, &pool->lock);
    bury(pool);
    pthread_mutex_unlock(&pool->lock);
    pthread_cond_destroy(&pool->ended);
    pthread_mutex_destroy(&pool->lock);
    free_pool(pool);
}

void dz_pool_free(dz_pool *pool)
{
    dz_pool_close(pool, UINT64_MAX);
}
