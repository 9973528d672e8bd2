/* turn.h: the steps of one turn of the loop, in the files that know their subject. On the loop. */
#ifndef DZ_LOOP_TURN_H
#define DZ_LOOP_TURN_H

#include "loop/loop.h"

#define DZ_LOOP_STALL_NS DZ_MS /* what is shorter is no stall */

/* wait.c */
void dz_loop_run_inbox(dz_loop *loop);
void dz_loop_run_deferred(dz_loop *loop);

/* timer.c: those that are due. */
void dz_loop_run_timers(dz_loop *loop);

/* run.c: runs the fibers that are ready now; those they make ready wait for the next round, so that
 * one busy connection can't keep the loop from its descriptors. False: the loop was taken away. */
bool dz_loop_run_ready(dz_loop *loop, dz_thread *thread);

/* Counts what waits for this thread, for the watchdog. */
static inline void dz_loop_add_waiting(dz_loop *loop, int change)
{
    uint32_t waiting = atomic_load_explicit(&loop->waiting, memory_order_relaxed);
    atomic_store_explicit(&loop->waiting, waiting + (uint32_t)change, memory_order_relaxed);
}

#endif
