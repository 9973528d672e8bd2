/* reference.h: what reference 2 measures, as routes of a donmaz service. Each answers with JSON;
 * peers/node/worker-pool/reference.mjs has the same routes, and bench/worker_pool.py asks both. */
#ifndef BENCH_WORKER_POOL_REFERENCE_H
#define BENCH_WORKER_POOL_REFERENCE_H

#include "base/clock.h"

#include <donmaz.h>

#include <stdatomic.h>

typedef struct reference_board { /* seen by worker processes, too */
    _Atomic uint64_t counter, arrived, beat;
    double parse_ms;
} reference_board;

typedef struct reference {
    dz_slice file; /* the catalogue */
    dz_isolation isolation;
    bool two_cores;       /* the loop on the first, the warm worker on the second */
    dz_pool *warm, *four; /* one worker and four, which stay */
    dz_pool *sized;       /* as many workers as a pool has by default */
    dz_pool *cold;        /* a new worker for each task */
    reference_board *board;
} reference;

extern reference reference_state;

/* tasks.c: registers the tasks with a pool. */
int reference_add_tasks(dz_pool *pool);

/* A buffer that owns `len` bytes, of the kind that the pools' isolation hands over. */
int reference_alloc(dz_buf *buf, size_t len);
int reference_fresh(dz_buf *buf); /* with the catalogue in it */

/* dispatch.c: trivial tasks beside a futex ping-pong. */
dz_handler reference_dispatch;

/* watch.c: how long the loop's timers are late while something else goes on, and why. */
dz_handler reference_watch, reference_watch_end;

static inline double reference_ms(uint64_t ns)
{
    return (double)ns / 1e6;
}

#endif
