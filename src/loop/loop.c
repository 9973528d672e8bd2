#include "loop/loop.h"

#include "loop/runtime.h"

#include <donmaz/error.h>

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { RELAXED = memory_order_relaxed };

static const uint64_t STALL_NS = DZ_MS;
static const uint64_t POLLED_NS =
    DZ_MS / 20; /* an epoll_wait that had no need to wait is shorter */

static void on_wake(dz_loop *loop, dz_watch *watch, uint32_t events)
{
    /* Edge-triggered: each write is a new event, so the counter is never read. The messages are
     * taken by the tick itself. */
    (void)loop, (void)watch, (void)events;
}

static void set_now(dz_loop *loop)
{
    loop->now = dz_now();
    atomic_store_explicit(&loop->mark, loop->now, RELAXED);
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

/* --- descriptors --- */

static int control(dz_loop *loop, int op, dz_watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    return epoll_ctl(loop->epoll_fd, op, watch->fd, &event) < 0 ? -errno : 0;
}

int dz_watch_start(dz_loop *loop, dz_watch *watch, int fd, uint32_t events, dz_watch_fn *fn)
{
    *watch = (dz_watch){.fn = fn, .fd = fd};
    return control(loop, EPOLL_CTL_ADD, watch, events);
}

int dz_watch_change(dz_loop *loop, dz_watch *watch, uint32_t events)
{
    return control(loop, EPOLL_CTL_MOD, watch, events);
}

void dz_watch_stop(dz_loop *loop, dz_watch *watch)
{
    control(loop, EPOLL_CTL_DEL, watch, 0);
    for (int i = loop->event_next; i < loop->event_count; i++)
        if (loop->events[i].data.ptr == watch)
            loop->events[i].data.ptr = NULL;
}

/* --- timers --- */

static void publish_next_due(dz_loop *loop)
{
    dz_heap_node *first = dz_heap_min(&loop->timers);
    atomic_store_explicit(&loop->next_due, first ? first->key : UINT64_MAX, RELAXED);
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

static void run_timers(dz_loop *loop)
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

/* --- what waits for this thread --- */

static void add_waiting(dz_loop *loop, int change)
{
    uint32_t waiting = atomic_load_explicit(&loop->waiting, RELAXED);
    atomic_store_explicit(&loop->waiting, waiting + (uint32_t)change, RELAXED);
}

void dz_fiber_ready(dz_fiber *fiber)
{
    if (fiber->dispatch) {
        fiber->dispatch(fiber);
        return;
    }
    dz_list_push(&fiber->loop->ready, &fiber->link);
    add_waiting(fiber->loop, 1);
}

void dz_defer(dz_loop *loop, dz_deferred *deferred)
{
    if (!dz_list_empty(&deferred->link))
        return;
    dz_list_push(&loop->deferred, &deferred->link);
    add_waiting(loop, 1);
}

void dz_defer_cancel(dz_loop *loop, dz_deferred *deferred)
{
    if (dz_list_empty(&deferred->link))
        return;
    dz_list_remove(&deferred->link);
    add_waiting(loop, -1);
}

static void run_deferred(dz_loop *loop)
{
    for (dz_list *link; (link = dz_list_shift(&loop->deferred));) {
        add_waiting(loop, -1);
        dz_deferred *deferred = DZ_CONTAINER(link, dz_deferred, link);
        deferred->fn(loop, deferred);
    }
}

/* --- messages --- */

void dz_loop_post(dz_loop *loop, dz_msg *msg)
{
    /* From the push on the loop may run the message, end, and be freed: unless it knows of us. The
     * push releases this, and whoever takes the message sees it. */
    atomic_fetch_add_explicit(&loop->posting, 1, RELAXED);
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

static void run_inbox(dz_loop *loop)
{
    dz_msg *msg = dz_inbox_take(&loop->inbox);
    while (msg) {
        dz_msg *next = msg->next;
        msg->fn(loop, msg);
        msg = next;
    }
}

/* --- ownership --- */

bool dz_loop_pin(dz_loop *loop)
{
    dz_thread *thread = dz_thread_self();
    if (!thread || thread->loop != loop)
        return false;
    uint64_t word = thread->word;
    if (atomic_compare_exchange_strong_explicit(&loop->owner, &word, word & ~UINT64_C(1),
                                                memory_order_acquire, memory_order_relaxed))
        return true;
    thread->loop = NULL;
    return false;
}

void dz_loop_unpin(dz_loop *loop)
{
    atomic_store_explicit(&loop->owner, dz_thread_self()->word, memory_order_release);
}

void dz_loop_note_stall(dz_loop *loop, uint64_t ns)
{
    if (ns >= STALL_NS)
        dz_histogram_put(loop->stats.stalls, ns);
}

static void run_after(dz_loop *loop, dz_msg *msg)
{
    dz_fiber *fiber = DZ_CONTAINER(msg, dz_fiber, msg);
    fiber->after(loop, fiber);
}

/* `cpu_ns` 0: not measured. */
static void note_stretch(dz_fiber *fiber, uint64_t wall_ns, uint64_t cpu_ns)
{
    fiber->ran_ns += wall_ns;
    fiber->used_ns += cpu_ns ? cpu_ns : wall_ns;
    if (wall_ns > fiber->wall_ns)
        fiber->wall_ns = wall_ns;
    if (cpu_ns > fiber->cpu_ns)
        fiber->cpu_ns = cpu_ns;
}

/* False: the loop was taken away meanwhile. */
static bool run_fiber(dz_loop *loop, dz_thread *thread, dz_fiber *fiber)
{
    uint64_t cpu = fiber->measure_cpu ? dz_thread_cpu() : 0;
    uint64_t start = atomic_load_explicit(&loop->mark, RELAXED);
    if (fiber->began == 0)
        fiber->began = start;
    thread->loop = loop;
    thread->word = ++loop->sequence << 1 | 1;
    atomic_store_explicit(&loop->owner, thread->word, memory_order_release);

    dz_fiber_switch_in(fiber);

    uint64_t end = dz_now();
    uint64_t used = fiber->measure_cpu ? dz_thread_cpu() - cpu : 0;
    if (dz_loop_pin(loop)) {
        note_stretch(fiber, end - start, used);
        thread->loop = NULL;
        loop->now = end; /* deadlines set from here on must not lie in the past */
        atomic_store_explicit(&loop->mark, end, RELAXED);
        dz_loop_note_stall(loop, end - start);
        fiber->after(loop, fiber);
        return true;
    }
    uint64_t stray_cpu = dz_thread_end_stray(thread, &fiber->demoted);
    note_stretch(fiber, end - start, stray_cpu);
    fiber->rescued = true;
    fiber->msg.fn = run_after;
    dz_loop_post(loop, &fiber->msg);
    return false;
}

void dz_fiber_run_here(dz_fiber *fiber)
{
    uint64_t cpu = dz_thread_cpu(), start = dz_now();
    if (fiber->began == 0)
        fiber->began = start;
    dz_fiber_switch_in(fiber);
    note_stretch(fiber, dz_now() - start, dz_thread_cpu() - cpu);
    fiber->msg.fn = run_after;
    dz_loop_post(fiber->loop, &fiber->msg);
}

/* Runs the fibers that are ready now; those they make ready wait for the next round, so that one
 * busy connection can't keep the loop from its descriptors. */
static bool run_ready(dz_loop *loop, dz_thread *thread)
{
    const dz_list *last = loop->ready.prev;
    while (!dz_list_empty(&loop->ready)) {
        dz_list *link = dz_list_shift(&loop->ready);
        add_waiting(loop, -1);
        if (!run_fiber(loop, thread, DZ_CONTAINER(link, dz_fiber, link)))
            return false;
        if (link == last)
            break;
    }
    return true;
}

/* --- the tick --- */

void dz_loop_stop(dz_loop *loop)
{
    loop->stopping = true;
}

static int timeout_ms(const dz_loop *loop, uint64_t now)
{
    if (!dz_list_empty(&loop->ready))
        return 0;
    dz_heap_node *first = dz_heap_min(&loop->timers);
    if (!first)
        return -1;
    if (first->key <= now)
        return 0;
    uint64_t ms = (first->key - now + DZ_MS - 1) / DZ_MS; /* up: a timer never fires early */
    return ms > INT32_MAX ? INT32_MAX : (int)ms;
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
    if (loop->away_ns >= STALL_NS && (sample_over || loop->away_ns >= loop->away_most_ns)) {
        loop->away_most_ns = loop->away_ns;
        loop->away_at = loop->now;
    }
    loop->tick_at = loop->now;
}

static void poll_events(dz_loop *loop)
{
    uint64_t before = dz_now();
    int timeout = timeout_ms(loop, before);
    if (timeout != 0) {
        atomic_store(&loop->sleeping, true);
        if (!dz_inbox_empty(&loop->inbox))
            timeout = 0;
    }
    int count = epoll_wait(loop->epoll_fd, loop->events, DZ_LOOP_BATCH, timeout);
    if (timeout != 0 || atomic_load_explicit(&loop->sleeping, RELAXED))
        atomic_store_explicit(&loop->sleeping, false, RELAXED);
    loop->event_next = 0;
    loop->event_count = count > 0 ? count : 0; /* EINTR: as if nothing was ready */
    set_now(loop);
    note_away(loop, before);
    uint64_t ticks = atomic_load_explicit(&loop->stats.ticks, RELAXED);
    atomic_store_explicit(&loop->stats.ticks, ticks + 1, RELAXED);
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
    run_deferred(loop); /* replies that were ready when the last thread got stuck */
    for (;;) {
        run_inbox(loop);
        run_timers(loop);
        run_events(loop);
        if (!run_ready(loop, thread))
            return false;
        run_deferred(loop);
        if (loop->stopping)
            return true;
        poll_events(loop);
    }
}
