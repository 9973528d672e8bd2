/* scheduler.h: threads that share cores, in simulated time, as under Linux's fair scheduler.
 *
 * Each core has its own queue of threads that are ready. A thread that computes is interrupted at
 * the next 4 ms tick (HZ=250, what distributions ship) when another of its core has had less. A
 * thread that wakes goes to an idle core, else to the one it ran on, where it interrupts one that
 * has had its slice. A core that has nothing takes a waiting thread from another. Where three
 * threads share two cores one of them has a core for itself; every so often the balancer lets
 * another one have it. */
#ifndef DZ_DOCTOR_SCHEDULER_H
#define DZ_DOCTOR_SCHEDULER_H

#include <stdbool.h>
#include <stddef.h>

enum { DZ_SCHED_CORES = 128, DZ_SCHED_THREADS = 512 };

typedef struct dz_sched_thread {
    bool ready;
    size_t core;
    double had;   /* CPU time, ms, comparable within a core */
    double moved; /* when it came to its core */
} dz_sched_thread;

typedef struct dz_sched_core {
    size_t running; /* thread; SIZE_MAX: idle */
    size_t ready;   /* threads of its queue, with the one that runs */
    double since;   /* when it was put on the core */
    double tick;    /* the next one */
} dz_sched_core;

typedef struct dz_sched {
    dz_sched_thread threads[DZ_SCHED_THREADS];
    dz_sched_core cores[DZ_SCHED_CORES];
    size_t thread_count, core_count;
    double now, balance;
} dz_sched;

void dz_sched_init(dz_sched *s, size_t cores, size_t threads);

/* The thread has something to compute. */
void dz_sched_wake(dz_sched *s, size_t thread);

/* It has nothing more to compute at present. */
void dz_sched_sleep(dz_sched *s, size_t thread);

/* When the scheduler itself has something to do next; INFINITY never. */
double dz_sched_next(const dz_sched *s);

/* Lets time pass until `to`, which must not be later than dz_sched_next. What runs is unchanged
 * until then; what is due then is done. */
void dz_sched_advance(dz_sched *s, double to);

static inline bool dz_sched_runs(const dz_sched *s, size_t thread)
{
    return s->threads[thread].ready && s->cores[s->threads[thread].core].running == thread;
}

#endif
