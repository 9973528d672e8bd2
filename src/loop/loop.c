#include "loop/loop.h"

#include "loop/runtime.h"
#include "loop/turn.h"

#include <donmaz/error.h>

#include <errno.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* An epoll_wait that had no need to wait is shorter. */
static const uint64_t POLLED_NS = DZ_MS / 20;

static void on_wake(dz_loop *loop, dz_watch *watch, uint32_t events)
{
    /* Edge-triggered: each write is a new event, so the counter is never read. The messages are
     * taken by the tick itself. */
    (void)loop, (void)watch, (void)events;
}

static void set_now(dz_loop *loop)
{
    loop->now = dz_now();
    atomic_store_explicit(&loop->mark, loop->now, memory_order_relaxed);
}

int dz_loop_init(dz_loop *loop, dz_runtime *runtime, unsigned index, size_t stack_size)
{
    *loop = (dz_loop){.runtime = runtime, .index = index, .stack_size = stack_size, .wake_fd = -1};
    atomic_init(&loop->next_due, UINT64_MAX);
    dz_heap_init(&loop->timers);
    dz_list_init(&loop->ready);
    dz_list_init(&loop->deferred);
    dz_list_init(&loop->free_fibers);
    dz_list_init(&loop->sleepers);
    set_now(loop);
    loop->tick_at = loop->now;
    loop->epoll_fd = -1;
    int rc = DZ_E_NOMEM;
    loop->stats.lag = dz_histogram_new();
    loop->stats.stalls = dz_histogram_new();
    if (!loop->stats.lag || !loop->stats.stalls)
        goto fail;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0) {
        rc = -errno;
        goto fail;
    }
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->wake_fd < 0) {
        rc = -errno;
        goto fail;
    }
    rc = dz_watch_start(loop, &loop->wake_watch, loop->wake_fd, EPOLLIN | EPOLLET, on_wake);
    if (rc < 0)
        goto fail;
    return 0;
fail:
    dz_loop_close(loop);
    return rc;
}

void dz_loop_close(dz_loop *loop)
{
    /* Whoever posted the last message may not have looked at `sleeping` yet. */
    while (atomic_load_explicit(&loop->posting, memory_order_acquire) > 0)
        sched_yield();
    for (dz_list *link; (link = dz_list_shift(&loop->free_fibers));)
        dz_fiber_destroy(DZ_CONTAINER(link, dz_fiber, link));
    dz_heap_close(&loop->timers);
    dz_histogram_free(loop->stats.lag);
    dz_histogram_free(loop->stats.stalls);
    if (loop->wake_fd >= 0)
        close(loop->wake_fd);
    if (loop->epoll_fd >= 0)
        close(loop->epoll_fd);
    loop->wake_fd = loop->epoll_fd = -1;
}

/* --- the tick --- */

void dz_loop_stop(dz_loop *loop)
{
    loop->stopping = true;
}

/* How long to wait at most, ns; UINT64_MAX: until something happens. */
static uint64_t time_to_wait(const dz_loop *loop, uint64_t now)
{
    if (!dz_list_empty(&loop->ready))
        return 0;
    dz_heap_node *first = dz_heap_min(&loop->timers);
    if (!first)
        return UINT64_MAX;
    return first->key > now ? first->key - now : 0;
}

static int wait_for_events(dz_loop *loop, uint64_t ns)
{
    if (ns > 0 && ns != UINT64_MAX && !loop->coarse) {
        const struct timespec limit = dz_timespec(ns);
        int count = epoll_pwait2(loop->epoll_fd, loop->events, DZ_LOOP_BATCH, &limit, NULL);
        if (count >= 0 || (errno != ENOSYS && errno != EPERM))
            return count;
        loop->coarse = true; /* before Linux 5.11, or forbidden */
    }
    int ms = -1;
    if (ns != UINT64_MAX) {
        uint64_t up = ns / DZ_MS + (ns % DZ_MS > 0); /* a timer never fires early */
        ms = up > INT32_MAX ? INT32_MAX : (int)up;
    }
    return epoll_wait(loop->epoll_fd, loop->events, DZ_LOOP_BATCH, ms);
}

/* For how long the loop, until `before`, did not look at its descriptors. A handler that was
 * rescued meanwhile counts until the loop was taken from it. With rescue a long handler keeps the
 * loop only while nothing waits for it: that is no lag, and shows in that polling then had to wait.
 */
static void note_away(dz_loop *loop, uint64_t before)
{
    bool slept = loop->now - before > POLLED_NS && loop->runtime->options.rescue_after_ns > 0;
    loop->away_ns = slept ? 0 : before - loop->tick_at;
    bool sample_over = loop->now - loop->away_at > DZ_LOOP_AWAY_SAMPLE_NS;
    if (loop->away_ns >= DZ_LOOP_STALL_NS && (sample_over || loop->away_ns >= loop->away_most_ns)) {
        loop->away_most_ns = loop->away_ns;
        loop->away_at = loop->now;
    }
    loop->tick_at = loop->now;
}

static void poll_events(dz_loop *loop)
{
    uint64_t before = dz_now();
    uint64_t wait = time_to_wait(loop, before);
    if (wait > 0) {
        atomic_store(&loop->sleeping, true);
        if (!dz_inbox_empty(&loop->inbox))
            wait = 0;
    }
    int count = wait_for_events(loop, wait);
    if (wait > 0 || atomic_load_explicit(&loop->sleeping, memory_order_relaxed))
        atomic_store_explicit(&loop->sleeping, false, memory_order_relaxed);
    loop->event_next = 0;
    loop->event_count = count > 0 ? count : 0; /* EINTR: as if nothing was ready */
    set_now(loop);
    note_away(loop, before);
    uint64_t ticks = atomic_load_explicit(&loop->stats.ticks, memory_order_relaxed);
    atomic_store_explicit(&loop->stats.ticks, ticks + 1, memory_order_relaxed);
    dz_watchdog_notice(loop->runtime);
}

static void run_events(dz_loop *loop)
{
    while (loop->event_next < loop->event_count) {
        const struct epoll_event *event = &loop->events[loop->event_next++];
        dz_watch *watch = event->data.ptr;
        if (watch)
            watch->fn(loop, watch, event->events);
    }
}

uint64_t dz_loop_lag(const dz_loop *loop)
{
    uint64_t age = loop->now - loop->away_at; /* huge when there was none yet */
    bool lately = loop->away_most_ns > 0 && age <= DZ_LOOP_AWAY_SAMPLE_NS;
    return lately && loop->away_most_ns > loop->away_ns ? loop->away_most_ns : loop->away_ns;
}

bool dz_loop_carry(dz_loop *loop, dz_thread *thread)
{
    atomic_store(&loop->thread, thread);
    loop->sequence = atomic_load(&loop->owner) >> 1;
    set_now(loop);
    dz_loop_run_deferred(loop); /* replies that were ready when the last thread got stuck */
    for (;;) {
        if (!dz_inbox_empty(&loop->inbox))
            dz_loop_run_inbox(loop);
        if (atomic_load_explicit(&loop->next_due, memory_order_relaxed) <= loop->now)
            dz_loop_run_timers(loop);
        run_events(loop);
        if (!dz_list_empty(&loop->ready) && !dz_loop_run_ready(loop, thread))
            return false;
        if (!dz_list_empty(&loop->deferred))
            dz_loop_run_deferred(loop);
        if (loop->stopping)
            return true;
        poll_events(loop);
    }
}
