/* task.h: one run of a task, from being asked for to its result.
 *
 * What belongs to whom: the loop of the asking fiber has the timer, `finished`, `waiting` and the
 * fiber's list; the worker has `in`, `out` and `result` while it runs; `stop` is atomic; the
 * messages have a lock. The worker's last touch is posting `done` to the loop, and only the loop
 * lets the owner go on, so the owner may free the task then. */
#ifndef DZ_POOL_TASK_H
#define DZ_POOL_TASK_H

#include "pool/pool.h"

typedef enum dz_waiting { DZ_WAITS_NOT, DZ_WAITS_NEXT, DZ_WAITS_DONE } dz_waiting;

struct dz_task {
    dz_job job;
    dz_pool *pool;
    dz_task_fn *fn;
    dz_buf in, out;
    int result, refused;
    _Atomic int stop; /* why it should end: DZ_E_CANCELLED, _TIMEOUT or _EXPIRED; 0: go on */
    _Atomic uint64_t started; /* monotonic ns; 0 while queued */

    dz_fiber *fiber;
    dz_msg done, wake;
    dz_work_options options;
    dz_timer timer;
    uint64_t queue_until; /* UINT64_MAX: no limit */
    bool has_timer, finished, at_end;
    dz_waiting waiting;
    dz_list all;         /* in pool->tasks, under its lock */
    dz_list cancel_link; /* in options.cancel, under its lock */
    /* Other tasks of the same fiber; both ways, since those begun first, which stand last, mostly
     * end first. */
    dz_task *next_of_fiber, *prev_of_fiber;

    pthread_mutex_t lock; /* for the rest */
    dz_list messages;     /* dz_message */
    unsigned message_count;
    bool wake_pending;
    int pidfd;   /* of the child that runs it, which whoever stops the task kills; else -1 */
    bool killed; /* that was done, perhaps after the child had ended the task */

    int channel; /* in a child process: where messages go; else -1 */
};

struct dz_work {
    dz_task task;
};

/* --- task.c --- */

/* NULL: none was registered under the name. */
dz_task_fn *dz_pool_find_task(const dz_pool *pool, const char *name);

/* The job of a task, on a worker. */
void dz_task_run(dz_job *job);

/* The last touch of whoever ends the task: a worker, or the one who took it back unbegun. */
void dz_task_complete(dz_task *task, int result);

/* Counts how a task ended. */
void dz_pool_count_result(dz_pool *pool, int result);

/* Any thread that knows the task is not done: makes it end with `error`. */
void dz_task_stop(dz_task *task, int error);

/* On the loop: a task that a worker took, and has not begun for want of a process, is not to begin
 * any more. */
void dz_task_expire(dz_task *task);

/* No lock held: stops every task. */
void dz_pool_cancel_tasks(dz_pool *pool);

/* --- message.c --- */

/* Adds a message; takes it over. On the worker. DZ_E_QUEUE_FULL: dropped. */
int dz_task_deliver(dz_task *task, dz_buf *message);

/* The first message, the caller's from here on; false: there is none. */
bool dz_task_take_message(dz_task *task, dz_buf *message);
bool dz_task_has_message(dz_task *task);

/* --- cancel.c --- */

/* From here on firing options.cancel reaches the task; before, it is only noted. */
void dz_task_attach_cancel(dz_task *task);
void dz_task_detach_cancel(dz_task *task);

/* On the loop: so does the going of the client. */
void dz_task_attach_fiber(dz_task *task);
void dz_task_detach_fiber(dz_task *task);

/* --- the part of a run that is a task's alone, on the worker --- */

/* Calls the function here. */
static inline int dz_task_call(dz_task *task)
{
    int result = task->fn(task, &task->in, &task->out);
    dz_buf_release(&task->in);
    return result;
}

#endif
