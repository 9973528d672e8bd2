#include "pool/process.h"

#include <stdlib.h>

/* What a running task tells its owner. */

typedef struct dz_message {
    dz_list link;
    dz_buf bytes;
} dz_message;

/* With task->lock held. */
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

bool dz_task_take_message(dz_task *task, dz_buf *message)
{
    pthread_mutex_lock(&task->lock);
    dz_message *first = shift_message(task);
    pthread_mutex_unlock(&task->lock);
    if (!first)
        return false;
    *message = first->bytes;
    free(first);
    return true;
}

bool dz_task_has_message(dz_task *task)
{
    pthread_mutex_lock(&task->lock);
    bool has = !dz_list_empty(&task->messages);
    pthread_mutex_unlock(&task->lock);
    return has;
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
    if (message.len > DZ_PACKET_INLINE)
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
