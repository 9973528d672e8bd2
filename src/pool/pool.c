#include "pool/pool.h"

#include "base/clock.h"
#include "base/cpu.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { WORKER_STACK = 1 << 20 };

typedef struct worker {
    dz_thread thread; /* so that fibers can run here */
    dz_pool *pool;
    dz_list link;
    pthread_t handle;
} worker;

void dz_pool_options_init(dz_pool_options *options)
{
    unsigned cpus = dz_cpu_count();
    *options = (dz_pool_options){
        .max_workers = cpus > 1 ? cpus - 1 : 1,
        .max_queue = 256,
        .idle_timeout_ns = 60 * DZ_SEC,
    };
}

dz_pool *dz_pool_new(const dz_pool_options *options)
{
    dz_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->options = *options;
    if (pool->options.max_workers == 0)
        pool->options.max_workers = 1; /* jobs would wait for ever */
    pthread_mutex_init(&pool->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&pool->work, &attributes);
    pthread_cond_init(&pool->ended, &attributes);
    pthread_condattr_destroy(&attributes);
    dz_list_init(&pool->queue);
    dz_list_init(&pool->dead);
    return pool;
}

/* With the lock held: waits for a job; NULL when this worker should end. */
static dz_job *next_job(dz_pool *pool)
{
    const dz_pool_options *options = &pool->options;
    uint64_t until = dz_now() + options->idle_timeout_ns;
    struct timespec at = {.tv_sec = (time_t)(until / DZ_SEC), .tv_nsec = (long)(until % DZ_SEC)};
    while (dz_list_empty(&pool->queue)) {
        if (pool->closing)
            return NULL;
        pool->idle++;
        int rc = 0;
        if (pool->workers <= options->min_workers)
            pthread_cond_wait(&pool->work, &pool->lock);
        else
            rc = pthread_cond_timedwait(&pool->work, &pool->lock, &at);
        pool->idle--;
        if (rc == ETIMEDOUT && dz_list_empty(&pool->queue) && pool->workers > options->min_workers)
            return NULL;
    }
    pool->queued--;
    return DZ_CONTAINER(dz_list_shift(&pool->queue), dz_job, link);
}

static void *worker_main(void *arg)
{
    worker *self = arg;
    dz_pool *pool = self->pool;
    dz_thread_enter(&self->thread);
    if (pool->options.nice > 0) {
        id_t id = (id_t)atomic_load(&self->thread.id);
        setpriority(PRIO_PROCESS, id, getpriority(PRIO_PROCESS, id) + pool->options.nice);
    }
    pthread_mutex_lock(&pool->lock);
    pool->starting--;
    for (dz_job *job; (job = next_job(pool));) {
        pthread_mutex_unlock(&pool->lock);
        job->run(job);
        atomic_fetch_add_explicit(&pool->completed, 1, memory_order_relaxed);
        pthread_mutex_lock(&pool->lock);
    }
    pool->workers--;
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
    pool->starting++;
    return 0;
}

int dz_pool_submit(dz_pool *pool, dz_job *job)
{
    pthread_mutex_lock(&pool->lock);
    int rc = 0;
    bury(pool);
    if (pool->closing) {
        rc = DZ_E_SHUTDOWN;
    } else if (pool->idle + pool->starting <= pool->queued) {
        /* Nobody is free for it, now or in a moment: a new worker, or it waits. */
        rc = pool->workers < pool->options.max_workers ? start_worker(pool) : DZ_E_QUEUE_FULL;
        if (rc < 0 && pool->workers > 0) {
            unsigned wait = pool->queued - pool->idle - pool->starting;
            rc = wait < pool->options.max_queue ? 0 : DZ_E_QUEUE_FULL;
        }
    }
    if (rc == 0) {
        dz_list_init(&job->link);
        dz_list_push(&pool->queue, &job->link);
        pool->queued++;
        pthread_cond_signal(&pool->work);
    } else {
        atomic_fetch_add_explicit(&pool->refused, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&pool->lock);
    return rc;
}

void dz_pool_free(dz_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    pthread_cond_broadcast(&pool->work);
    while (pool->workers > 0)
        pthread_cond_wait(&pool->ended, &pool->lock);
    bury(pool);
    pthread_mutex_unlock(&pool->lock);
    pthread_cond_destroy(&pool->work);
    pthread_cond_destroy(&pool->ended);
    pthread_mutex_destroy(&pool->lock);
    free(pool->tasks);
    free(pool);
}
