/* pool.h: worker threads and the queue they take jobs from.
 *
 * With processes each worker thread keeps a child process and hands its tasks on (process.h). So
 * there is one queue, one way to close and one way to cancel for both isolations. A child is
 * killed by the thread that waits for it, or under the lock of the task that it runs: never in the
 * middle of another task. */
#ifndef DZ_POOL_POOL_H
#define DZ_POOL_POOL_H

#include "base/clock.h"
#include "base/list.h"
#include "loop/runtime.h"
#include "metrics/histogram.h"
#include "pool/spread.h"

#include <donmaz/pool.h>

#include <pthread.h>
#include <stdatomic.h>

typedef struct dz_job dz_job;
typedef struct dz_zygote dz_zygote;
typedef struct dz_child dz_child;

enum { DZ_PRIORITIES = 3, DZ_LINE = 64 /* bytes of a cache line */ };

struct dz_job {
    dz_list link;
    void (*run)(dz_job *job); /* on a worker; may free or submit job again */
    uint64_t submitted;       /* monotonic ns */
};

typedef struct dz_pool_task {
    const char *name;
    dz_task_fn *fn;
} dz_pool_task;

typedef struct dz_pool_window {
    uint64_t at, busy_ns; /* monotonic ns */
} dz_pool_window;

struct dz_pool {
    /* Written before the first task only. */
    dz_pool_options options;
    dz_pool_task *registered;
    size_t registered_count;
    dz_zygote *zygote; /* with processes */
    dz_spread *spread; /* NULL: the kernel alone says where workers run */
    dz_spread_kind spread_kind;
    dz_histogram *wait_ns, *run_ns;

    /* Each part in lines of its own: a loop and its workers are at all three at the same time. */
    _Alignas(DZ_LINE) pthread_mutex_t lock; /* of this part; never held for long */
    pthread_cond_t ended;                   /* a worker did */
    dz_list queues[DZ_PRIORITIES];
    dz_list everyone; /* all workers */
    dz_list sleepers; /* workers that wait for a job; the latest at the end */
    dz_list dead;     /* workers to be joined */
    unsigned queued, workers;
    unsigned idle, starting; /* of the workers: each will take one of those queued */
    unsigned threads;        /* workers, and those on their way out */
    bool closing;
    bool full;          /* the queue was, and has not been empty since */
    bool told, telling; /* what on_pressure was last told; it is being called */
    dz_pool_pressure_fn *on_pressure;
    void *pressure_data;
    uint64_t busy_ns; /* of jobs that have ended */
    uint64_t read_at; /* when that was last read: later ends count at least from there on */
    uint64_t window_start, window_busy; /* of the last dz_pool_get_stats */
    dz_pool_window windows[2];          /* the metric's: what was read last, and before */

    /* All tasks that were begun and are not done (dz_task.all). A lock of its own, which workers
     * never take; `lock` may be taken within it. */
    _Alignas(DZ_LINE) pthread_mutex_t tasks_lock;
    pthread_cond_t tasks_done; /* the last is done */
    dz_list tasks;

    _Alignas(DZ_LINE) _Atomic uint64_t completed;
    _Atomic uint64_t failed, cancelled, timed_out, expired, crashed, refused;
};

/* Before the first job: workers that run are kept on different cores, together with those of other
 * pools that share `spread`, which must outlive the pool. */
void dz_pool_spread(dz_pool *pool, dz_spread *spread, dz_spread_kind kind);

/* Any thread. The job runs on a worker; first in first out within a priority. DZ_E_QUEUE_FULL,
 * DZ_E_NO_THREAD (there is no worker and none can be started), DZ_E_SHUTDOWN: not taken. */
int dz_pool_submit(dz_pool *pool, dz_job *job);
int dz_pool_submit_with(dz_pool *pool, dz_job *job, dz_priority priority);

/* Takes a job back that no worker has begun; false when one has. The job must have been taken. */
bool dz_pool_withdraw(dz_pool *pool, dz_job *job);

/* With the lock held: one job less waits. */
static inline void dz_pool_left_queue(dz_pool *pool)
{
    pool->queued--;
    pool->full = pool->full && pool->queued > 0;
}

/* With the lock held: how many wait and no worker is on its way to them. */
static inline unsigned dz_pool_waiting(const dz_pool *pool)
{
    unsigned coming = pool->idle + pool->starting;
    return pool->queued > coming ? pool->queued - coming : 0;
}

/* Drops the lock; tells on_pressure what it does not know yet. */
void dz_pool_unlock(dz_pool *pool);

/* On a worker: its child process, kept for as long as it is fit. */
dz_child **dz_worker_child(void);

#endif
