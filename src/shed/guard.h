/* guard.h: decides for one loop whether a request is let in, by a limit on the requests in flight
 * and by thresholds. No clock and no I/O of its own; belongs to the loop, but for the atomics.
 *
 *     CALM ──────────> PRESSURE ──────────────> REFUSING
 *       saturated, or       a request was refused
 *       4/5 of a threshold  a moment ago
 *
 * From PRESSURE on a part of the connections is closed after their response, so that their clients
 * come back through the balancer, perhaps to another instance. */
#ifndef DZ_SHED_GUARD_H
#define DZ_SHED_GUARD_H

#include "shed/limit.h"

#include <donmaz/shed.h>

#include <stdatomic.h>

typedef struct dz_guard_options {
    bool adaptive;
    dz_limit_options limit; /* adaptive; .max also bounds it */
    uint64_t in_flight_max; /* fixed; 0: none */
    uint64_t wait_max_ns;   /* 0: adaptive finds it, fixed has none */
    uint64_t lag_max_ns;    /* 0: none */
    uint64_t rss_max;       /* bytes; 0: none */
    uint64_t close_every;   /* under pressure close after every so many responses; 0: none */
} dz_guard_options;

/* What is measured at the moment of a request. */
typedef struct dz_guard_load {
    uint64_t now;    /* monotonic ns */
    uint64_t lag_ns; /* of the loop, the most of the last sample */
    uint64_t rss;    /* bytes; 0: not known */
} dz_guard_load;

typedef struct dz_guard {
    dz_guard_options options;
    dz_limit limit;
    uint64_t close_count;
    /* For others to read; written by the loop. */
    _Alignas(64) _Atomic uint64_t deadline_ns; /* UINT64_MAX: none */
    _Atomic uint64_t refused_at;               /* the last one that was not of class LOW; 0: none */
    _Atomic uint64_t admitted, closed, late;
    _Atomic uint64_t refused[DZ_SHED_REASONS]; /* by dz_shed_reason */
    _Atomic uint64_t refused_low, refused_high;
    _Atomic uint64_t in_flight, limit_milli, wait_ns, probes, lag_ns;
    _Atomic int level;
} dz_guard;

void dz_guard_init(dz_guard *guard, const dz_guard_options *options, uint64_t now);

/* Lets a request in, which is then to be given back by one of the two below; or names the reason
 * why not. DZ_SHED_NEVER is always let in, uncounted, and must not be given back. */
dz_shed_reason dz_guard_admit(dz_guard *guard, dz_shed_class class, const dz_guard_load *load);

/* It ended. NULL: it tells nothing (it never ran). */
void dz_guard_leave(dz_guard *guard, uint64_t now, const dz_limit_sample *sample);

/* It waited too long for its turn and was refused then. */
void dz_guard_late(dz_guard *guard, dz_shed_class class, uint64_t now);

/* Whether the connection of the request just let in or refused should end with its response. */
bool dz_guard_wants_close(dz_guard *guard);

/* Any thread: whether a request that waited for so long is to be refused at its turn. */
static inline bool dz_guard_is_late(const dz_guard *guard, uint64_t waited_ns)
{
    return waited_ns > atomic_load_explicit(&guard->deadline_ns, memory_order_relaxed);
}

/* Any thread: whether requests of the NORMAL class were refused within the last second. */
bool dz_guard_overloaded(const dz_guard *guard, uint64_t now);

#endif
