/* loop.h: one event loop on epoll: readiness, timers, messages from other threads, fibers.
 *
 * Ownership. A loop's data belong to the thread that carries it. `owner` says who that is:
 *
 *     owner = sequence << 1 | in_handler
 *
 * The carrying thread raises the sequence and sets in_handler when it enters a handler (a fiber).
 * While in_handler is set, everything the loop needs is in dz_loop and nothing on the thread's
 * stack, so the watchdog may take the loop away with one compare-and-swap (sequence + 1, in_handler
 * clear) and give it to a standby thread. When the handler comes back its thread tries to clear
 * in_handler by compare-and-swap; if that fails the loop is gone, and the outcome is posted to the
 * inbox instead. dz_loop_pin does the same for the length of one call from inside a handler.
 *
 *     thread A   enter handler ........ computing ........ leave: lost ── post ──┐
 *     watchdog            looks, looks: 2 ms, and something waits: take           │
 *     thread B                                  carry: flush, poll, handlers ... <┘ inbox
 */
#ifndef DZ_LOOP_LOOP_H
#define DZ_LOOP_LOOP_H

#include "base/clock.h"
#include "base/heap.h"
#include "base/list.h"
#include "loop/fiber.h"
#include "loop/inbox.h"
#include "metrics/histogram.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

typedef struct dz_runtime dz_runtime;
typedef struct dz_thread dz_thread;
typedef struct dz_watch dz_watch;
typedef struct dz_timer dz_timer;
typedef struct dz_deferred dz_deferred;

typedef void dz_watch_fn(dz_loop *loop, dz_watch *watch, uint32_t events);
typedef void dz_timer_fn(dz_loop *loop, dz_timer *timer);
typedef void dz_deferred_fn(dz_loop *loop, dz_deferred *deferred);

struct dz_watch { /* readiness of a descriptor */
    dz_watch_fn *fn;
    int fd;
};

struct dz_timer { /* fires once, not before its time */
    dz_heap_node node;
    dz_timer_fn *fn;
};

struct dz_deferred { /* runs once, at the end of this tick or when the loop changes threads */
    dz_list link;
    dz_deferred_fn *fn;
};

enum { DZ_LOOP_BATCH = 256, DZ_LOOP_FREE_FIBERS = 256 };
#define DZ_LOOP_AWAY_SAMPLE_NS (100 * DZ_MS)

/* Counters a loop keeps for metrics: written by the owner, read by anyone. */
typedef struct dz_loop_stats {
    _Atomic uint64_t ticks;
    dz_histogram *lag;    /* how late timers fired, ns */
    dz_histogram *stalls; /* how long handlers held the loop, ns, from 1 ms on; with rescue, until
                             it was taken away */
    _Atomic uint64_t rescues;
    _Atomic uint64_t rescues_capped; /* stalls left alone because rescue_max was reached */
    _Atomic uint64_t rescues_failed; /* stalls left alone because no thread could be started */
} dz_loop_stats;

struct dz_loop {
    /* Shared with the watchdog and with posting threads. */
    _Alignas(64) _Atomic uint64_t owner;
    _Atomic uint64_t mark;     /* when the last handler ended or the tick began, monotonic ns */
    _Atomic uint64_t next_due; /* when the first timer is due; UINT64_MAX without one */
    _Atomic uint32_t waiting;  /* ready fibers and deferred calls that wait for this thread */
    _Atomic bool sleeping;     /* the owner is, or is about to be, in epoll_wait */
    _Atomic(dz_thread *) thread;
    _Alignas(64) dz_inbox inbox;
    _Atomic uint32_t posting; /* threads within dz_loop_post */

