#include "pool/process.h"

#include <stdlib.h>
#include <string.h>

/* A task as its worker sees it, and how others make it end. */

int dz_pool_add_task(dz_pool *pool, const char *name, dz_task_fn *fn)
{
    if (!pool || !name || !fn)
        return DZ_E_INVALID;
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

dz_task_fn *dz_pool_find_task(const dz_pool *pool, const char *name)
{
    for (size_t i = 0; name && i < pool->registered_count; i++)
        if (strcmp(pool->registered[i].name, name) == 0)
            return pool->registered[i].fn;
    return NULL;
}

bool dz_task_cancelled(const dz_task *task)
{
    return atomic_load_explicit(&task->stop, memory_order_relaxed) != 0;
}

/* --- on the worker --- */

void dz_pool_count_result(dz_pool *pool, int result)
{
    _Atomic uint64_t *counter = &pool->failed;
    if (result >= 0)
        counter = &pool->completed;
    else if (result == DZ_E_CANCELLED)
        counter = &pool->cancelled;
    else if (result == DZ_E_TIMEOUT)
        counter = &pool->timed_out;
    else if (result == DZ_E_EXPIRED)
        counter = &pool->expired;
    else if (result == DZ_E_CRASHED)
        counter = &pool->crashed;
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

void dz_task_complete(dz_task *task, int result)
{
    task->result = result;
    dz_pool_count_result(task->pool, result);
    dz_loop_post(task->fiber->loop, &task->done);
}

static int run_here(dz_task *task)
{
    atomic_store(&task->started, dz_now());
    return dz_task_call(task);
}

void dz_task_run(dz_job *job)
{
    dz_task *task = DZ_CONTAINER(job, dz_task, job);
    int result = atomic_load(&task->stop);
    if (result == 0) {
        result = task->pool->zygote ? dz_child_run(task) : run_here(task);
        int stop = atomic_load(&task->stop);
        if (result < 0 && stop != 0)
            result = stop;
    }
    dz_task_complete(task, result);
}

/* --- ending it --- */

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
        dz_task_complete(task, error);
}

void dz_task_expire(dz_task *task)
{
    int none = 0;
    if (!task->pool->zygote)
        return;                      /* a thread that took a task has begun it */
    pthread_mutex_lock(&task->lock); /* against dz_child_run, which looks at `stop` last under it */
    if (atomic_load(&task->started) == 0)
        atomic_compare_exchange_strong(&task->stop, &none, DZ_E_EXPIRED);
    pthread_mutex_unlock(&task->lock);
}

void dz_pool_cancel_tasks(dz_pool *pool)
{
    /* A task leaves the list on its loop, and not while the lock is held. */
    pthread_mutex_lock(&pool->tasks_lock);
    /* Those that wait first, or a worker whose task was stopped would begin one of them. */
    for (dz_list *link = pool->tasks.next; link != &pool->tasks; link = link->next) {
        dz_task *task = DZ_CONTAINER(link, dz_task, all);
        if (dz_pool_withdraw(pool, &task->job))
            dz_task_complete(task, DZ_E_CANCELLED);
    }
    for (dz_list *link = pool->tasks.next; link != &pool->tasks; link = link->next)
        dz_task_stop(DZ_CONTAINER(link, dz_task, all), DZ_E_CANCELLED);
    pthread_mutex_unlock(&pool->tasks_lock);
}
