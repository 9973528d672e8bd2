#include "loop/runtime.h"

#include "loop/watchdog.h"

#include <donmaz/error.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

static void free_loops(dz_runtime *runtime, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        dz_loop_close(&runtime->loops[i]);
    free(runtime->loops);
}

/* Condition variables that wait by the monotonic clock. */
static void init_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

dz_runtime *dz_runtime_new(const dz_runtime_options *options, int *error)
{
    dz_runtime *runtime = calloc(1, sizeof *runtime);
    *error = DZ_E_NOMEM;
    if (!runtime)
        return NULL;
    dz_thread_guard_forks();
    runtime->options = *options;
    runtime->views = calloc(options->loops, sizeof *runtime->views);
    size_t size = options->loops * sizeof *runtime->loops;
    runtime->loops = aligned_alloc(_Alignof(dz_loop), size);
    unsigned made = 0;
    if (!runtime->views || !runtime->loops)
        goto fail;
    for (; made < options->loops; made++)
        if ((*error = dz_loop_init(&runtime->loops[made], runtime, made, options->stack_size)) < 0)
            goto fail;
    runtime->base_nice = getpriority(PRIO_PROCESS, 0);
    pthread_mutex_init(&runtime->lock, NULL);
    init_condition(&runtime->changed);
    init_condition(&runtime->watchdog_wake);
    dz_list_init(&runtime->standby);
    dz_list_init(&runtime->busy);
    dz_list_init(&runtime->dead);
    *error = 0;
    return runtime;
fail:
    free_loops(runtime, made);
    free(runtime->views);
    free(runtime);
    return NULL;
}

/* Ends the threads that carry nothing and joins all that have ended. With the lock held. */
static int close_threads(dz_runtime *runtime, uint64_t deadline)
{
    struct timespec at = {.tv_sec = (time_t)(deadline / DZ_SEC),
                          .tv_nsec = (long)(deadline % DZ_SEC)};
    runtime->closing = true;
    for (;;) {
        for (dz_list *link = runtime->standby.next; link != &runtime->standby; link = link->next)
            pthread_cond_signal(&DZ_CONTAINER(link, dz_thread, link)->wake);
        dz_runtime_bury(runtime);
        if (runtime->thread_count == 0)
            return 0;
        if (dz_list_empty(&runtime->dead) &&
            pthread_cond_timedwait(&runtime->changed, &runtime->lock, &at) == ETIMEDOUT)
            return DZ_E_TIMEOUT;
    }
}

int dz_runtime_start(dz_runtime *runtime)
{
    pthread_mutex_lock(&runtime->lock);
    int rc = 0;
    for (unsigned i = 0; i < runtime->options.loops && rc == 0; i++)
        rc = dz_runtime_add_thread(runtime);
    if (rc == 0 && runtime->options.rescue_after_ns > 0) {
        rc = dz_watchdog_start(runtime);
        /* The one that takes over first is there before it is needed. */
        if (rc == 0)
            rc = dz_runtime_add_thread(runtime);
    }
    if (rc < 0) {
        close_threads(runtime, UINT64_MAX);
        pthread_mutex_unlock(&runtime->lock);
        dz_watchdog_stop(runtime);
        return rc;
    }
    for (unsigned i = 0; i < runtime->options.loops; i++) {
        dz_thread *thread = dz_runtime_take_standby(runtime);
        thread->state = DZ_THREAD_CARRYING;
        thread->assigned = &runtime->loops[i];
        runtime->loops_running++;
        pthread_cond_signal(&thread->wake);
    }
    pthread_mutex_unlock(&runtime->lock);
    return 0;
}

int dz_runtime_join(dz_runtime *runtime, uint64_t deadline)
{
    struct timespec at = {.tv_sec = (time_t)(deadline / DZ_SEC),
                          .tv_nsec = (long)(deadline % DZ_SEC)};
    pthread_mutex_lock(&runtime->lock);
    int rc = 0;
    while (rc == 0 && runtime->loops_running > 0)
        if (pthread_cond_timedwait(&runtime->changed, &runtime->lock, &at) == ETIMEDOUT)
            rc = DZ_E_TIMEOUT;
    if (rc == 0)
        rc = close_threads(runtime, deadline);
    pthread_mutex_unlock(&runtime->lock);
    if (rc == 0)
        dz_watchdog_stop(runtime);
    return rc;
}

void dz_runtime_free(dz_runtime *runtime)
{
    if (!runtime)
        return;
    free_loops(runtime, runtime->options.loops);
    free(runtime->views);
    pthread_cond_destroy(&runtime->changed);
    pthread_cond_destroy(&runtime->watchdog_wake);
    pthread_mutex_destroy(&runtime->lock);
    free(runtime);
}
