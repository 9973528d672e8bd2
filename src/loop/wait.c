#include "loop/turn.h"

#include <unistd.h>

/* What waits for a loop's thread: fibers that are ready, deferred calls, other threads' messages.
 */

void dz_fiber_ready(dz_fiber *fiber)
{
    if (fiber->dispatch) {
        fiber->dispatch(fiber);
        return;
    }
    dz_list_push(&fiber->loop->ready, &fiber->link);
    dz_loop_add_waiting(fiber->loop, 1);
}

void dz_defer(dz_loop *loop, dz_deferred *deferred)
{
    if (!dz_list_empty(&deferred->link))
        return;
    dz_list_push(&loop->deferred, &deferred->link);
    dz_loop_add_waiting(loop, 1);
}

void dz_defer_cancel(dz_loop *loop, dz_deferred *deferred)
{
    if (dz_list_empty(&deferred->link))
        return;
    dz_list_remove(&deferred->link);
    dz_loop_add_waiting(loop, -1);
}

void dz_loop_run_deferred(dz_loop *loop)
{
    for (dz_list *link; (link = dz_list_shift(&loop->deferred));) {
        dz_loop_add_waiting(loop, -1);
        dz_deferred *deferred = DZ_CONTAINER(link, dz_deferred, link);
        deferred->fn(loop, deferred);
    }
}

void dz_loop_post(dz_loop *loop, dz_msg *msg)
{
    /* From the push on the loop may run the message, end, and be freed: unless it knows of us. The
     * push releases this, and whoever takes the message sees it. */
    atomic_fetch_add_explicit(&loop->posting, 1, memory_order_relaxed);
    dz_inbox_push(&loop->inbox, msg);
    /* The owner sets `sleeping`, then looks at the inbox; we push, then look at `sleeping`. Both
     * sides are sequentially consistent, so at least one sees the other. */
    if (atomic_load(&loop->sleeping) && atomic_exchange(&loop->sleeping, false)) {
        uint64_t one = 1;
        ssize_t n = write(loop->wake_fd, &one, sizeof one);
        (void)n; /* EAGAIN only at 2^64 - 1, and then it is readable anyway */
    }
    atomic_fetch_sub_explicit(&loop->posting, 1, memory_order_release);
}

void dz_loop_run_inbox(dz_loop *loop)
{
    dz_msg *msg = dz_inbox_take(&loop->inbox);
    while (msg) {
        dz_msg *next = msg->next;
        msg->fn(loop, msg);
        msg = next;
    }
}
