/* spread.h: which worker gets the next connection. */
#ifndef DZ_CLUSTER_SPREAD_H
#define DZ_CLUSTER_SPREAD_H

#include <stdbool.h>
#include <stdint.h>

typedef struct dz_load {
    bool takes;    /* ready, with room, and not refused this connection already */
    uint64_t open; /* connections */
} dz_load;

/* The one with the fewest open connections; among equals the first after `last`, who got the
 * previous one, so that an idle cluster takes turns. `count` when none takes any. */
unsigned dz_spread_pick(const dz_load *loads, unsigned count, unsigned last);

#endif
