#include "loop/loop.h"

#include <donmaz/error.h>

typedef struct sleeper { /* on the sleeping fiber's stack */
    dz_list link;
    dz_timer timer;
    dz_fiber *fiber;
    uint64_t due;
    int result;
} sleeper;

static void wake(dz_loop *loop, sleeper *it)
{
    dz_list_remove(&it->link);
    dz_timer_unreserve(loop);
    dz_fiber_ready(it->fiber);
}

static void on_due(dz_loop *loop, dz_timer *timer)
{
    wake(loop, DZ_CONTAINER(timer, sleeper, timer));
}

static void start(dz_loop *loop, dz_fiber *fiber)
{
    sleeper *it = fiber->after_arg;
    it->result = loop->cut ? DZ_E_SHUTDOWN : dz_timer_reserve(loop);
    if (it->result < 0) {
        dz_fiber_ready(fiber);
        return;
    }
    dz_list_push(&loop->sleepers, &it->link);
    dz_timer_init(&it->timer, on_due);
    dz_timer_start(loop, &it->timer, it->due);
}

int dz_fiber_sleep(uint64_t due)
{
    sleeper it = {.fiber = dz_fiber_current(), .due = due};
    dz_list_init(&it.link);
    dz_fiber_park(start, &it);
    return it.result;
}

void dz_loop_wake_sleepers(dz_loop *loop)
{
    loop->cut = true;
    while (!dz_list_empty(&loop->sleepers)) {
        sleeper *it = DZ_CONTAINER(loop->sleepers.next, sleeper, link);
        it->result = DZ_E_SHUTDOWN;
        dz_timer_stop(loop, &it->timer);
        wake(loop, it);
    }
}
