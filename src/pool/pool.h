/* pool.h: worker threads and the queue they take jobs from. */
#ifndef DZ_POOL_POOL_H
#define DZ_POOL_POOL_H

#include "base/list.h"
#include "loop/runtime.h"

#include <donmaz/pool.h>

#include <pthread.h>
#include <stdatomic.h>

typedef struct dz_job dz_job;

struct dz_job {
    dz_list link;
    void (*run)(dz_job *job); /* on a worker; may free or submit job again */
};

typedef struct dz_pool_task {
    const char *name;
    dz_task_fn *fn;
} dz_pool_task;

struct dz_pool {
    dz_pool_options options;
    pthread_mutex_t lock;
    pthread_cond_t work;  /* a job waits, or the pool closes */
    pthread_cond_t ended; /* a worker ended */
    dz_list queue;
    dz_list dead; /* workers to be joined */
    unsigned queued, workers;
    unsigned idle, starting; /* of the workers: each will take one of those queued */
    bool closing;
    dz_pool_task *tasks;
    size_t task_count;
    _Atomic uint64_t completed, refused;
};

/* Any thread. The job runs on a worker, first in first out. DZ_E_QUEUE_FULL, DZ_E_NO_THREAD (there
 * is no worker and none can be started), DZ_E_SHUTDOWN: the job was not taken. */
int dz_pool_submit(dz_pool *pool, dz_job *job);

#endif
