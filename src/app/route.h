/* route.h: a route, and what was learned about it.
 *
 * Classes, by the CPU time of a request's longest stretch between two waits:
 *
 *     light ──── over 1 ms ────> medium ──── over 25 ms ────> heavy
 *     on the   <── under 0.7 ──  a worker  <── under 18 ───   a worker of
 *     loop                                                    lower priority
 *
 * A route moves when several more of its recent requests than not say so; one outlier is what
 * rescue is for. */
#ifndef DZ_APP_ROUTE_H
#define DZ_APP_ROUTE_H

#include "base/list.h"
#include "loop/fiber.h"

#include <donmaz/app.h>

#include <stdatomic.h>

typedef enum dz_route_class { DZ_ROUTE_LIGHT, DZ_ROUTE_MEDIUM, DZ_ROUTE_HEAVY } dz_route_class;

typedef enum dz_route_rule {
    DZ_ROUTE_LEARNED,
    DZ_ROUTE_BLOCKING, /* never light */
    DZ_ROUTE_INLINE,   /* always light */
} dz_route_rule;

struct dz_route {
    char *label; /* "GET /users/:id" */
    const char *pattern;
    dz_handler **chain; /* middleware, then the handler */
    size_t chain_len;
    uint64_t body_max; /* 0: the app's */
    dz_route_rule rule;
    uint8_t shed_class;   /* dz_shed_class */
    bool guarded;         /* requests may be refused */
    bool answers_shed;    /* its chain has dz_shed, which answers them */
    unsigned guard_index; /* among the routes that are guarded */
    size_t index;         /* among those that are counted; see dz_meter */
    dz_list link;
    struct dz_core *core;
    void *data; /* of a handler that serves several routes */

    /* Learned; any loop writes, relaxed. */
    _Atomic int klass;  /* dz_route_class */
    _Atomic int over;   /* requests that asked for a class up, less those that did not */
    _Atomic int under;  /* the same down */
    _Atomic int probes; /* requests to measure although the route is light */
    _Atomic int slow;   /* set by a request that took long; requests since then, counted down */
    _Atomic uint64_t requests, rescues, computed_ns, demotions;
    _Atomic uint64_t cpu_max_ns;
};

/* Where the next request of the route should run. */
static inline dz_route_class dz_route_now(const dz_route *route)
{
    return (dz_route_class)atomic_load_explicit(&((dz_route *)(uintptr_t)route)->klass,
                                                memory_order_relaxed);
}

/* Whether to measure a request for the metrics: the first ones, and where they took long lately. */
static inline bool dz_route_is_watched(dz_route *route)
{
    enum { FIRST = 64 };
    return atomic_load_explicit(&route->slow, memory_order_relaxed) > 0 ||
           atomic_load_explicit(&route->requests, memory_order_relaxed) < FIRST;
}

/* Whether to measure a request of a light route. */
bool dz_route_wants_probe(dz_route *route);

/* Learns from a finished request. `learn` false: counts only. */
void dz_route_learn(dz_route *route, const dz_fiber *fiber, bool learn);

#endif
