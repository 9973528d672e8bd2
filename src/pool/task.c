#include "pool/task.h"

#include "pool/process.h"

#include <stdlib.h>
#include <string.h>

enum { MESSAGE_MAX = 32 << 10, MESSAGES = 64 };

typedef struct dz_message {
    dz_list link;
    dz_buf bytes;
} dz_message;

int dz_pool_add_task(dz_pool *pool, const char *name, dz_task_fn *fn)
{
    for (size_t i = 0; i < pool->registered_count; i++)
        if (strcmp(pool->registered[i].name, name) == 0)
            return DZ_E_EXISTS;
    dz_pool_task *tasks =
        realloc(pool->registered, (pool->registered_count + 1) * sizeof(dz_pool_task));
    if (!tasks)
        return DZ_E_NOMEM;
    pool->registered = tasks;
    tasks[pool->registered_count++] = (dz_pool_task){name, fn};
    return 0;
}

static dz_task_fn *find(const dz_pool *pool, const char *name)
{
    for (size_t i = 0; i < pool->registered_count; i++)
        if (strcmp(pool->registered[i].name, name) == 0)
            return pool->registered[i].fn;
    return NULL;
}

bool dz_task_cancelled(const dz_task *task)
{
    return atomic_load_explicit(&task->stop, memory_order_relaxed) != 0;
}

/* --- on the worker --- */

