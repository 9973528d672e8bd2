#include "loop/turn.h"

/* Timers of a loop: a heap, the first one due published for the watchdog. */

static void publish_next_due(dz_loop *loop)
{
    dz_heap_node *first = dz_heap_min(&loop->timers);
    atomic_store_explicit(&loop->next_due, first ? first->key : UINT64_MAX, memory_order_relaxed);
}

int dz_timer_reserve(dz_loop *loop)
{
    int rc = dz_heap_reserve(&loop->timers, loop->timers_reserved + 1);
    if (rc == 0)
        loop->timers_reserved++;
    return rc;
}

void dz_timer_unreserve(dz_loop *loop)
{
    loop->timers_reserved--;
}

void dz_timer_start(dz_loop *loop, dz_timer *timer, uint64_t due)
{
    if (dz_heap_has(&timer->node))
        dz_heap_move(&loop->timers, &timer->node, due);
    else
        (void)dz_heap_insert(&loop->timers, &timer->node, due); /* reserved: cannot fail */
    publish_next_due(loop);
}

void dz_timer_stop(dz_loop *loop, dz_timer *timer)
{
    dz_heap_remove(&loop->timers, &timer->node);
    publish_next_due(loop);
}

void dz_loop_run_timers(dz_loop *loop)
{
    dz_heap_node *first;
    while ((first = dz_heap_min(&loop->timers)) && first->key <= loop->now) {
        dz_histogram_put(loop->stats.lag, loop->now - first->key);
        dz_timer *timer = DZ_CONTAINER(first, dz_timer, node);
        dz_heap_remove(&loop->timers, first);
        timer->fn(loop, timer);
    }
    publish_next_due(loop);
}
