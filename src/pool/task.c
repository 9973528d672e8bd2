#include "pool/pool.h"

#include <stdlib.h>
#include <string.h>

/* A task lies on the stack of the fiber that waits for it. */
struct dz_task {
    dz_job job;
    dz_pool *pool;
    dz_task_fn *fn;
    dz_buf in, out;
    int result;
    dz_fiber *fiber;
    dz_msg done;
    _Atomic bool cancelled;
};

int dz_pool_add_task(dz_pool *pool, const char *name, dz_task_fn *fn)
{
    for (size_t i = 0; i < pool->task_count; i++)
        if (strcmp(pool->tasks[i].name, name) == 0)
            return DZ_E_EXISTS;
    dz_pool_task *tasks = realloc(pool->tasks, (pool->task_count + 1) * sizeof *tasks);
    if (!tasks)
        return DZ_E_NOMEM;
    pool->tasks = tasks;
    tasks[pool->task_count++] = (dz_pool_task){name, fn};
    return 0;
}

bool dz_task_cancelled(const dz_task *task)
{
    return atomic_load_explicit(&task->cancelled, memory_order_relaxed);
}

/* On the loop. */
static void on_done(dz_loop *loop, dz_msg *msg)
{
    (void)loop;
    dz_fiber_ready(DZ_CONTAINER(msg, dz_task, done)->fiber);
}

/* On the worker. */
static void run_task(dz_job *job)
{
    dz_task *task = DZ_CONTAINER(job, dz_task, job);
    task->result = task->fn(task, &task->in, &task->out);
    dz_buf_release(&task->in);
    dz_loop_post(task->fiber->loop, &task->done);
}

/* On the loop, with the handler parked: from here on the worker may finish at any moment. */
static void submit(dz_loop *loop, dz_fiber *fiber)
{
    (void)loop;
    dz_task *task = fiber->after_arg;
    int rc = dz_pool_submit(task->pool, &task->job);
    if (rc == 0)
        return;
    task->result = rc;
    dz_fiber_ready(fiber);
}

static dz_task_fn *find(const dz_pool *pool, const char *name)
{
    for (size_t i = 0; i < pool->task_count; i++)
        if (strcmp(pool->tasks[i].name, name) == 0)
            return pool->tasks[i].fn;
    return NULL;
}

int dz_pool_run(dz_pool *pool, const char *name, dz_buf *in, dz_buf *out)
{
    if (out)
        *out = (dz_buf){0};
    dz_fiber *fiber = dz_fiber_current();
    if (!fiber)
        return DZ_E_STATE;
    dz_task task = {.job.run = run_task, .pool = pool, .fiber = fiber, .done.fn = on_done};
    task.fn = find(pool, name);
    if (!task.fn)
        return DZ_E_NOT_FOUND;
    int rc;
    if (in && (in->block || in->data) && (rc = dz_buf_transfer(&task.in, in)) < 0)
        return rc;
    dz_fiber_park(submit, &task);
    dz_buf_release(&task.in);
    if (out)
        *out = task.out;
    else
        dz_buf_release(&task.out);
    return task.result;
}