static void count_result(dz_pool *pool, int result)
{
    _Atomic uint64_t *counter = &pool->failed;
    if (result >= 0)
        counter = &pool->completed;
    else if (result == DZ_E_CANCELLED)
        counter = &pool->cancelled;
    else if (result == DZ_E_TIMEOUT)
        counter = &pool->timed_out;
    else if (result == DZ_E_CRASHED)
        counter = &pool->crashed;
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* The last touch of whoever ends the task: a worker, or the one who took it back unbegun. */
static void complete(dz_task *task, int result)
{
    task->result = result;
    count_result(task->pool, result);
    dz_loop_post(task->fiber->loop, &task->done);
}

static int run_here(dz_task *task)
{
    atomic_store(&task->started, dz_now());
    return dz_task_call(task);
}

static void run_task(dz_job *job)
{
    dz_task *task = DZ_CONTAINER(job, dz_task, job);
    int result = atomic_load(&task->stop);
    if (result == 0) {
        result = task->pool->zygote ? dz_child_run(task) : run_here(task);
        int stop = atomic_load(&task->stop);
        if (result < 0 && stop != 0)
            result = stop;
    }
    complete(task, result);
}

/* Makes a running task end; a process is killed while it is certain to be this task's. */
static void set_stop(dz_task *task, int error)
{
    int none = 0;
    atomic_compare_exchange_strong(&task->stop, &none, error);
    if (!task->pool->zygote)
        return;
    pthread_mutex_lock(&task->lock);
    if (task->pidfd >= 0)
        dz_child_kill(task->pidfd);
    task->killed |= task->pidfd >= 0;
    pthread_mutex_unlock(&task->lock);
}

void dz_task_stop(dz_task *task, int error)
{
    set_stop(task, error);
    if (dz_pool_withdraw(task->pool, &task->job))
        complete(task, error);
}

void dz_pool_cancel_tasks(dz_pool *pool)
{
    dz_list withdrawn;
    dz_list_init(&withdrawn);
    pthread_mutex_lock(&pool->lock);
    for (dz_list *link = pool->tasks.next; link != &pool->tasks; link = link->next) {
        dz_task *task = DZ_CONTAINER(link, dz_task, all);
        set_stop(task, DZ_E_CANCELLED);
        if (dz_list_empty(&task->job.link))
            continue;
        dz_list_remove(&task->job.link);
        dz_pool_left_queue(pool);
        dz_list_push(&withdrawn, &task->job.link);
    }
    dz_pool_unlock(pool);
    for (dz_list *link; (link = dz_list_shift(&withdrawn));)
        complete(DZ_CONTAINER(DZ_CONTAINER(link, dz_job, link), dz_task, job), DZ_E_CANCELLED);
}

/* --- messages --- */

static dz_message *shift_message(dz_task *task)
{
    dz_list *link = dz_list_shift(&task->messages);
    if (!link)
        return NULL;
    task->message_count--;
    return DZ_CONTAINER(link, dz_message, link);
}

static void drop_message(dz_message *message)
{
    if (message)
        dz_buf_release(&message->bytes);
    free(message);
}

int dz_task_deliver(dz_task *task, dz_buf *bytes)
{
    dz_message *message = malloc(sizeof *message), *dropped = NULL;
    if (!message)
        return DZ_E_NOMEM;
    message->bytes = *bytes;
    *bytes = (dz_buf){0};
    pthread_mutex_lock(&task->lock);
    bool full = task->message_count >= task->options.max_messages;
    if (full)
        dropped = task->options.coalesce ? shift_message(task) : message;
    bool wake = dropped != message && !task->wake_pending;
    if (dropped != message) {
        dz_list_push(&task->messages, &message->link);
        task->message_count++;
        task->wake_pending = true;
    }
    pthread_mutex_unlock(&task->lock);
    if (wake)
        dz_loop_post(task->fiber->loop, &task->wake);
    int rc = dropped == message ? DZ_E_QUEUE_FULL : 0;
    drop_message(dropped);
    return rc;
}

int dz_task_post(dz_task *task, dz_slice message)
{
    if (message.len > MESSAGE_MAX)
        return DZ_E_TOO_LARGE;
    if (task->channel >= 0)
        return dz_child_post(task, message);
    dz_buf copy;
    int rc = dz_buf_copy(&copy, message);
    if (rc == 0)
        rc = dz_task_deliver(task, &copy);
    dz_buf_release(&copy);
    return rc;
}

/* --- cancelling --- */

struct dz_cancel {
    pthread_mutex_t lock;
    dz_list tasks;
    bool fired;
};

dz_cancel *dz_cancel_new(void)
{
    dz_cancel *cancel = calloc(1, sizeof *cancel);
    if (!cancel)
        return NULL;
    pthread_mutex_init(&cancel->lock, NULL);
    dz_list_init(&cancel->tasks);
    return cancel;
}

void dz_cancel_fire(dz_cancel *cancel)
{
    pthread_mutex_lock(&cancel->lock);
    cancel->fired = true;
    for (dz_list *link = cancel->tasks.next; link != &cancel->tasks; link = link->next)
        dz_task_stop(DZ_CONTAINER(link, dz_task, cancel_link), DZ_E_CANCELLED);
    pthread_mutex_unlock(&cancel->lock);
}

void dz_cancel_free(dz_cancel *cancel)
{
    if (!cancel)
        return;
    pthread_mutex_destroy(&cancel->lock);
    free(cancel);
}

/* From here on firing reaches the task; before, it is only noted. */
static void attach_cancel(dz_task *task)
{
    dz_cancel *cancel = task->options.cancel;
    if (!cancel)
        return;
    pthread_mutex_lock(&cancel->lock);
    dz_list_push(&cancel->tasks, &task->cancel_link);
    if (cancel->fired)
        atomic_store(&task->stop, DZ_E_CANCELLED);
    pthread_mutex_unlock(&cancel->lock);
}

static void detach_cancel(dz_task *task)
{
    dz_cancel *cancel = task->options.cancel;
    if (!cancel)
        return;
    pthread_mutex_lock(&cancel->lock);
    dz_list_remove(&task->cancel_link);
    pthread_mutex_unlock(&cancel->lock);
}

/* On the loop: the client has gone. */
static void on_abandoned(dz_fiber *fiber)
{
    for (dz_task *task = fiber->abandoned_arg; task; task = task->next_of_fiber)
        dz_task_stop(task, DZ_E_CANCELLED);
}

static void attach_fiber(dz_task *task)
{
    dz_fiber *fiber = task->fiber;
    dz_task *head = fiber->abandoned_arg;
    task->next_of_fiber = head;
    task->prev_of_fiber = NULL;
    if (head)
        head->prev_of_fiber = task;
    fiber->abandoned_arg = task;
    fiber->abandoned = on_abandoned;
    if (fiber->gone && atomic_load(fiber->gone))
        atomic_store(&task->stop, DZ_E_CANCELLED);
}

static void detach_fiber(dz_task *task)
{
    dz_fiber *fiber = task->fiber;
    dz_task *next = task->next_of_fiber, *prev = task->prev_of_fiber;
    if (next)
        next->prev_of_fiber = prev;
    if (prev)
        prev->next_of_fiber = next;
    else
        fiber->abandoned_arg = next;
    if (!fiber->abandoned_arg)
        fiber->abandoned = NULL;
}

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
            complete(task, DZ_E_TIMEOUT);
            return;
        }
        task->queue_until = UINT64_MAX; /* a worker has just taken it */
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
    detach_cancel(task);
    detach_fiber(task);
    task->finished = true;
    /* The pool may be gone once the last of its tasks is off the list: see dz_pool_close. */
    dz_pool *pool = task->pool;
    pthread_mutex_lock(&pool->lock);
    dz_list_remove(&task->all);
    if (dz_list_empty(&pool->tasks))
        pthread_cond_broadcast(&pool->ended);
    pthread_mutex_unlock(&pool->lock);
}

