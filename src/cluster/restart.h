/* restart.h: when a worker that died is started again. */
#ifndef DZ_CLUSTER_RESTART_H
#define DZ_CLUSTER_RESTART_H

#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

enum { DZ_START_TRIES = 5 }; /* deaths in a row before it was ready that are worth another try */

#define DZ_RESTART_STEADY (10 * DZ_SEC) /* a worker that lived so long is as good as new */
#define DZ_RESTART_FIRST  (100 * DZ_MS) /* the first delay that is not 0 */
#define DZ_RESTART_MOST   (10 * DZ_SEC)

typedef struct dz_restart {
    unsigned deaths;        /* in a row, none of them after a steady life */
    unsigned failed_starts; /* in a row, before the worker was ready */
} dz_restart;

/* A worker died after `lived` ns. Returns the delay until the next one, in ns: 0 for the first
 * death, then twice as long each time. */
uint64_t dz_restart_after_death(dz_restart *restart, uint64_t lived, bool was_ready);

/* No process or channel could be made: the delay until the next try. */
uint64_t dz_restart_after_failed_fork(dz_restart *restart);

void dz_restart_note_ready(dz_restart *restart);

#endif
