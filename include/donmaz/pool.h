/* pool.h: workers for what computes long, so that it never runs on a loop.
 *
 * A task is a function registered under a name. Its input and output are buffers that change
 * owners instead of being copied. Workers are threads of this process, or processes of their own:
 * then a task that crashes, never ends or eats all memory costs that task, and nothing else.
 *
 *     queued ──────────> running ──────────> done: exactly once, with the task's result, or
 *        │ full, late,      │ crashed, too long,      DZ_E_QUEUE_FULL, DZ_E_EXPIRED (late),
 *        │ cancelled        │ cancelled               DZ_E_TIMEOUT (too long),
 *        │                  │                         DZ_E_CANCELLED, DZ_E_CRASHED
 *        └──────────────────┴──────────────────────> done
 */
#ifndef DONMAZ_POOL_H
#define DONMAZ_POOL_H

#include <donmaz/buf.h>
#include <donmaz/error.h>
#include <donmaz/export.h>
#include <donmaz/metrics.h>

#include <stdbool.h>
#include <stdint.h>

typedef struct dz_pool dz_pool;
typedef struct dz_task dz_task;
typedef struct dz_work dz_work;

/* Runs on a worker. `in` is the task's: what it leaves in it is released afterwards. What it puts
 * into `out` goes to the caller. Returns 0 or a negative error, which the caller gets. */
typedef int dz_task_fn(dz_task *task, dz_buf *in, dz_buf *out);

typedef enum dz_isolation { DZ_THREADS, DZ_PROCESSES } dz_isolation;
typedef enum dz_priority { DZ_PRIORITY_NORMAL, DZ_PRIORITY_HIGH, DZ_PRIORITY_LOW } dz_priority;

typedef struct dz_pool_options {
    dz_isolation isolation; /* default DZ_THREADS */
    unsigned min_workers;   /* kept when idle; default 0 */
    unsigned max_workers;   /* default: the CPU quota - 1, at least 1: a core stays for the loop */
    unsigned max_queue;     /* tasks that may wait; default 256 */
    uint64_t idle_timeout_ns; /* after which a worker above min_workers ends; default 60 s */
    /* How long a task may wait to start, after which it never does (DZ_E_EXPIRED); and how long it
     * may run once started (DZ_E_TIMEOUT). Default 0: for ever. */
    uint64_t queue_timeout_ns, run_limit_ns;
    int nice;               /* added to the workers' nice value; default 0 */
    unsigned recycle_tasks; /* a worker is renewed after so many tasks; default 0: never */
    /* For DZ_PROCESSES: */
    uint64_t recycle_memory; /* or when it holds more than so many bytes; default 0: never */
    uint64_t memory_max;     /* bytes a process may allocate; beyond it malloc fails; default 0 */
} dz_pool_options;

/* The defaults. */
DZ_API void dz_pool_options_init(dz_pool_options *options);

/* `options` may be NULL. Workers start when there is work. With DZ_PROCESSES call it before the
 * program starts threads (dz_on_start is such a place): worker processes are copies of the program
 * as it is now, so they see the memory of now, not what changes later.
 * NULL with errno set: ENOMEM; with DZ_PROCESSES also why the process that they are copied from
 * can't be made: ENOSYS or EPERM where the kernel lacks (before Linux 5.3), or a container forbids,
 * pidfd_open, pidfd_send_signal or memfd_create. */
DZ_API dz_pool *dz_pool_new(const dz_pool_options *options);

/* Registers a task before any is run. `name` must outlive the pool. DZ_E_EXISTS, DZ_E_NOMEM,
 * DZ_E_INVALID. */
DZ_API int dz_pool_add_task(dz_pool *pool, const char *name, dz_task_fn *fn);

/* From a handler: runs the task on a worker and parks until it is done; the loop goes on. `in` (may
 * be NULL) must own its memory and is empty afterwards; *out (may be NULL) is set. When the client
 * goes away the task is cancelled. Returns what the task returned, or
 *   DZ_E_NOT_FOUND   no such task           DZ_E_NOT_OWNED  `in` can't be transferred
 *   DZ_E_QUEUE_FULL  answer 503             DZ_E_NO_THREAD  no worker could be started
 *   DZ_E_STATE       not in a handler       DZ_E_SHUTDOWN   the pool is closing
 *   DZ_E_EXPIRED     waited too long, and   DZ_E_TIMEOUT    ran too long, and was stopped
 *                    was never started      DZ_E_CANCELLED  nobody wants the result
 *   DZ_E_CRASHED     its process died       DZ_E_UNAVAILABLE no process can be made: answer 503
 *   DZ_E_NOMEM
 * After DZ_E_EXPIRED, DZ_E_QUEUE_FULL and DZ_E_UNAVAILABLE the task has had no effect and may be
 * asked for again; after DZ_E_TIMEOUT, DZ_E_CRASHED and DZ_E_CANCELLED it may have done a part.
 * With threads a running task ends at its own next look at dz_task_cancelled; with processes it is
 * ended at once. */
DZ_API int dz_pool_run(dz_pool *pool, const char *name, dz_buf *in, dz_buf *out);

/* --- a task that tells how it gets on --- */

/* Cancels tasks on request, from any thread. One may be given to several tasks. */
typedef struct dz_cancel dz_cancel;
DZ_API dz_cancel *dz_cancel_new(void); /* NULL out of memory */
/* Cancels what it was given to, also what it will be given to. */
DZ_API void dz_cancel_fire(dz_cancel *cancel);
/* After the tasks it was given to are done. NULL is fine. */
DZ_API void dz_cancel_free(dz_cancel *cancel);

