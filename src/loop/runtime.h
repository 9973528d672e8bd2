/* runtime.h: the loops of a process, the threads that carry them, and the watchdog that hands a
 * loop from a thread whose handler computes too long to one that stands by.
 *
 *               assigned a loop              the watchdog took its loop
 *   standby ───────────────────> carrying ──────────────────────────────> stray
 *      ^                            │ loop stopped                          │ handler returned
 *      └────────────────────────────┴──────────────────────────────────────-┘
 *                                             (retired instead, when demoted for good)
 */
#ifndef DZ_LOOP_RUNTIME_H
#define DZ_LOOP_RUNTIME_H

#include "loop/loop.h"

#include <pthread.h>
#include <sys/types.h>

typedef struct dz_runtime_options {
    unsigned loops;
    size_t stack_size;        /* of a fiber, bytes */
    uint64_t rescue_after_ns; /* 0: no watchdog, no rescue */
    unsigned rescue_max;      /* rescued handlers that may run at a time */
    uint64_t demote_after_ns; /* CPU time after which a rescued handler is demoted */
    int demote_nice;          /* by how much; 0: never */
    int backtrace_signal;     /* sent to a thread whose handler was rescued; 0: none */
} dz_runtime_options;

enum dz_thread_state { DZ_THREAD_STANDBY, DZ_THREAD_CARRYING, DZ_THREAD_STRAY };

struct dz_thread {
    /* Its own: what it owns now. `loop` is NULL when it owns none. */
    dz_loop *loop;
    uint64_t word; /* loop->owner while in a handler */
    dz_fiber *fiber;
    dz_context context;       /* the stack that runs the loop, while a fiber runs */
    const void *stack_bottom; /* for the address sanitizer */
    size_t stack_size;
    void *sanitizer_fiber;
    void *fake_stack;
    void *alt_stack;
    bool is_copy; /* of a thread that forked in a handler: it must not go on with the loop */

    /* Under runtime->lock. */
    dz_runtime *runtime;
    dz_list link; /* in standby, busy or dead */
    enum dz_thread_state state;
    dz_loop *assigned;
    pthread_cond_t wake;
    pthread_t handle;
    _Atomic pid_t id;
    uint64_t stray_cpu; /* its CPU clock when its handler was first seen */
    bool demoted;
};

struct dz_runtime {
    dz_runtime_options options;
    dz_loop *loops;
    int base_nice;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* a loop stopped or a thread ended */
    dz_list standby, busy, dead;
    unsigned standby_count, thread_count, stray_count;
    unsigned loops_running;
    bool closing;

    pthread_t watchdog;
    bool has_watchdog;
    _Atomic bool watchdog_parked;
    pthread_cond_t watchdog_wake;
    struct dz_watchdog_view *views; /* what the watchdog last saw of each loop */
};

/* Makes the loops; no thread yet. NULL with *error set. */
dz_runtime *dz_runtime_new(const dz_runtime_options *options, int *error);

/* Starts the watchdog and one thread a loop. DZ_E_NO_THREAD: nothing runs. */
int dz_runtime_start(dz_runtime *runtime);

/* Waits until every loop was stopped (dz_loop_stop) and every handler returned, at most until the
 * monotonic time `deadline`, and joins the threads. DZ_E_TIMEOUT: handlers still compute; nothing
 * may be freed. */
int dz_runtime_join(dz_runtime *runtime, uint64_t deadline);

void dz_runtime_free(dz_runtime *runtime);

/* The calling thread's record; NULL on threads that are not donmaz's. */
dz_thread *dz_thread_self(void);

/* A thread outside the runtime (a pool's worker) that is going to run fibers. */
void dz_thread_enter(dz_thread *thread);
void dz_thread_leave(dz_thread *thread);

/* From here on a child that a handler forked, and that comes back instead of calling exec or _exit,
 * ends with a message: it would answer on the connections of its parent. */
void dz_thread_guard_forks(void);
_Noreturn void dz_thread_end_copy(const dz_fiber *fiber);

/* Starts a thread that leaves signals to the threads that asked for them. DZ_E_NO_THREAD. */
int dz_thread_create(pthread_t *handle, size_t stack_size, void *(*run)(void *), void *arg);

/* --- between the parts of this folder --- */

/* A handler came back on a thread that lost its loop. Returns the CPU time in ns that it used since
 * the watchdog first saw it, and whether the thread was demoted. */
uint64_t dz_thread_end_stray(dz_thread *thread, bool *demoted);

/* With runtime->lock held: a standby thread, started if there is none; NULL when it can't be. */
dz_thread *dz_runtime_take_standby(dz_runtime *runtime);
void dz_runtime_put_standby(dz_runtime *runtime, dz_thread *thread);
int dz_runtime_add_thread(dz_runtime *runtime);
void dz_runtime_bury(dz_runtime *runtime); /* joins threads that ended; drops the lock meanwhile */

int dz_watchdog_start(dz_runtime *runtime);
void dz_watchdog_stop(dz_runtime *runtime);
void dz_watchdog_unpark(dz_runtime *runtime);

/* A loop woke up: the watchdog must not be parked. */
static inline void dz_watchdog_notice(dz_runtime *runtime)
{
    if (!runtime->has_watchdog)
        return;
    /* The tick counter was raised before this; the watchdog sets `parked` before it reads that. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&runtime->watchdog_parked, memory_order_relaxed))
        dz_watchdog_unpark(runtime);
}

#endif
