/* inside.h: a donmaz server's own figures during the run, read from its /metrics 20 times a second
 * by a thread of ours. They are answered by a thread of theirs, so they come while every loop
 * stands still. */
#ifndef DZ_DOCTOR_INSIDE_H
#define DZ_DOCTOR_INSIDE_H

#include "exposition.h"

#include "node/feed.h"
#include "target/ports.h"

#include <stdint.h>

typedef struct dz_inside dz_inside;

/* What one loop did since the reading before. */
typedef struct dz_inside_loop {
    uint64_t at; /* dz_now */
    unsigned worker, loop;
    double delay_ms;         /* how long a message waits for it now */
    double lag_ms;           /* mean of timers and messages; 0 when there were none */
    double stalls, stall_ms; /* that ended: longer ones of DZ_EXPO_STALL_MS, and how long */
    double rescues;
} dz_inside_loop;

/* What all requests of the routes had taken up to then. */
typedef struct dz_inside_reading {
    uint64_t at;
    dz_expo_route *routes;
    size_t count;
    double refused, queued, in_flight;
} dz_inside_reading;

typedef struct dz_inside_seen {
    DZ_VECTOR(dz_inside_loop) loops;
    DZ_VECTOR(dz_inside_reading) readings;
} dz_inside_seen;

/* Begins reading, once before it returns. NULL: not to be had. */
dz_inside *dz_inside_start(const dz_port *admin);

/* Reads once more, and ends. NULL is fine. */
void dz_inside_stop(dz_inside *inside);

/* After dz_inside_stop; lives until dz_inside_free. NULL gives none. */
const dz_inside_seen *dz_inside_look(const dz_inside *inside);

/* Stops it, too. NULL is fine. */
void dz_inside_free(dz_inside *inside);

/* Adds a reading, as the thread does: for tests. */
void dz_inside_add(dz_inside_seen *seen, dz_exposition *before, const dz_exposition *now,
                   uint64_t at);
void dz_inside_forget(dz_inside_seen *seen);

#endif
