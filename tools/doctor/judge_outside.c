/* Programs whose inside can't be seen: threads, memory, what the load saw, and the probe. */
#include "judging.h"

#include <math.h>

bool dz_process_grows(const dz_process_facts *p)
{
    double rise = p->rss_end_mb - p->rss_start_mb;
    return !p->node && p->rss_steady && rise >= RSS_MB && rise >= RETAINED_PART * p->rss_start_mb &&
           p->rss_late_mb >= 0.3 * rise;
}

/* At most how many requests there were, where the load does not say: each takes a segment there and
 * one back, and both ends of it are counted when the load runs here. What the probe sends is left
 * out. Other programs' traffic makes it more. */
static double most_requests(const dz_facts *f)
{
    enum { OF_A_PROBE = 7 };
    double probes = f->seconds > 0 ? (double)f->probe.count / f->seconds : 0;
    return fmax(1, (f->demand.segments - OF_A_PROBE * probes) / 2);
}

double dz_cpu_per_request_ms(const dz_facts *f)
{
    enum { FEW = 5 };
    if (!f->load.known && f->demand.segments > 0)
        return f->demand.running * 1e3 / most_requests(f);
    if (!f->load.known || f->load.rps <= 0)
        return 0;
    double all = f->demand.running * 1e3 / f->load.rps;
    double late = f->load.late_requests >= FEW ? f->load.late_cpu / f->load.late_requests : 0;
    return late > all ? late : all;
}

/* One thread does all the work: what it is at keeps the rest waiting. */
static bool one_by_one(const dz_facts *f)
{
    return f->demand.busiest >= FULL && f->demand.wanted < f->demand.busiest + 0.5;
}

/* Threads or processes share the work, and there is no core left for more of them. */
static bool spread(const dz_facts *f)
{
    return f->cores > 1 && f->demand.ready >= FULL_MACHINE * f->cores &&
           f->demand.wanted >= f->demand.busiest + 0.5;
}

static bool often_late(const dz_probe_facts *p)
{
    return (p->late >= STALLS && p->stalled >= STALLED) || p->stalled >= 0.5;
}

static bool blocked(const dz_facts *f)
{
    const dz_probe_facts *p = &f->probe;
    double cost = dz_cpu_per_request_ms(f);
    if (p->pending_ms >= 1000 && p->answered > 0)
        return true;
    if (p->answered == 0) /* not to be had: by what a request costs alone */
        return one_by_one(f) && cost >= DZ_PIECE_MS;
    /* Its one thread is always at work or waits for a core, and each request costs CPU time, which
     * is the same whatever others take: it is not they who keep the probe waiting. */
    if (one_by_one(f) && cost >= DZ_PIECE_MS && p->stalled_at_all >= 0.5)
        return true;
    if (!often_late(p))
        return false;
    /* Late because many short requests came before: overloaded. Late although half of the requests
     * are quick, or although hardly anything computes: single pieces of work, or a synchronous
     * call. */
    return (cost >= DZ_PIECE_MS && !spread(f)) || f->demand.busiest < 0.5 ||
           (f->load.known && f->load.p50_ms < QUEUE_MS);
}

static bool overloaded(const dz_facts *f)
{
    bool full = f->demand.busiest >= FULL || f->demand.ready >= FULL_MACHINE * f->cores;
    bool slow = f->load.known ? f->load.p50_ms >= QUEUE_MS : often_late(&f->probe);
    return full && slow;
}

static bool waiting(const dz_facts *f)
{
    /* A loop that answers the probe late is not waiting for others; nor can it be told when other
     * programs have all the cores. */
    if ((f->probe.answered > 0 && f->probe.p50_ms >= DZ_STALL_MS) ||
        f->demand.others >= FULL * f->cores)
        return false;
    return f->load.known && f->load.p50_ms >= WAITING_MS && f->demand.busiest < WAITING_LOOP &&
           dz_cpu_per_request_ms(f) <= WAITING_PART * f->load.p50_ms;
}

dz_outside_view dz_look_outside(const dz_facts *f)
{
    dz_outside_view v = {0};
    for (size_t i = 0; i < f->process_count; i++)
        v.memory |= dz_process_grows(&f->processes[i]);
    if (f->loop_count > 0) /* Node's loops tell better */
        return v;
    if (f->inside.known) { /* and so do donmaz's */
        v.blocked = dz_inside_blocked(f) != DZ_INSIDE_FREE;
        v.waiting = !v.blocked && dz_inside_waiting(f);
        v.overloaded = !v.blocked && !v.waiting && overloaded(f);
        return v;
    }
    v.blocked = blocked(f);
    v.overloaded = !v.blocked && overloaded(f);
    v.waiting = !v.blocked && !v.overloaded && waiting(f);
    return v;
}
