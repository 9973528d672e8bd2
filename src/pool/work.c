#include "pool/task.h"

#include <stdlib.h>

/* A task as its owner sees it: what happens on the loop, and what the handler calls. */

enum { MESSAGES = 64 };

/* --- on the loop --- */

/* Starts the timer for whichever limit is next. */
static void arm(dz_loop *loop, dz_task *task)
{
    uint64_t limit = task->options.run_limit_ns, due = UINT64_MAX;
    uint64_t started = atomic_load(&task->started);
    if (limit > 0)
        due = (started ? started : loop->now) + limit;
    if (!started && task->queue_until < due)
        due = task->queue_until;
    if (due != UINT64_MAX)
        dz_timer_start(loop, &task->timer, due);
}

static void on_timer(dz_loop *loop, dz_timer *timer)
{
    dz_task *task = DZ_CONTAINER(timer, dz_task, timer);
    uint64_t started = atomic_load(&task->started), limit = task->options.run_limit_ns;
    if (!started && loop->now >= task->queue_until) {
        if (dz_pool_withdraw(task->pool, &task->job)) {
            dz_task_complete(task, DZ_E_EXPIRED);
            return;
        }
        dz_task_expire(task); /* unless the worker that took it has just begun it */
        task->queue_until = UINT64_MAX;
    }
    if (started && limit > 0 && loop->now >= started + limit)
        dz_task_stop(task, DZ_E_TIMEOUT);
    else
        arm(loop, task);
}

static void finish(dz_loop *loop, dz_task *task)
{
    if (task->has_timer) {
        dz_timer_stop(loop, &task->timer);
        dz_timer_unreserve(loop);
    }
    dz_task_detach_cancel(task);
    dz_task_detach_fiber(task);
    task->finished = true;
    /* The pool may be gone once the last of its tasks is off the list: see dz_pool_close. */
    dz_pool *pool = task->pool;
    pthread_mutex_lock(&pool->tasks_lock);
    dz_list_remove(&task->all);
    if (dz_list_empty(&pool->tasks))
        pthread_cond_broadcast(&pool->tasks_done);
    pthread_mutex_unlock(&pool->tasks_lock);
}

/* Lets the owner go on, with the news whether there is nothing more to come. */
static void wake_owner(dz_task *task)
{
    task->at_end = task->finished && !dz_task_has_message(task);
    task->waiting = DZ_WAITS_NOT;
    dz_fiber_ready(task->fiber);
}

static void on_done(dz_loop *loop, dz_msg *msg)
{
    dz_task *task = DZ_CONTAINER(msg, dz_task, done);
    finish(loop, task);
    if (task->waiting != DZ_WAITS_NOT)
        wake_owner(task);
}

static void on_wake(dz_loop *loop, dz_msg *msg)
{
    (void)loop;
    dz_task *task = DZ_CONTAINER(msg, dz_task, wake);
    pthread_mutex_lock(&task->lock);
    task->wake_pending = false;
    pthread_mutex_unlock(&task->lock);
    if (task->waiting == DZ_WAITS_NEXT)
        wake_owner(task);
}

/* With the handler parked: hands the task to a worker, who may finish it at any moment. */
static int begin(dz_loop *loop, dz_task *task)
{
    dz_pool *pool = task->pool;
    task->has_timer = task->options.run_limit_ns > 0 || task->queue_until != UINT64_MAX;
    if (task->has_timer && dz_timer_reserve(loop) < 0) {
        task->has_timer = false;
        return DZ_E_NOMEM;
    }
    if (task->has_timer)
        arm(loop, task);
    dz_task_attach_fiber(task);
    pthread_mutex_lock(&pool->tasks_lock);
    dz_list_push(&pool->tasks, &task->all);
    pthread_mutex_unlock(&pool->tasks_lock);
    int rc = atomic_load(&task->stop);
    if (rc < 0)
        dz_pool_count_result(pool, rc); /* nobody waits for it any more */
    else
        rc = dz_pool_submit_with(pool, &task->job, task->options.priority);
    if (rc < 0) {
        finish(loop, task);
        return rc;
    }
    dz_task_attach_cancel(task);
    if (task->options.cancel && atomic_load(&task->stop))
        dz_task_stop(task, DZ_E_CANCELLED);
    return 0;
}

/* dz_pool_start, when the loop is not this thread's */
static void begin_and_go_on(dz_loop *loop, dz_fiber *fiber)
{
    dz_task *task = fiber->after_arg;
    task->refused = begin(loop, task); /* `result` may be the worker's by now */
    dz_fiber_ready(fiber);
}

/* dz_pool_run */
static void begin_and_wait(dz_loop *loop, dz_fiber *fiber)
{
    dz_task *task = fiber->after_arg;
    task->waiting = DZ_WAITS_DONE;
    int rc = begin(loop, task);
    if (rc == 0)
        return;
    task->result = rc;
    wake_owner(task);
}

static void wait_for_done(dz_loop *loop, dz_fiber *fiber)
{
    (void)loop;
    dz_task *task = fiber->after_arg;
    task->waiting = DZ_WAITS_DONE;
    if (task->finished)
        wake_owner(task);
}

