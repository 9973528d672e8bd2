#include "loop/loop.h"

#include <donmaz/app.h>
#include <donmaz/error.h>

typedef struct sleeper {
    dz_timer timer;
    dz_fiber *fiber;
    uint64_t due;
    int result;
} sleeper;

static void wake(dz_loop *loop, dz_timer *timer)
{
    dz_timer_unreserve(loop);
    dz_fiber_ready(DZ_CONTAINER(timer, sleeper, timer)->fiber);
}

static void start(dz_loop *loop, dz_fiber *fiber)
{
    sleeper *it = fiber->after_arg;
    it->result = dz_timer_reserve(loop);
    if (it->result < 0) {
        dz_fiber_ready(fiber);
        return;
    }
    dz_timer_init(&it->timer, wake);
    dz_timer_start(loop, &it->timer, it->due);
}

int dz_sleep(uint64_t ms)
{
    sleeper it = {.fiber = dz_fiber_current()};
    if (!it.fiber)
        return DZ_E_STATE;
    uint64_t now = dz_now();
    it.due = ms > (UINT64_MAX - now) / DZ_MS ? UINT64_MAX : now + ms * DZ_MS;
    dz_fiber_park(start, &it);
    return it.result;
}