typedef struct dz_work_options {
    dz_priority priority;
    uint64_t queue_timeout_ns; /* 0: the pool's */
    uint64_t run_limit_ns;     /* 0: the pool's */
    dz_cancel *cancel;         /* may be NULL */
    unsigned max_messages;     /* that may wait for dz_work_next; default 64 */
    bool coalesce;             /* a full channel drops its oldest message, else the task's newest */
} dz_work_options;

/* From a handler: starts the task and returns. `options` may be NULL. Errors as dz_pool_run, then
 * *work is NULL and *in is unchanged. Each started work must be finished before the handler ends.
 */
DZ_API int dz_pool_start(dz_pool *pool, const char *name, dz_buf *in,
                         const dz_work_options *options, dz_work **work);

/* Parks until the task has posted a message or is done. 1: *message is set, the caller's to
 * release; messages come in order. 0: the task is done and has no more. DZ_E_NOMEM. DZ_E_STATE: not
 * called by the handler that started it. */
DZ_API int dz_work_next(dz_work *work, dz_buf *message);

/* Asks the task to end, as if the client had gone. */
DZ_API void dz_work_cancel(dz_work *work);

/* Parks until the task is done, drops messages not taken, and frees the run. As dz_pool_run; with
 * DZ_E_STATE (not the handler that started it) the run stays. */
DZ_API int dz_work_finish(dz_work *work, dz_buf *out);

/* --- for task functions --- */

/* Whether nobody waits for the task's result any more, or it ran too long. Cheap enough for inner
 * loops. Always false in a process, which is ended instead. */
DZ_API bool dz_task_cancelled(const dz_task *task);

/* Sends a copy of `message` (at most 32 KB) to the owner. DZ_E_QUEUE_FULL: the owner is behind, and
 * it was dropped (with threads; a process waits). DZ_E_TOO_LARGE, DZ_E_NOMEM, DZ_E_CLOSED. */
DZ_API int dz_task_post(dz_task *task, dz_slice message);

/* --- memory for several processes --- */

/* As dz_buf_alloc, but the memory can be handed to and from worker processes without a copy. Other
 * buffers work, too; they are copied on the worker's side. DZ_E_NOMEM or -errno. */
DZ_API int dz_buf_alloc_shared(dz_buf *buf, size_t cap);

/* Zeroed memory that this process and the workers of pools made later see alike, for counters with
 * C's atomic operations. NULL out of memory. */
DZ_API void *dz_shared_new(size_t size);
DZ_API void dz_shared_free(void *memory, size_t size);

/* --- metrics --- */

typedef struct dz_pool_stats {
    unsigned workers, idle, queued;
    uint64_t completed; /* ended with 0 or more */
    uint64_t failed;    /* ended with an error of their own */
    uint64_t cancelled, timed_out, crashed;
    uint64_t expired;   /* waited longer than queue_timeout_ns, and never started */
    uint64_t refused;   /* not taken: full, closing, no thread */
    uint64_t busy_ns;   /* time workers spent on tasks, running ones included */
    double utilisation; /* the share that was of all workers' time since the last call; 0 to 1 */
    bool needs_drain;   /* the queue has been full, and not empty since */
    unsigned max_workers;
} dz_pool_stats;

/* Any thread. */
DZ_API void dz_pool_get_stats(dz_pool *pool, dz_pool_stats *stats);

/* Called with true when as many tasks wait as may (max_queue): whoever can should bring no more;
 * and with false once none waits any more. The calls alternate and never overlap. They come from
 * whichever thread made the difference, a loop's or a worker's, so the function must be quick; it
 * may call dz_pool_get_stats, and post messages of its own, but not start tasks or close the pool.
 */
typedef void dz_pool_pressure_fn(dz_pool *pool, bool needs_drain, void *data);

/* Any thread; `data` must outlive the pool. One function a pool; NULL: none. If the queue is full
 * already, fn is called before this returns. */
DZ_API void dz_pool_on_pressure(dz_pool *pool, dz_pool_pressure_fn *fn, void *data);

/* Registers donmaz_pool_* metrics with the label pool=`name`. DZ_E_EXISTS, DZ_E_NOMEM. The pool
 * must outlive the registry's use. */
DZ_API int dz_pool_register_metrics(dz_pool *pool, dz_metrics *metrics, const char *name);

/* --- the end ---
 *
 *                     tasks that wait   tasks that run      returns when
 *   dz_pool_close     are run           go on               all is done, or a little after the
 *                                                           timeout, when the rest is cancelled
 *   dz_pool_free      are run           go on               all is done
 *   dz_pool_destroy   are cancelled     are cancelled       they have ended, which is at once but
 *                                                           for threads that do not look
 *
 * All three take no more tasks (DZ_E_SHUTDOWN), see to it that each caller gets its one completion,
 * end the workers (processes are killed, threads joined), wait until the last of them is gone and
 * free the pool. Not from a handler: the loops carry the completions, so they have to go on
 * meanwhile. Of works that were started, dz_work_next and dz_work_finish may still be called. NULL
 * is fine. */

/* Waits for running and queued tasks for at most `timeout_ns`, then cancels what is left. A thread
 * that ignores its cancelling is waited for. */
DZ_API void dz_pool_close(dz_pool *pool, uint64_t timeout_ns);

/* dz_pool_close without a limit. */
DZ_API void dz_pool_free(dz_pool *pool);

/* Cancels all tasks first: callers get DZ_E_CANCELLED, except of those that had ended already.
 * Worker processes are killed in the middle of what they do; a thread ends at its next look at
 * dz_task_cancelled, and is waited for. */
DZ_API void dz_pool_destroy(dz_pool *pool);

#endif