static void wait_for_next(dz_loop *loop, dz_fiber *fiber)
{
    (void)loop;
    dz_task *task = fiber->after_arg;
    task->waiting = DZ_WAITS_NEXT;
    if (task->finished || dz_task_has_message(task))
        wake_owner(task);
}

/* --- in the handler --- */

static int init_task(dz_task *task, dz_pool *pool, const char *name, const dz_work_options *options)
{
    *task = (dz_task){.job.run = dz_task_run, .pool = pool, .pidfd = -1, .channel = -1};
    task->done.fn = on_done;
    task->wake.fn = on_wake;
    task->fiber = dz_fiber_current();
    if (!task->fiber)
        return DZ_E_STATE;
    task->fn = dz_pool_find_task(pool, name);
    if (!task->fn)
        return DZ_E_NOT_FOUND;
    if (options)
        task->options = *options;
    if ((unsigned)task->options.priority >= DZ_PRIORITIES)
        return DZ_E_INVALID;
    if (task->options.max_messages == 0)
        task->options.max_messages = MESSAGES;
    if (task->options.run_limit_ns == 0)
        task->options.run_limit_ns = pool->options.run_limit_ns;
    uint64_t wait = task->options.queue_timeout_ns;
    if (wait == 0)
        wait = pool->options.queue_timeout_ns;
    task->queue_until = wait > 0 ? dz_now() + wait : UINT64_MAX;
    dz_timer_init(&task->timer, on_timer);
    dz_list_init(&task->job.link);
    dz_list_init(&task->all);
    dz_list_init(&task->cancel_link);
    dz_list_init(&task->messages);
    return 0;
}

static int take_input(dz_task *task, dz_buf *in)
{
    return in && (in->block || in->data) ? dz_buf_transfer(&task->in, in) : 0;
}

static int end_task(dz_task *task, dz_buf *out)
{
    dz_buf_release(&task->in);
    /* Nobody else has it any more, so a look needs no lock. */
    for (dz_buf message; !dz_list_empty(&task->messages) && dz_task_take_message(task, &message);)
        dz_buf_release(&message);
    pthread_mutex_destroy(&task->lock);
    if (out)
        *out = task->out;
    else
        dz_buf_release(&task->out);
    return task->result;
}

int dz_pool_run(dz_pool *pool, const char *name, dz_buf *in, dz_buf *out)
{
    if (out)
        *out = (dz_buf){0};
    dz_task task;
    int rc = init_task(&task, pool, name, NULL);
    if (rc == 0)
        rc = take_input(&task, in);
    if (rc < 0)
        return rc;
    pthread_mutex_init(&task.lock, NULL);
    dz_fiber_park(begin_and_wait, &task);
    return end_task(&task, out);
}

int dz_pool_start(dz_pool *pool, const char *name, dz_buf *in, const dz_work_options *options,
                  dz_work **run)
{
    *run = NULL;
    dz_work *made = malloc(sizeof *made);
    if (!made)
        return DZ_E_NOMEM;
    dz_task *task = &made->task;
    int rc = init_task(task, pool, name, options);
    if (rc == 0)
        rc = take_input(task, in);
    if (rc < 0) {
        free(made);
        return rc;
    }
    pthread_mutex_init(&task->lock, NULL);
    dz_loop *loop = task->fiber->loop;
    if (dz_loop_pin(loop)) {
        task->refused = begin(loop, task);
        dz_loop_unpin(loop);
    } else {
        dz_fiber_park(begin_and_go_on, task);
    }
    rc = task->refused;
    if (rc == 0) {
        *run = made;
        return 0;
    }
    if (task->in.block && in)
        (void)dz_buf_transfer(in, &task->in); /* ours whole, so it can't be refused */
    end_task(task, NULL);
    free(made);
    return rc;
}

int dz_work_next(dz_work *run, dz_buf *message)
{
    dz_task *task = &run->task;
    *message = (dz_buf){0};
    if (task->fiber != dz_fiber_current())
        return DZ_E_STATE;
    while (!dz_task_take_message(task, message)) {
        dz_fiber_park(wait_for_next, task);
        if (task->at_end)
            return 0;
    }
    return 1;
}

/* False also when the loop, which knows, is not this thread's. */
static bool is_finished(const dz_task *task)
{
    dz_loop *loop = task->fiber->loop;
    if (!dz_loop_pin(loop))
        return false;
    bool finished = task->finished;
    dz_loop_unpin(loop);
    return finished;
}

void dz_work_cancel(dz_work *run)
{
    if (!is_finished(&run->task)) /* or the pool may be gone */
        dz_task_stop(&run->task, DZ_E_CANCELLED);
}

int dz_work_finish(dz_work *run, dz_buf *out)
{
    if (out)
        *out = (dz_buf){0};
    if (run->task.fiber != dz_fiber_current())
        return DZ_E_STATE;
    if (!is_finished(&run->task))
        dz_fiber_park(wait_for_done, &run->task);
    int rc = end_task(&run->task, out);
    free(run);
    return rc;
}
