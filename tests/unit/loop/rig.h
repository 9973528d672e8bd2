/* rig.h: a runtime to test with, and a way to run code on one of its loops. */
#ifndef DZ_TESTS_LOOP_RIG_H
#define DZ_TESTS_LOOP_RIG_H

#include "../check.h"
#include "../wait.h"
#include "loop/runtime.h"

#include <semaphore.h>

static inline dz_runtime *rig_new(dz_runtime_options options)
{
    int error = 0;
    if (options.stack_size == 0)
        options.stack_size = 64 << 10;
    dz_runtime *runtime = dz_runtime_new(&options, &error);
    assert_non_null(runtime);
    assert_int_equal(dz_runtime_start(runtime), 0);
    return runtime;
}

typedef struct rig_call {
    dz_msg msg;
    void (*fn)(dz_loop *loop, void *arg);
    void *arg;
    sem_t done;
} rig_call;

static inline void rig_on_call(dz_loop *loop, dz_msg *msg)
{
    rig_call *call = DZ_CONTAINER(msg, rig_call, msg);
    call->fn(loop, call->arg);
    sem_post(&call->done);
}

/* Runs fn(loop, arg) on the loop and waits until it has. */
static inline void rig_call_on(dz_loop *loop, void (*fn)(dz_loop *, void *), void *arg)
{
    rig_call call = {.msg.fn = rig_on_call, .fn = fn, .arg = arg};
    sem_init(&call.done, 0, 0);
    dz_loop_post(loop, &call.msg);
    while (sem_wait(&call.done) < 0)
        ;
    sem_destroy(&call.done);
}

static inline void rig_stop_loop(dz_loop *loop, void *arg)
{
    (void)arg;
    dz_loop_stop(loop);
}

/* Stops and frees; every thread must end. */
static inline void rig_free(dz_runtime *runtime)
{
    for (unsigned i = 0; i < runtime->options.loops; i++)
        rig_call_on(&runtime->loops[i], rig_stop_loop, NULL);
    assert_int_equal(dz_runtime_join(runtime, dz_now() + WAIT_SECONDS * DZ_SEC), 0);
    dz_runtime_free(runtime);
}

static inline void rig_done(dz_loop *loop, dz_fiber *fiber)
{
    (void)loop;
    _Atomic int *done = fiber->owner;
    dz_fiber_free(fiber);
    atomic_fetch_add(done, 1);
}

typedef struct rig_fiber {
    dz_fiber_fn *entry;
    _Atomic int done;
} rig_fiber;

static inline void rig_on_start(dz_loop *loop, void *arg)
{
    rig_fiber *it = arg;
    dz_fiber *fiber = dz_fiber_new(loop);
    assert_non_null(fiber);
    fiber->entry = it->entry;
    fiber->done = rig_done;
    fiber->owner = &it->done;
    dz_fiber_ready(fiber);
}

/* Runs entry on a fiber of the loop; it->done counts when it has returned. */
static inline void rig_start(dz_loop *loop, rig_fiber *it, dz_fiber_fn *entry)
{
    it->entry = entry;
    rig_call_on(loop, rig_on_start, it);
}

#endif
