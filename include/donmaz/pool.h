/* pool.h: workers for what computes long, so that it never runs on a loop.
 *
 * A task is a function registered under a name. Its input and output are buffers that change
 * owners instead of being copied. */
#ifndef DONMAZ_POOL_H
#define DONMAZ_POOL_H

#include <donmaz/buf.h>
#include <donmaz/error.h>
#include <donmaz/export.h>

#include <stdbool.h>
#include <stdint.h>

typedef struct dz_pool dz_pool;
typedef struct dz_task dz_task;

/* Runs on a worker. `in` is the task's: what it leaves in it is released afterwards. What it puts
 * into `out` goes to the caller. Returns 0 or a negative error, which the caller gets. */
typedef int dz_task_fn(dz_task *task, dz_buf *in, dz_buf *out);

typedef struct dz_pool_options {
    unsigned min_workers; /* kept when idle; default 0 */
    unsigned max_workers; /* default: the CPU quota - 1, at least 1: a core stays for the loop; 0
                           * counts as 1 */
    unsigned max_queue;   /* tasks that may wait while every worker is busy; default 256 */
    uint64_t idle_timeout_ns; /* after which a worker above min_workers ends; default 60 s */
    int nice;                 /* added to the workers' nice value; default 0 */
} dz_pool_options;

/* The defaults. */
DZ_API void dz_pool_options_init(dz_pool_options *options);

/* NULL out of memory. Workers start when there is work. */
DZ_API dz_pool *dz_pool_new(const dz_pool_options *options);

/* Registers a task before any is run. `name` must outlive the pool. DZ_E_EXISTS, DZ_E_NOMEM. */
DZ_API int dz_pool_add_task(dz_pool *pool, const char *name, dz_task_fn *fn);

/* From a handler: runs the task on a worker and parks until it is done; the loop goes on. `in` (may
 * be NULL) must own its memory and is empty afterwards; *out (may be NULL) is set. Returns what the
 * task returned, or
 *   DZ_E_NOT_FOUND   no such task           DZ_E_NOT_OWNED  `in` can't be transferred
 *   DZ_E_QUEUE_FULL  answer 503             DZ_E_NO_THREAD  no worker could be started
 *   DZ_E_STATE       not in a handler       DZ_E_SHUTDOWN   the pool is closing */
DZ_API int dz_pool_run(dz_pool *pool, const char *name, dz_buf *in, dz_buf *out);

/* Whether nobody waits for the task's result any more. Cheap enough for inner loops. */
DZ_API bool dz_task_cancelled(const dz_task *task);

/* Waits for running and queued work, then ends the workers and frees the pool. Not from a handler,
 * and before dz_app_free of the app whose handlers used it (dz_on_stop is the place). NULL is fine. */
DZ_API void dz_pool_free(dz_pool *pool);

#endif
