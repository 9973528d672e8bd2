/* donmaz servers, by their own figures. CPU time of handlers is theirs alone, so that these
 * verdicts hold however many other programs want the cores. */
#include "judging.h"

#include <math.h>
#include <stdio.h>

double dz_route_cost_ms(const dz_route_facts *r)
{
    return fmax(r->sync_ms, r->late_ms);
}

const dz_route_facts *dz_inside_route(const dz_facts *f)
{
    const dz_inside_facts *i = &f->inside;
    return i->known && i->route_count && i->routes[0].share >= 0.3 ? &i->routes[0] : NULL;
}

/* A rescued or offloaded request leaves the loop free. */
static bool on_loop(const dz_route_facts *r)
{
    return r->klass == 0 && r->rescued < 0.1;
}

/* Handlers ran for much longer than they computed, and waiting for a core does not explain it. */
static bool waits_in_calls(const dz_facts *f)
{
    const dz_inside_facts *i = &f->inside;
    double starved = f->demand.running > 0 && f->demand.waiting < 1
                         ? f->demand.running * f->demand.waiting / (1 - f->demand.waiting)
                         : 0; /* threads that wait for a core, on average */
    double idle = i->held_ms - i->cpu_ms - starved * i->seconds * 1e3;
    return idle >= 0.5 * i->held_ms && idle >= STALLED * i->seconds * 1e3;
}

dz_inside_fault dz_inside_blocked(const dz_facts *f)
{
    const dz_inside_facts *i = &f->inside;
    if (!i->known)
        return DZ_INSIDE_FREE;
    if (i->hung_ms > 0)
        return DZ_INSIDE_HUNG;
    const dz_route_facts *r = i->route_count ? &i->routes[0] : NULL;
    if (!r)
        return DZ_INSIDE_FREE;
    bool often = (i->stalls >= STALLS && i->stalled >= STALLED) || i->stalled >= 0.5;
    if (often && waits_in_calls(f))
        return DZ_INSIDE_WAITS;
    /* A loop that was long without a core while its handlers have little to do is not blocked. */
    if (often && fmax(r->piece_ms, dz_route_cost_ms(r)) >= DZ_PIECE_MS)
        return DZ_INSIDE_COMPUTES;
    bool costly = dz_route_cost_ms(r) >= DZ_PIECE_MS && on_loop(r) && f->demand.busiest >= 0.5;
    return costly && r->count >= 5 ? DZ_INSIDE_COMPUTES : DZ_INSIDE_FREE;
}

bool dz_inside_waiting(const dz_facts *f)
{
    const dz_inside_facts *i = &f->inside;
    enum { FREE_MS = 10 };
    /* Those that wait for a worker wait for a core, not for others. */
    if (!i->known || i->requests < 5 || i->delay_p50_ms >= FREE_MS ||
        f->demand.busiest >= WAITING_LOOP)
        return false;
    double took = i->request_ms / i->requests, held = i->held_ms / i->requests;
    return took >= WAITING_MS && held <= WAITING_PART * took;
}

void dz_explain_inside(dz_diagnosis *d, const dz_facts *f)
{
    const dz_inside_facts *i = &f->inside;
    const dz_route_facts *r = dz_inside_route(f);
    char who[48] = "";
    if (!i->known)
        return;
    if (i->loops > 1 && i->worker)
        snprintf(who, sizeof who, " (worker %u, loop %u)", i->worker, i->loop);
    else if (i->loops > 1)
        snprintf(who, sizeof who, " (loop %u)", i->loop);
    if (i->hung_ms > 0)
        dz_say(d, "its loop%s had not come back for %.1f s when the run ended", who,
               i->hung_ms / 1e3);
    if (i->stalls >= 1)
        dz_say(
            d,
            "by its own figures handlers held its loop%s %.0f times for %d ms or more, %.0f%% of "
            "the time (threshold %.0f%%)",
            who, i->stalls, DZ_EXPO_STALL_MS, 100 * i->stalled, 100 * STALLED);
    else
        dz_say(d,
               "by its own figures no handler held its loop for %d ms; a message waited for it at "
               "most %.1f ms in nine of ten cases",
               DZ_EXPO_STALL_MS, i->delay_p90_ms);
    if (r)
        dz_say(d,
               "%s: each of %llu requests computed %.1f ms (threshold %d ms) and held its thread "
               "%.1f ms, %.0f%% of all handlers' time",
               r->name, (unsigned long long)r->count, r->sync_ms, DZ_PIECE_MS, r->held_ms,
               100 * r->share);
    if (r && r->late_ms >= 1 && r->late_ms >= 1.2 * r->sync_ms)
        dz_say(d, "they cost ever more: %.1f ms on average in the second half", r->late_ms);
    if (r && r->piece_ms >= DZ_PIECE_MS && r->piece_ms >= 2 * r->sync_ms)
        dz_say(d, "few of them do nearly all of it, in pieces of about %.0f ms", r->piece_ms);
    if (i->rescues >= 1)
        dz_say(d, "the loop was rescued from handlers %.0f times and went on meanwhile",
               i->rescues);
    if (i->refused >= 1)
        dz_say(d, "%.0f requests were refused to protect it from overload", i->refused);
}
