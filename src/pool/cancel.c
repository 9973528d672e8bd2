#include "pool/task.h"

#include <stdlib.h>

/* Who may end a task before its time: a dz_cancel, and the client whose request asked for it. */

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

void dz_task_attach_cancel(dz_task *task)
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

void dz_task_detach_cancel(dz_task *task)
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

void dz_task_attach_fiber(dz_task *task)
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

void dz_task_detach_fiber(dz_task *task)
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
