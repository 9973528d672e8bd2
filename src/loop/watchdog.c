#include "loop/watchdog.h"

#include "base/slice.h"
#include "loop/runtime.h"

#include <donmaz/error.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Rescue. The watchdog looks at every loop now and then. A handler that has run for rescue_after
 * while something waits for the loop loses the loop to a standby thread.
 *
 * A look costs little, but waking up for it does (about 20 us where the machine is virtual), so it
 * looks often only while handlers are known to run long: every rescue_after/2 for a second after it
 * saw one, else every 2 x rescue_after. Without traffic it parks, so that an idle process makes no
 * wake-ups. */

static const uint64_t ALERT_NS = DZ_SEC, QUIET_NS = 100 * DZ_MS;

/* A handler whose thread got less than half of the time is not computing too long, it waits for a
 * core; another thread would wait too. After this many times rescue_after the loop moves anyway. */
enum { PATIENCE = 8 };

enum { WATCHDOG_STACK = 128 << 10 };

static const uint64_t SHORTEST_LOOK = DZ_MS / 2, LONGEST_LOOK = 20 * DZ_MS;

static uint64_t thread_cpu(const dz_thread *thread)
{
    clockid_t clock;
    if (pthread_getcpuclockid(thread->handle, &clock) != 0)
        return 0;
    return dz_clock(clock);
}

/* The state letter of /proc/self/task/ID/stat: R means it runs or waits for a core, anything else
 * that it waits in a system call, which a handler should not do either. */
static bool wants_a_core(const dz_thread *thread)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)atomic_load(&thread->id));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t len = read(fd, text, sizeof text - 1);
    close(fd);
    if (len <= 0)
        return false;
    text[len] = '\0';
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] == ' ' && name_end[2] == 'R';
}

/* Whether the loop has something to do that its stuck thread keeps from being done. Reads only what
 * may be read from outside. */
static bool something_waits(dz_loop *loop, uint64_t now)
{
    if (atomic_load_explicit(&loop->waiting, memory_order_relaxed) > 0)
        return true;
    if (!dz_inbox_empty(&loop->inbox))
        return true;
    if (atomic_load_explicit(&loop->next_due, memory_order_relaxed) <= now)
        return true;
    struct pollfd ready = {.fd = loop->epoll_fd, .events = POLLIN};
    return poll(&ready, 1, 0) > 0;
}

