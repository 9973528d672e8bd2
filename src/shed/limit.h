/* limit.h: how many requests may be in the works at a time, found out by itself. Pure: no clock, no
 * I/O, one thread; the caller gives monotonic times in ns.
 *
 * Little's law: requests in flight = those being served + those that wait. Each window (100 ms, or
 * more until ten requests have ended) measures both:
 *
 *     busy      mean number in flight
 *     waiting   time that requests waited for a thread, per time
 *     lagging   time that they waited for the loop to read them, per time
 *     excess    time that serving took beyond what it takes without a queue, per time: a queue that
 *               can't be seen, in front of a database or of a core
 *     allowed   how many may wait: at least 1, and what the wait aimed at comes to at this rate
 *
 *     queue = waiting + lagging + excess;  limit += allowed - queue
 *
 * A full server with `limit` in flight has that many served plus queued whatever the limit is, so
 * one step is all it takes. The limit rises only while it is what holds requests back; as long as
 * that shows no queue at all the steps double.
 *
 * `excess` needs to know what serving takes without a queue, for each route (a mean, not a minimum:
 * requests of a route differ). Such a figure goes stale, and under constant overload there is no
 * moment to learn it. So an excess alone only keeps the limit from rising, and makes doubt: then,
 * and now and then while the limit holds requests back, the figures are measured on purpose. For a
 * few seconds after that an excess lowers the limit like any other queue.
 *
 *     NORMAL ──> DRAIN: half as many, until the rest has gone ──> PROBE: thirty requests without
 *       ^                                                           a queue are the new figure
 *       └─────────────────────────────────────────────────────────────┘
 */
#ifndef DZ_SHED_LIMIT_H
#define DZ_SHED_LIMIT_H

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct dz_limit_options {
    double start, min, max; /* requests in flight */
    uint64_t wait_ns;       /* the mean wait aimed at */
} dz_limit_options;

/* What is known of one route; zeroed at first. */
typedef struct dz_limit_route {
    dz_list touched;
    bool listed;
    double base_ns;     /* mean time to serve a request when nothing queues; 0: not known */
    double doubt;       /* how far off that may be: twice its standard error, as a part of it */
    double sum, square; /* of the times in this window */
    unsigned count;
} dz_limit_route;

/* A request that was served. */
typedef struct dz_limit_sample {
    dz_limit_route *route;
    uint64_t admitted; /* when it was let in */
    uint64_t waited;   /* ns until a thread took it */
    uint64_t served;   /* ns from then on */
    uint64_t lagged;   /* ns it may have waited before the loop could read it */
} dz_limit_sample;

typedef enum dz_limit_state { DZ_LIMIT_NORMAL, DZ_LIMIT_DRAIN, DZ_LIMIT_PROBE } dz_limit_state;

typedef struct dz_limit {
    dz_limit_options options;
    double limit;
    unsigned in_flight;
    uint64_t deadline_ns; /* what waited longer than this is not worth serving */

    dz_limit_state state;
    double saved; /* the limit to go back to after a probe */
    uint64_t state_since, next_probe, probe_gap;
    uint64_t fresh_until; /* the figures of the last probe count until then */
    uint64_t cohort_last; /* when the last of the requests that the probe measures was let in */
    unsigned cohort;      /* how many they are so far */
    double boost;

    /* The window. */
    uint64_t since, last; /* when it began; when `area` was brought up to date */
    double area;          /* in_flight x ns */
    double waited, served, lagged;
    unsigned count, refused, peak;
    dz_list touched;

    /* What the last window came to, for metrics and tests. */
    double queue, allowed, rate;
    bool congested;
    uint64_t probes;
} dz_limit;

void dz_limit_init(dz_limit *limit, const dz_limit_options *options, uint64_t now);

/* Whether one more fits, into `share` of the limit (1: the whole). At least one always does. */
static inline bool dz_limit_has_room(const dz_limit *limit, double share)
{
    double bound = limit->limit * share;
    return (double)limit->in_flight + 1 <= (bound < 1 ? 1 : bound);
}

/* A request was let in, ended (with `sample` NULL when it tells nothing), or was refused. */
void dz_limit_enter(dz_limit *limit, uint64_t now);
void dz_limit_leave(dz_limit *limit, uint64_t now, const dz_limit_sample *sample);
void dz_limit_refuse(dz_limit *limit, uint64_t now);

#endif
