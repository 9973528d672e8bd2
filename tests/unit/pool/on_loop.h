/* on_loop.h: runs functions as handlers of a real loop, without HTTP. */
#ifndef DZ_TESTS_ON_LOOP_H
#define DZ_TESTS_ON_LOOP_H

#include "../check.h"

#include "base/clock.h"
#include "loop/runtime.h"

#include <pthread.h>
#include <time.h>

typedef struct handler {
    void (*fn)(void *arg);
    void *arg;
    _Atomic bool gone; /* the client has gone */
    dz_msg start, leave;
    dz_fiber *fiber;
    _Atomic bool done;
} handler;

static dz_runtime *runtime;

static void start_loop(void)
{
    int error = 0;
    const dz_runtime_options options = {.loops = 1, .stack_size = 256 << 10};
    runtime = dz_runtime_new(&options, &error);
    assert_non_null(runtime);
    assert_int_equal(dz_runtime_start(runtime), 0);
}

static void stop_on_loop(dz_loop *loop, dz_msg *msg)
{
    (void)msg;
    dz_loop_stop(loop);
}

static void stop_loop(void)
{
    dz_msg msg = {.fn = stop_on_loop};
    dz_loop_post(&runtime->loops[0], &msg);
    assert_int_equal(dz_runtime_join(runtime, dz_now() + 60 * DZ_SEC), 0);
    dz_runtime_free(runtime);
    runtime = NULL;
}

static void run_handler(dz_fiber *fiber)
{
    handler *self = fiber->owner;
    self->fn(self->arg);
}

static void handler_done(dz_loop *loop, dz_fiber *fiber)
{
    (void)loop;
    handler *self = fiber->owner;
    dz_fiber_free(fiber);
    self->fiber = NULL;
    atomic_store(&self->done, true);
}

static void handler_start(dz_loop *loop, dz_msg *msg)
{
    handler *self = DZ_CONTAINER(msg, handler, start);
    self->fiber = dz_fiber_new(loop);
    if (!self->fiber)
        abort();
    self->fiber->entry = run_handler;
    self->fiber->done = handler_done;
    self->fiber->owner = self;
    self->fiber->gone = &self->gone;
    self->fiber->label = "test";
    dz_fiber_ready(self->fiber);
}

static void begin_handler(handler *self, void (*fn)(void *arg), void *arg)
{
    *self = (handler){.fn = fn, .arg = arg, .start.fn = handler_start};
    dz_loop_post(&runtime->loops[0], &self->start);
}

static void handler_leave(dz_loop *loop, dz_msg *msg)
{
    (void)loop;
    handler *self = DZ_CONTAINER(msg, handler, leave);
    atomic_store(&self->gone, true);
    if (self->fiber && self->fiber->abandoned)
        self->fiber->abandoned(self->fiber);
}

/* The client goes away. */
static inline void leave_handler(handler *self)
{
    self->leave.fn = handler_leave;
    dz_loop_post(&runtime->loops[0], &self->leave);
}

/* Polls until the condition holds; the deadline only ends a test that hangs. */
#define wait_until(condition)                                                                      \
    do {                                                                                           \
        uint64_t until_ = dz_now() + 60 * DZ_SEC;                                                  \
        while (!(condition)) {                                                                     \
            if (dz_now() > until_)                                                                 \
                fail_msg("never came true: %s", #condition);                                       \
            nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);                                \
        }                                                                                          \
    } while (0)

static inline void run_handler_to_end(void (*fn)(void *arg), void *arg)
{
    static handler self;
    begin_handler(&self, fn, arg);
    wait_until(atomic_load(&self.done));
}

#endif