/* Lets the owner go on, with the news whether there is nothing more to come. */
static void wake_owner(dz_task *task)
{
    pthread_mutex_lock(&task->lock);
    task->at_end = task->finished && dz_list_empty(&task->messages);
    pthread_mutex_unlock(&task->lock);
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
    attach_fiber(task);
    int rc = atomic_load(&task->stop);
    if (rc < 0)
        count_result(pool, rc); /* nobody waits for it any more */
    else
        rc = dz_pool_submit_task(pool, task);
    if (rc < 0) {
        finish(loop, task);
        return rc;
    }
    attach_cancel(task);
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
    pthread_mutex_lock(&task->lock);
    bool ready = task->finished || !dz_list_empty(&task->messages);
    pthread_mutex_unlock(&task->lock);
    task->waiting = DZ_WAITS_NEXT;
    if (ready)
        wake_owner(task);
}

/* --- in the handler --- */

static int init_task(dz_task *task, dz_pool *pool, const char *name, const dz_work_options *options)
{
    *task = (dz_task){.job.run = run_task, .pool = pool, .pidfd = -1, .channel = -1};
    task->done.fn = on_done;
    task->wake.fn = on_wake;
    task->fiber = dz_fiber_current();
    if (!task->fiber)
        return DZ_E_STATE;
    task->fn = find(pool, name);
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
    for (dz_list *link = task->messages.next, *next; link != &task->messages; link = next) {
        next = link->next;
        drop_message(DZ_CONTAINER(link, dz_message, link));
    }
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
    for (;;) {
        pthread_mutex_lock(&task->lock);
        dz_message *first = shift_message(task);
        pthread_mutex_unlock(&task->lock);
        if (first) {
            *message = first->bytes;
            free(first);
            return 1;
        }
        dz_fiber_park(wait_for_next, task);
        if (task->at_end)
            return 0;
    }
}

void dz_work_cancel(dz_work *run)
{
    dz_task_stop(&run->task, DZ_E_CANCELLED);
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

int dz_work_finish(dz_work *run, dz_buf *out)
{
    if (out)
        *out = (dz_buf){0};
    if (!is_finished(&run->task))
        dz_fiber_park(wait_for_done, &run->task);
    int rc = end_task(&run->task, out);
    free(run);
    return rc;
}
