/* meter.h: what is counted of every request: by route, status and duration. Each loop has counts of
 * its own, which only the loop writes; a reader adds them up. */
#ifndef DZ_APP_METER_H
#define DZ_APP_METER_H

#include "metrics/histogram.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { DZ_STATUS_FIRST = 100, DZ_STATUS_COUNT = 500, DZ_STATUS_GONE = 499 };

/* Zeroed pages that were never written cost no memory, so the rare statuses are free. */
typedef struct dz_route_meter {
    dz_histogram latency; /* ns */
    _Atomic uint64_t statuses[DZ_STATUS_COUNT];
    _Atomic uint64_t ran_ns, used_ns, used_us_squared; /* of its handlers; see dz_fiber */
} dz_route_meter;

typedef struct dz_loop_meter {
    _Alignas(64) _Atomic uint64_t ended, aborted;
    uint64_t epoch, epoch_until; /* see dz_meter_wall_clock; ns */
} dz_loop_meter;

typedef struct dz_meter {
    unsigned loops;
    size_t routes;
    dz_loop_meter *by_loop;
    dz_route_meter *by_route;                  /* [loop * routes + route] */
    _Atomic uint64_t refused[DZ_STATUS_COUNT]; /* answered before there was a request */
} dz_meter;

dz_meter *dz_meter_new(unsigned loops, size_t routes); /* NULL out of memory */
void dz_meter_free(dz_meter *meter);

/* On the loop. */
void dz_meter_note(dz_meter *meter, unsigned loop, size_t route, int status, uint64_t ns);

/* On the loop: what a request's handler took. */
void dz_meter_note_work(dz_meter *meter, unsigned loop, size_t route, uint64_t ran_ns,
                        uint64_t used_ns);

typedef struct dz_meter_work {
    uint64_t ran_ns, used_ns, used_us_squared;
} dz_meter_work;

/* Over all loops. */
dz_meter_work dz_meter_work_of(const dz_meter *meter, size_t route);

/* On the loop: the time of day in ns at the monotonic `now`. Asks the clock once a second, in which
 * its pace can be corrected by half a millisecond at most. */
uint64_t dz_meter_wall_clock(dz_loop_meter *loop, uint64_t now);

/* Over all loops. */
uint64_t dz_meter_count(const dz_meter *meter, size_t route, int status);
const dz_histogram *dz_meter_latency(const dz_meter *meter, unsigned loop, size_t route);

#endif
