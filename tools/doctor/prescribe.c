/* What other ways of running a server that computes would give. */
#include "doctor.h"

#include <math.h>
#include <stdio.h>

/* Whether it computes in its handlers, and enough was seen of them. */
static bool applies(const dz_doctor *d, const dz_loop_facts *l)
{
    dz_verdict v = d->diagnosis.verdict;
    if (v != DZ_VERDICT_BLOCKED && v != DZ_VERDICT_OVERLOADED && v != DZ_VERDICT_CORES)
        return false;
    bool computes = l && l->stall_gc < 0.5 && !(l->stall_cpu >= 0 && l->stall_cpu < 0.3);
    return computes && l->requests >= 20;
}

/* The load's own word, else what was open or under way at most. */
static double clients(const dz_facts *f, const dz_loop_facts *l)
{
    return f->load.connections > 0 ? f->load.connections : fmax(l->connections, l->inflight_max);
}

/* A route's part of the connections. Behind a full loop every closed loop of a client has its turn
 * equally often. Else it is the route's part of the time that requests were under way. */
static double weight_of(const dz_loop_facts *l, const dz_route_facts *r)
{
    return l->utilisation >= 0.9 ? (double)r->count : (double)r->count * r->total_ms;
}

static void share_out(dz_doctor *d, const dz_loop_facts *l, double total)
{
    double all = 0, whole = 0;
    for (size_t i = 0; i < l->route_count; i++)
        all += weight_of(l, &l->routes[i]);
    for (size_t i = 0; i < l->route_count && d->work_count < DZ_QUEUE_ROUTES; i++) {
        const dz_route_facts *r = &l->routes[i];
        double part = all > 0 ? weight_of(l, r) / all * total : 0;
        if (r->count == 0 || r->sync_ms <= 0 || part < 0.5)
            continue;
        double own = 1 - l->starved;
        d->work[d->work_count].name = r->name;
        d->work[d->work_count++].queue =
            (dz_queue_route){.service_ms = r->sync_ms * own,
                             .deviation_ms = r->sync_deviation_ms * own,
                             .connections = round(part)};
        whole += round(part);
    }
    snprintf(d->basis, sizeof d->basis,
             "simulated from the measured loop time of %zu route(s), %.0f connections, %u core(s), "
             "with nothing else on the machine; what takes over %.0f ms runs in the workers",
             d->work_count, whole, d->facts.cores, DZ_QUEUE_LONG_MS);
}

void dz_doctor_prescribe(dz_doctor *d)
{
    enum { REQUESTS = 20000 };
    const dz_loop_facts *l = d->diagnosis.loop;
    dz_queue_route routes[DZ_QUEUE_ROUTES];
    if (!applies(d, l) || clients(&d->facts, l) < 1)
        return;
    share_out(d, l, clients(&d->facts, l));
    for (size_t i = 0; i < d->work_count; i++)
        routes[i] = d->work[i].queue;
    for (int m = 0; m < DZ_QUEUE_MODES; m++)
        if (dz_queue_simulate((dz_queue_mode)m, d->facts.cores, routes, d->work_count, REQUESTS,
                              &d->estimates[m]) < 0)
            d->basis[0] = 0;
}
