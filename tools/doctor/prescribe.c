/* What other ways of running a server that computes would give. */
#include "doctor.h"
#include "judging.h"

#include <math.h>
#include <stdio.h>

/* What the estimates are made from, of a Node loop or of a donmaz server. */
typedef struct basis {
    const dz_route_facts *routes;
    size_t count;
    uint64_t requests, few; /* fewer than that tell nothing */
    double own;             /* part of the routes' time that is theirs: not a wait for a core */
    double clients;         /* closed loops */
    bool full;              /* everything goes through one full loop */
    const char *what;
} basis;

static bool about_cpu(dz_verdict v)
{
    return v == DZ_VERDICT_BLOCKED || v == DZ_VERDICT_OVERLOADED || v == DZ_VERDICT_CORES;
}

/* Whether it computes in its handlers. The load's own word on its connections, else what was open
 * or under way at most. */
static bool of_node(basis *b, const dz_facts *f, const dz_loop_facts *l)
{
    if (!l || l->stall_gc >= 0.5 || (l->stall_cpu >= 0 && l->stall_cpu < 0.3))
        return false;
    *b = (basis){
        .routes = l->routes,
        .count = l->route_count,
        .requests = l->requests,
        .few = 20,
        .own = 1 - l->starved,
        .clients =
            f->load.connections > 0 ? f->load.connections : fmax(l->connections, l->inflight_max),
        .full = l->utilisation >= 0.9,
        .what = "loop time",
    };
    return true;
}

static bool of_donmaz(basis *b, const dz_facts *f)
{
    const dz_inside_facts *i = &f->inside;
    if (!i->known || dz_inside_blocked(f) == DZ_INSIDE_WAITS)
        return false;
    *b = (basis){
        .routes = i->routes,
        .count = i->route_count,
        .requests = (uint64_t)i->requests,
        .few = 5, /* measured CPU time */
        .own = 1,
        .clients = f->load.connections > 0 ? f->load.connections : i->in_flight,
        .full =
            dz_inside_blocked(f) == DZ_INSIDE_COMPUTES && i->loops == 1 && f->demand.busiest >= 0.9,
        .what = "CPU time",
    };
    return true;
}

/* A route's part of the connections. Behind a full loop every closed loop of a client has its turn
 * equally often. Else it is the route's part of the time that requests were under way. */
static double weight_of(const basis *b, const dz_route_facts *r)
{
    return b->full ? (double)r->count : (double)r->count * r->total_ms;
}

static void share_out(dz_doctor *d, const basis *b)
{
    double all = 0, whole = 0;
    for (size_t i = 0; i < b->count; i++)
        all += weight_of(b, &b->routes[i]);
    for (size_t i = 0; i < b->count && d->work_count < DZ_QUEUE_ROUTES; i++) {
        const dz_route_facts *r = &b->routes[i];
        double part = all > 0 ? weight_of(b, r) / all * b->clients : 0;
        if (r->count == 0 || r->sync_ms <= 0 || part < 0.5)
            continue;
        d->work[d->work_count].name = r->name;
        d->work[d->work_count++].queue =
            (dz_queue_route){.service_ms = r->sync_ms * b->own,
                             .deviation_ms = r->sync_deviation_ms * b->own,
                             .connections = round(part)};
        whole += round(part);
    }
    if (d->work_count > 0)
        snprintf(d->basis, sizeof d->basis,
                 "simulated from the measured %s of %zu route(s), %.0f connections, %u core(s), "
                 "with nothing else on the machine; what takes over %.0f ms runs in the workers",
                 b->what, d->work_count, whole, d->facts.cores, DZ_QUEUE_LONG_MS);
}

static bool add_estimate(dz_doctor *d, dz_queue_mode mode, dz_queue_deal deal,
                         const dz_queue_route *routes)
{
    enum { REQUESTS = 20000 };
    dz_queue_result *out = &d->estimates[d->estimate_count].result;
    d->estimates[d->estimate_count].mode = mode;
    d->estimates[d->estimate_count].deal = deal;
    bool good =
        dz_queue_simulate(mode, deal, d->facts.cores, routes, d->work_count, REQUESTS, out) == 0;
    d->estimate_count += good;
    return good;
}

/* A cluster also with unevenly dealt connections, where that makes a difference. */
static void estimate(dz_doctor *d, dz_queue_mode mode, const dz_queue_route *routes)
{
    size_t at = d->estimate_count;
    if (!add_estimate(d, mode, DZ_QUEUE_EVEN, routes)) {
        d->basis[0] = 0;
        return;
    }
    if ((mode != DZ_QUEUE_CLUSTER && mode != DZ_QUEUE_BOTH) ||
        !add_estimate(d, mode, DZ_QUEUE_UNEVEN, routes))
        return;
    const dz_queue_result *even = &d->estimates[at].result;
    const dz_queue_result *uneven = &d->estimates[at + 1].result;
    bool differs = false;
    for (size_t i = 0; i < d->work_count; i++)
        differs |= uneven->routes[i].p99_ms > 1.2 * even->routes[i].p99_ms;
    d->estimate_count -= !differs;
}

void dz_doctor_prescribe(dz_doctor *d)
{
    const dz_loop_facts *l = d->diagnosis.loop;
    dz_queue_route routes[DZ_QUEUE_ROUTES];
    basis b;
    if (!about_cpu(d->diagnosis.verdict) ||
        !(l ? of_node(&b, &d->facts, l) : of_donmaz(&b, &d->facts)))
        return;
    if (b.requests < b.few || b.clients < 1)
        return;
    share_out(d, &b);
    for (size_t i = 0; i < d->work_count; i++)
        routes[i] = d->work[i].queue;
    for (int m = 0; m < DZ_QUEUE_MODES && d->basis[0]; m++)
        estimate(d, (dz_queue_mode)m, routes);
}