    /* The owner's alone from here on. */
    _Alignas(64) dz_runtime *runtime;
    unsigned index; /* of the runtime's loops */
    int epoll_fd, wake_fd;
    uint64_t sequence;
    uint64_t now;          /* monotonic ns, refreshed each tick and when a handler ends */
    uint64_t tick_at;      /* when epoll_wait last returned */
    uint64_t away_ns;      /* how long the tick before took: what was read in this one waited */
    uint64_t away_most_ns; /* the longest of late, from 1 ms on, */
    uint64_t away_at;      /* and when it ended */
    dz_heap timers;
    size_t timers_reserved;
    dz_list ready;
    dz_list deferred;
    dz_list free_fibers;
    size_t free_fiber_count;
    size_t fiber_count; /* all that exist */
    size_t stack_size;
    dz_list sleepers; /* fibers parked by dz_fiber_sleep */
    bool stopping;
    bool cut;    /* nobody sleeps any more */
    bool coarse; /* the kernel waits for whole milliseconds only */
    int event_next, event_count;
    dz_watch wake_watch;
    void *user; /* the layer above's data for this loop */
    dz_loop_stats stats;
    struct epoll_event events[DZ_LOOP_BATCH];
};

int dz_loop_init(dz_loop *loop, dz_runtime *runtime, unsigned index, size_t stack_size);
/* Waits for threads that are still waking the loop; none may begin to post any more. */
void dz_loop_close(dz_loop *loop);

/* Runs the loop on the calling thread. True: the loop was stopped. False: it was taken away, and
 * this thread must not touch it any more. */
bool dz_loop_carry(dz_loop *loop, dz_thread *thread);

/* On the loop: carry returns at the end of this tick. */
void dz_loop_stop(dz_loop *loop);

/* Counts a stall of `ns`. By the thread that owns the loop, or has just taken it away. */
void dz_loop_note_stall(dz_loop *loop, uint64_t ns);

/* On the loop: fibers that sleep, now or later, go on at once. */
void dz_loop_wake_sleepers(dz_loop *loop);

/* On the loop: the longest time it was away from its descriptors in one of the last 100 ms' ticks.
 */
uint64_t dz_loop_lag(const dz_loop *loop);

/* Any thread: msg->fn runs on the loop soon. Never fails; msg must live until then. */
void dz_loop_post(dz_loop *loop, dz_msg *msg);

/* From a handler: true when this thread owns the loop, which then can't be taken away until
 * dz_loop_unpin; false when it doesn't, and a message must be posted instead. */
bool dz_loop_pin(dz_loop *loop);
void dz_loop_unpin(dz_loop *loop);

/* Readiness, edge-triggered unless EPOLLEXCLUSIVE or level-triggering is asked for by `events`.
 * Returns -errno (ENOSPC, ENOMEM) on failure. */
int dz_watch_start(dz_loop *loop, dz_watch *watch, int fd, uint32_t events, dz_watch_fn *fn);
int dz_watch_change(dz_loop *loop, dz_watch *watch, uint32_t events);
/* Forgets the watch, also events already fetched. The descriptor stays open. */
void dz_watch_stop(dz_loop *loop, dz_watch *watch);

/* Timers. Room is reserved when an object that has a timer is made, so that starting it later
 * cannot fail: each successful reserve allows one more timer at a time. DZ_E_NOMEM. */
int dz_timer_reserve(dz_loop *loop);
void dz_timer_unreserve(dz_loop *loop);
static inline void dz_timer_init(dz_timer *timer, dz_timer_fn *fn)
{
    *timer = (dz_timer){.fn = fn};
}
/* Starts or restarts: fires when the monotonic clock reaches `due` ns. */
void dz_timer_start(dz_loop *loop, dz_timer *timer, uint64_t due);
void dz_timer_stop(dz_loop *loop, dz_timer *timer);

static inline void dz_deferred_init(dz_deferred *deferred, dz_deferred_fn *fn)
{
    deferred->fn = fn;
    dz_list_init(&deferred->link);
}
/* Harmless when it waits already. */
void dz_defer(dz_loop *loop, dz_deferred *deferred);
void dz_defer_cancel(dz_loop *loop, dz_deferred *deferred);

#endif
