/* collect.h: a run's profiles put together: each Node thread's from its inspector, and what perf
 * events saw. */
#ifndef DZ_FLAME_COLLECT_H
#define DZ_FLAME_COLLECT_H

#include "profile.h"

#include "node/run.h"

typedef struct dz_collected {
    size_t threads; /* Node threads whose profile was had */
    size_t lost;    /* Node threads whose profile could not be had */
    size_t
        clipped; /* worker threads that were ended from outside: their last second may be missing */
    bool several; /* each thread's stacks are under a frame with its name */
} dz_collected;

/* Adds the inspectors' profiles, with ticks when profile->keep_ticks. A thread's ticks carry the
 * kernel's id of it, 0 when unknown. 0, DZ_E_NOMEM. */
int dz_collect_node(dz_profile *profile, const dz_run *run, dz_collected *out);

#endif
