/* fiber.h: a handler's stack, which can be left (parked) and continued later, on another thread.
 *
 *                        dz_fiber_run                 dz_fiber_park
 *   free ── dz_fiber_new ──> ready ──────────> running ───────────> parked
 *     ^                        ^                  │ entry returns      │ dz_fiber_ready
 *     └──── dz_fiber_free ─────┼──────────────────┘                    │
 *                              └───────────────────────────────────────┘
 *
 * A fiber belongs to one loop for its whole life. It runs on the thread that owns the loop, or on
 * any other thread (a rescued or offloaded handler); either way it comes back to its loop through
 * `after`, a function that runs on the loop once the fiber is off its stack. So code on a fiber
 * never touches the loop's data: it parks with the function that does.
 *
 * errno and other thread-local values do not survive a park. */
#ifndef DZ_LOOP_FIBER_H
#define DZ_LOOP_FIBER_H

#include "base/list.h"
#include "loop/inbox.h"
#include "loop/switch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct dz_loop dz_loop;
typedef struct dz_fiber dz_fiber;

typedef void dz_fiber_fn(dz_fiber *fiber);
typedef void dz_fiber_after(dz_loop *loop, dz_fiber *fiber);

enum {
    DZ_FIBER_TRACE = 16,
    /* Bytes below a stack that no access may touch: more than any one frame should have, because a
     * frame larger than the guard could step over it. A multiple of every page size Linux has. */
    DZ_FIBER_GUARD = 128 << 10,
};

struct dz_fiber {
    dz_context context;
    char *stack; /* lowest usable byte; below it is the guard */
    size_t stack_size;
    dz_list link; /* in the loop's run queue, a pool's queue, or the list of free fibers */
    dz_loop *loop;
    dz_fiber_fn *entry;
    dz_fiber_after *after; /* what the loop does once the fiber has left its stack */
    void *after_arg;
    dz_fiber_after *done;     /* the `after` of a fiber whose entry returned */
    dz_fiber_fn *dispatch;    /* how a ready fiber gets to run; NULL: the loop's run queue */
    dz_msg msg;               /* carries `after` to the loop from another thread */
    const char *label;        /* what it runs, for reports: "GET /users/:id" */
    void *owner;              /* whose fiber this is; not looked at here */
    const _Atomic bool *gone; /* set when nobody waits for what it does any more; may be NULL */
    /* On the loop: called when `gone` is set. NULL unless someone wants to know. */
    void (*abandoned)(dz_fiber *fiber);
    void *abandoned_arg;

    /* What it used since dz_fiber_new; a stretch is the time from running to parking. */
    uint64_t began;   /* when the first stretch did, monotonic ns; 0: not yet */
    uint64_t wall_ns; /* the longest stretch */
    uint64_t cpu_ns;  /* the most CPU time in one stretch, of those that were measured */
    uint64_t ran_ns;  /* all stretches */
    uint64_t used_ns; /* their CPU time; of those that were not measured, the time they took */
    bool measure_cpu; /* measure each stretch: costs two system calls */
    bool rescued;     /* the loop left a thread on which it was computing */
    bool demoted;     /* and that thread was given a lower priority */
    int trace_count;  /* where it was then, when that was asked for: innermost first */
    void *trace[DZ_FIBER_TRACE];

    void *sanitizer_fake_stack;
    unsigned valgrind_stack;
    void *sanitizer_fiber;
};

/* Takes a fiber from the loop's free ones, or makes one with loop->stack_size bytes of stack.
 * Loop thread only. NULL: out of memory or address space. */
dz_fiber *dz_fiber_new(dz_loop *loop);

/* Gives it back; must not be running. Loop thread only. */
void dz_fiber_free(dz_fiber *fiber);

/* Unmaps a fiber for good: what dz_fiber_free does beyond the number kept. */
void dz_fiber_destroy(dz_fiber *fiber);

/* Continues the fiber on the calling thread until it parks or returns; the caller then sees to it
 * that fiber->after runs on the loop. Low-level: see dz_loop_carry and dz_fiber_run_here. */
void dz_fiber_switch_in(dz_fiber *fiber);

/* From inside a fiber: leaves the stack; `after` then runs on the loop with fiber->after_arg = arg.
 * Returns when someone has made the fiber ready again. */
void dz_fiber_park(dz_fiber_after *after, void *arg);

/* From inside a fiber: parks until the monotonic clock reaches `due` ns. DZ_E_NOMEM: did not sleep;
 * DZ_E_SHUTDOWN: woken, or not let sleep, by dz_loop_wake_sleepers. (sleep.c) */
int dz_fiber_sleep(uint64_t due);

/* Runs a ready fiber on the calling thread, which owns no loop, and posts the outcome to the
 * fiber's loop. For pool workers. */
void dz_fiber_run_here(dz_fiber *fiber);

/* On the loop: lets a parked or new fiber run, here or wherever its `dispatch` sends it. */
void dz_fiber_ready(dz_fiber *fiber);

/* The fiber running on this thread; NULL outside. */
dz_fiber *dz_fiber_current(void);

#endif