static void add_one(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static void take_over(dz_runtime *runtime, dz_loop *loop, dz_watchdog_view *view)
{
    if (runtime->stray_count >= runtime->options.rescue_max) {
        if (!view->counted)
            add_one(&loop->stats.rescues_capped);
        view->counted = true;
        return;
    }
    dz_thread *next = dz_runtime_take_standby(runtime);
    if (!next) {
        if (!view->counted)
            add_one(&loop->stats.rescues_failed);
        view->counted = true;
        return;
    }
    dz_thread *stuck = atomic_load(&loop->thread);
    uint64_t word = view->word;
    if (!atomic_compare_exchange_strong(&loop->owner, &word, ((word >> 1) + 1) << 1)) {
        dz_runtime_put_standby(runtime, next); /* the handler came back just now */
        return;
    }
    add_one(&loop->stats.rescues);
    dz_loop_note_stall(loop, dz_now() - view->since);
    if (runtime->options.backtrace_signal)
        pthread_kill(stuck->handle, runtime->options.backtrace_signal);
    stuck->state = DZ_THREAD_STRAY;
    /* What it used before we first looked at it is not known, but hardly less than the time. */
    uint64_t before = view->at - view->since;
    stuck->stray_cpu = view->cpu > before ? view->cpu - before : 0;
    runtime->stray_count++;
    next->state = DZ_THREAD_CARRYING;
    next->assigned = loop;
    pthread_cond_signal(&next->wake);
    if (dz_list_empty(&runtime->standby))
        (void)dz_runtime_add_thread(runtime); /* tried again when it is needed */
}

typedef enum activity {
    QUIET,   /* nothing ran */
    BUSY,    /* ticks and handlers */
    SUSPECT, /* a handler, or its thread's wait for a core, takes long: look again soon */
    ALERT,   /* a handler computes or blocks for long */
} activity;

static activity look_at(dz_runtime *runtime, dz_loop *loop, dz_watchdog_view *view, uint64_t now)
{
    uint64_t word = atomic_load_explicit(&loop->owner, memory_order_acquire);
    if (!(word & 1))
        return QUIET;
    uint64_t since = atomic_load_explicit(&loop->mark, memory_order_relaxed);
    uint64_t wall = now > since ? now - since : 0, limit = runtime->options.rescue_after_ns;
    if (wall < limit / 2)
        return BUSY; /* not quiet: nobody would wake the watchdog before this handler returns */
    const dz_thread *thread = atomic_load(&loop->thread);
    if (word != view->word) {
        *view = (dz_watchdog_view){.word = word,
                                   .since = since,
                                   .at = now,
                                   .cpu = thread_cpu(thread),
                                   .ticks = view->ticks};
        return SUSPECT;
    }
    uint64_t cpu = thread_cpu(thread) - view->cpu;
    if (cpu < (now - view->at) / 2 && wall < PATIENCE * limit && wants_a_core(thread))
        return SUSPECT;
    if (wall >= limit && something_waits(loop, now))
        take_over(runtime, loop, view);
    return ALERT;
}

/* A rescued handler keeps its priority at first: it may be a light one that had bad luck. After
 * enough CPU time it is known to be heavy. */
static void demote_heavy(dz_runtime *runtime)
{
    const dz_runtime_options *options = &runtime->options;
    if (options->demote_nice == 0 || runtime->stray_count == 0)
        return;
    for (dz_list *link = runtime->busy.next; link != &runtime->busy; link = link->next) {
        dz_thread *thread = DZ_CONTAINER(link, dz_thread, link);
        if (thread->state != DZ_THREAD_STRAY || thread->demoted ||
            thread_cpu(thread) - thread->stray_cpu < options->demote_after_ns)
            continue;
        thread->demoted = setpriority(PRIO_PROCESS, (id_t)atomic_load(&thread->id),
                                      runtime->base_nice + options->demote_nice) == 0;
    }
}

/* Looks at everything once; tells what happened since the last look. */
static activity look(dz_runtime *runtime)
{
    uint64_t now = dz_now();
    activity seen = runtime->stray_count > 0 ? ALERT : QUIET;
    for (unsigned i = 0; i < runtime->options.loops; i++) {
        dz_loop *loop = &runtime->loops[i];
        dz_watchdog_view *view = &runtime->views[i];
        uint64_t ticks = atomic_load(&loop->stats.ticks);
        /* Awake is not quiet, however long the tick takes: the handlers it is going to run make no
         * tick of their own that would un-park us. */
        if ((ticks != view->ticks || !atomic_load(&loop->sleeping)) && seen == QUIET)
            seen = BUSY;
        view->ticks = ticks;
        activity here = look_at(runtime, loop, view, now);
        if (here > seen)
            seen = here;
    }
    demote_heavy(runtime);
    dz_runtime_bury(runtime);
    return seen;
}

/* With the lock held: sleeps until a loop wakes up. */
static void park(dz_runtime *runtime)
{
    atomic_store(&runtime->watchdog_parked, true);
    /* A loop that woke up before it could see the flag has raised its tick counter and is awake. */
    if (look(runtime) != QUIET) {
        atomic_store(&runtime->watchdog_parked, false);
        return;
    }
    while (atomic_load(&runtime->watchdog_parked) && runtime->has_watchdog)
        pthread_cond_wait(&runtime->watchdog_wake, &runtime->lock);
}

void dz_watchdog_unpark(dz_runtime *runtime)
{
    if (!atomic_exchange(&runtime->watchdog_parked, false))
        return;
    pthread_mutex_lock(&runtime->lock);
    pthread_cond_signal(&runtime->watchdog_wake);
    pthread_mutex_unlock(&runtime->lock);
}

static struct timespec pause_of(uint64_t ns)
{
    ns = ns < SHORTEST_LOOK ? SHORTEST_LOOK : ns > LONGEST_LOOK ? LONGEST_LOOK : ns;
    return (struct timespec){.tv_nsec = (long)ns};
}

static void *watchdog_main(void *arg)
{
    dz_runtime *runtime = arg;
    const struct timespec often = pause_of(runtime->options.rescue_after_ns / 2);
    const struct timespec seldom = pause_of(runtime->options.rescue_after_ns * 2);
    uint64_t busy = dz_now(), alert = 0;
    (void)dz_thread_slice(DZ_HANDLER_SLICE); /* it is needed when everybody computes */
    pthread_mutex_lock(&runtime->lock);
    while (runtime->has_watchdog) {
        activity seen = look(runtime);
        uint64_t now = dz_now();
        if (seen != QUIET)
            busy = now;
        if (seen == ALERT)
            alert = now;
        if (now - busy >= QUIET_NS) {
            park(runtime);
            busy = dz_now();
        }
        pthread_mutex_unlock(&runtime->lock);
        bool soon = seen == SUSPECT || now - alert < ALERT_NS;
        const struct timespec *pause = soon ? &often : &seldom;
        clock_nanosleep(CLOCK_MONOTONIC, 0, pause, NULL);
        pthread_mutex_lock(&runtime->lock);
    }
    pthread_mutex_unlock(&runtime->lock);
    return NULL;
}

int dz_watchdog_start(dz_runtime *runtime)
{
    runtime->has_watchdog = true;
    int rc = dz_thread_create(&runtime->watchdog, WATCHDOG_STACK, watchdog_main, runtime);
    if (rc < 0)
        runtime->has_watchdog = false;
    return rc;
}

void dz_watchdog_stop(dz_runtime *runtime)
{
    pthread_mutex_lock(&runtime->lock);
    bool running = runtime->has_watchdog;
    runtime->has_watchdog = false;
    pthread_cond_signal(&runtime->watchdog_wake);
    pthread_mutex_unlock(&runtime->lock);
    if (running)
        pthread_join(runtime->watchdog, NULL);
}
