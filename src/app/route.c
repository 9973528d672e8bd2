#include "app/route.h"

#include "base/clock.h"

enum { RELAXED = memory_order_relaxed };

static const uint64_t SUSPECT_NS = DZ_MS / 2; /* wall time from which a light route is measured */
static const uint64_t MEDIUM_NS = DZ_MS, HEAVY_NS = 25 * DZ_MS;
static const uint64_t LIGHT_AGAIN_NS = DZ_MS * 7 / 10, MEDIUM_AGAIN_NS = 18 * DZ_MS;

enum {
    PROBES = 16,    /* requests measured after a suspect one */
    SLOW_FOR = 64,  /* requests measured after one that took long */
    UP = 4,         /* how many more over than not move a route up */
    DOWN = 16,      /* down takes longer: the cost of being wrong is a hand-over, not a stall */
    SCORE_MAX = 32, /* so that a long past is forgotten soon */
};

bool dz_route_wants_probe(dz_route *route)
{
    int left = atomic_load_explicit(&route->probes, RELAXED);
    if (left <= 0)
        return false;
    atomic_store_explicit(&route->probes, left - 1, RELAXED);
    return true;
}

/* Two loops may lose each other's steps here; the score is a tendency, not a count. */
static int step(_Atomic int *score, bool up)
{
    int now = atomic_load_explicit(score, RELAXED) + (up ? 1 : -1);
    now = now < 0 ? 0 : now > SCORE_MAX ? SCORE_MAX : now;
    atomic_store_explicit(score, now, RELAXED);
    return now;
}

static void move(dz_route *route, dz_route_class to)
{
    atomic_store_explicit(&route->klass, (int)to, RELAXED);
    atomic_store_explicit(&route->over, 0, RELAXED);
    atomic_store_explicit(&route->under, 0, RELAXED);
}

static void learn_light(dz_route *route, const dz_fiber *fiber)
{
    bool measured = fiber->measure_cpu || fiber->rescued;
    if (!measured) {
        if (fiber->wall_ns >= SUSPECT_NS)
            atomic_store_explicit(&route->probes, PROBES, RELAXED);
        else if (atomic_load_explicit(&route->over, RELAXED) > 0)
            step(&route->over, false);
        return;
    }
    if (step(&route->over, fiber->cpu_ns > MEDIUM_NS) >= UP)
        move(route, fiber->cpu_ns > HEAVY_NS ? DZ_ROUTE_HEAVY : DZ_ROUTE_MEDIUM);
    else if (atomic_load_explicit(&route->over, RELAXED) > 0)
        atomic_store_explicit(&route->probes, PROBES, RELAXED);
}

static void learn_offloaded(dz_route *route, const dz_fiber *fiber, dz_route_class klass)
{
    uint64_t up = klass == DZ_ROUTE_MEDIUM ? HEAVY_NS : UINT64_MAX;
    uint64_t down = klass == DZ_ROUTE_MEDIUM ? LIGHT_AGAIN_NS : MEDIUM_AGAIN_NS;
    if (step(&route->over, fiber->cpu_ns > up) >= UP) {
        move(route, DZ_ROUTE_HEAVY);
        return;
    }
    bool may_go_down = klass == DZ_ROUTE_HEAVY || route->rule == DZ_ROUTE_LEARNED;
    if (may_go_down && step(&route->under, fiber->cpu_ns < down) >= DOWN)
        move(route, klass == DZ_ROUTE_HEAVY ? DZ_ROUTE_MEDIUM : DZ_ROUTE_LIGHT);
}

/* Where requests take long, measuring them costs next to nothing; a few that begin before the first
 * of them ends are missed. */
static void note_slow(dz_route *route, const dz_fiber *fiber)
{
    int left = atomic_load_explicit(&route->slow, RELAXED);
    if (fiber->wall_ns >= SUSPECT_NS)
        atomic_store_explicit(&route->slow, SLOW_FOR, RELAXED);
    else if (left > 0)
        atomic_store_explicit(&route->slow, left - 1, RELAXED);
}

void dz_route_learn(dz_route *route, const dz_fiber *fiber, bool learn)
{
    atomic_fetch_add_explicit(&route->requests, 1, RELAXED);
    if (fiber->rescued) {
        atomic_fetch_add_explicit(&route->rescues, 1, RELAXED);
        atomic_fetch_add_explicit(&route->computed_ns, fiber->wall_ns, RELAXED);
    }
    if (fiber->demoted)
        atomic_fetch_add_explicit(&route->demotions, 1, RELAXED);
    if (fiber->cpu_ns > atomic_load_explicit(&route->cpu_max_ns, RELAXED))
        atomic_store_explicit(&route->cpu_max_ns, fiber->cpu_ns, RELAXED);
    note_slow(route, fiber);
    if (!learn || route->rule == DZ_ROUTE_INLINE)
        return;
    dz_route_class klass = dz_route_now(route);
    if (klass == DZ_ROUTE_LIGHT)
        learn_light(route, fiber);
    else
        learn_offloaded(route, fiber, klass);
}
