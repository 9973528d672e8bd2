/* harness.h: runs code in handlers' place: on fibers of a loop of its own. */
#ifndef DZ_TESTS_REDIS_HARNESS_H
#define DZ_TESTS_REDIS_HARNESS_H

#include "base/clock.h"
#include "loop/runtime.h"

#include <pthread.h>

enum { HARNESS_PATIENCE_S = 240 };

static dz_runtime *harness;
static bool harness_joined;

typedef struct harness_job {
    dz_msg msg;
    void (*fn)(void *arg);
    void *arg;
    pthread_mutex_t *lock;
    pthread_cond_t *ended;
    size_t *left;
} harness_job;

static inline void harness_entry(dz_fiber *fiber)
{
    harness_job *job = fiber->owner;
    job->fn(job->arg);
}

static inline void harness_done(dz_loop *loop, dz_fiber *fiber)
{
    (void)loop;
    harness_job *job = fiber->owner;
    dz_fiber_free(fiber);
    pthread_mutex_lock(job->lock);
    --*job->left;
    pthread_cond_signal(job->ended);
    pthread_mutex_unlock(job->lock);
}

static inline void harness_begin(dz_loop *loop, dz_msg *msg)
{
    harness_job *job = DZ_CONTAINER(msg, harness_job, msg);
    dz_fiber *fiber = dz_fiber_new(loop);
    if (!fiber)
        abort();
    fiber->entry = harness_entry;
    fiber->done = harness_done;
    fiber->owner = job;
    fiber->label = "test";
    dz_fiber_ready(fiber);
}

/* Several kinds of work at once; each fn is called with 1, 2, 3, ... */
typedef struct harness_work {
    void (*fn)(void *arg);
    size_t count;
} harness_work;

static inline void harness_wait(pthread_mutex_t *lock, pthread_cond_t *ended, const size_t *left)
{
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += HARNESS_PATIENCE_S;
    pthread_mutex_lock(lock);
    while (*left > 0)
        if (pthread_cond_timedwait(ended, lock, &limit) != 0)
            fail_msg("%zu handlers never came back", *left);
    pthread_mutex_unlock(lock);
}

static inline void on_fibers_of(const harness_work *work, size_t kinds)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
    size_t left = 0, at = 0;
    for (size_t i = 0; i < kinds; i++)
        left += work[i].count;
    harness_job *jobs = calloc(left, sizeof *jobs);
    for (size_t i = 0; i < kinds; i++)
        for (uintptr_t n = 1; n <= work[i].count; n++)
            jobs[at++] = (harness_job){.msg.fn = harness_begin,
                                       .fn = work[i].fn,
                                       .arg = (void *)n,
                                       .lock = &lock,
                                       .ended = &ended,
                                       .left = &left};
    for (size_t i = 0; i < at; i++)
        dz_loop_post(&harness->loops[0], &jobs[i].msg);
    harness_wait(&lock, &ended, &left);
    free(jobs);
}

typedef struct harness_start_all {
    dz_msg msg;
    harness_job *jobs;
    size_t count;
} harness_start_all;

static inline void harness_begin_all(dz_loop *loop, dz_msg *msg)
{
    harness_start_all *all = DZ_CONTAINER(msg, harness_start_all, msg);
    for (size_t i = 0; i < all->count; i++)
        harness_begin(loop, &all->jobs[i].msg);
}

/* Runs fn(1), fn(2), ... each on a fiber, all begun in one tick, and waits for all. */
static inline void on_fibers_in_one_tick(void (*fn)(void *), size_t count)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
    size_t left = count;
    harness_start_all all = {.msg.fn = harness_begin_all, .count = count};
    all.jobs = calloc(count, sizeof *all.jobs);
    for (size_t i = 0; i < count; i++)
        all.jobs[i] = (harness_job){
            .fn = fn, .arg = (void *)(i + 1), .lock = &lock, .ended = &ended, .left = &left};
    dz_loop_post(&harness->loops[0], &all.msg);
    harness_wait(&lock, &ended, &left);
    free(all.jobs);
}

/* Runs fn(args[i]) for all i at once, each on a fiber, and waits for all. Posted by one message's
 * worth of messages, so that they usually start in one tick. */
static inline void on_fibers(void (*fn)(void *), void **args, size_t count)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
    size_t left = count;
    harness_job *jobs = calloc(count, sizeof *jobs);
    for (size_t i = 0; i < count; i++) {
        jobs[i] = (harness_job){.msg.fn = harness_begin,
                                .fn = fn,
                                .arg = args[i],
                                .lock = &lock,
                                .ended = &ended,
                                .left = &left};
        dz_loop_post(&harness->loops[0], &jobs[i].msg);
    }
    harness_wait(&lock, &ended, &left);
    free(jobs);
}

static inline void on_fiber(void (*fn)(void *), void *arg)
{
    on_fibers(fn, &arg, 1);
}

static inline int harness_start(void **state)
{
    (void)state;
    int error = 0;
    harness_joined = false;
    const dz_runtime_options options = {.loops = 1, .stack_size = 256 << 10};
    harness = dz_runtime_new(&options, &error);
    return harness ? dz_runtime_start(harness) : error;
}

static inline void harness_stop_loop(dz_loop *loop, dz_msg *msg)
{
    (void)msg;
    dz_loop_stop(loop);
}

/* The loop ends; what used it may then be closed, before harness_free. */
static inline void harness_join(void)
{
    static dz_msg stop;
    if (harness_joined)
        return;
    harness_joined = true;
    stop.fn = harness_stop_loop;
    dz_loop_post(&harness->loops[0], &stop);
    assert_int_equal(dz_runtime_join(harness, dz_now() + HARNESS_PATIENCE_S * DZ_SEC), 0);
}

#endif
