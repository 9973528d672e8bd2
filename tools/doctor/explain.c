/* A verdict's evidence in words. */
#include "judging.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

void dz_say(dz_diagnosis *d, const char *format, ...)
{
    if (d->evidence_count == DZ_MAX_LINES)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(d->evidence[d->evidence_count++], DZ_LINE, format, args);
    va_end(args);
}

static void chart(dz_diagnosis *d, const char *name)
{
    snprintf(d->series, sizeof d->series, "%s", name);
}

static void say_culprit(dz_diagnosis *d, const dz_culprit *c, const char *of)
{
    if (!c->known)
        return;
    dz_say(d, "%.0f%% of %s was spent in %s (%s%s%.0u)", 100 * c->share, of, c->name,
           c->file[0] ? c->file : "no file", c->line ? ":" : "", c->line);
    if (c->caller[0])
        dz_say(d, "it is called by %s (%s:%u)", c->caller, c->caller_file, c->caller_line);
    if (c->inner[0])
        dz_say(d, "most of that below it, in %s (%.0f%%)", c->inner, 100 * c->inner_share);
}

static void say_route(dz_diagnosis *d, const dz_loop_facts *l)
{
    if (l->route_count && l->routes[0].share >= 0.3)
        dz_say(d,
               "%s: each of %llu requests held the loop %.1f ms (longest %.0f ms), %.0f%% of its "
               "busy time",
               l->routes[0].name, (unsigned long long)l->routes[0].count, l->routes[0].sync_ms,
               l->routes[0].sync_max_ms, 100 * l->routes[0].share);
}

static void explain_outside_blocked(dz_diagnosis *d, const dz_facts *f)
{
    const dz_probe_facts *p = &f->probe;
    dz_explain_inside(d, f);
    if (p->pending_ms >= 1000)
        dz_say(d, "it had not answered for %.1f s when the load ended", p->pending_ms / 1e3);
    if (p->late < STALLS && p->stalled_at_all >= 0.5 && !f->inside.known)
        dz_say(d,
               "asked from outside %zu times, it took %d ms or more to answer for %.0f%% of the "
               "time, waits for a core included",
               p->answered, DZ_STALL_MS, 100 * p->stalled_at_all);
    if (p->late >= STALLS)
        dz_say(d,
               "asked from outside %zu times, it took %d ms or more to answer %zu times: %.0f%% of "
               "the time (threshold %.0f%%), %.0f ms at worst",
               p->answered, DZ_STALL_MS, p->late, 100 * p->stalled, 100 * STALLED, p->max_ms);
    if (f->inside.known && dz_inside_blocked(f) == DZ_INSIDE_WAITS)
        dz_say(d, "its handlers held their thread for much longer than they computed: they wait in "
                  "a synchronous call");
    else if (f->demand.busiest >= FULL && dz_cpu_per_request_ms(f) > 0)
        dz_say(d,
               "one thread was busy all the time, and a request cost %s%.1f ms of CPU (threshold "
               "%d ms)",
               f->load.known ? "" : "at least ", dz_cpu_per_request_ms(f), DZ_PIECE_MS);
    else if (f->demand.busiest < 0.5)
        dz_say(d,
               "meanwhile no thread computed for more than %.0f%% of the time: the loop waits in "
               "a synchronous call",
               100 * f->demand.busiest);
    say_culprit(d, &f->native, "its CPU time");
}

void dz_explain_blocked(dz_diagnosis *d, const dz_facts *f, const dz_loop_facts *l)
{
    chart(d, l || f->inside.known ? "delay" : "cpu");
    if (!l) {
        explain_outside_blocked(d, f);
        return;
    }
    if (l->hung)
        dz_say(d, "the loop of process %d had not come back when the run ended", (int)l->pid);
    if (l->stalls)
        dz_say(d,
               "the loop stood still %zu times for %d ms or more, %.0f%% of the time (threshold "
               "%.0f%%); longest delay %.0f ms",
               l->stalls, DZ_STALL_MS, 100 * l->stalled, 100 * STALLED, l->delay_max_ms);
    if (l->requests && dz_cost_ms(l) >= DZ_PIECE_MS)
        dz_say(d, "a request costs the loop %.1f ms on average (threshold %d ms)", dz_cost_ms(l),
               DZ_PIECE_MS);
    say_culprit(d, &l->culprit, l->stalls ? "the stalls" : "the loop's busy time");
    say_route(d, l);
    if (l->stall_cpu >= 0 && l->stall_cpu < 0.3)
        dz_say(d,
               "while it stood still its thread hardly computed (%.0f%% of a core): it waited in a "
               "synchronous call",
               100 * l->stall_cpu);
}

void dz_explain_memory(dz_diagnosis *d, const dz_facts *f, const dz_loop_facts *l)
{
    chart(d, l ? "heap" : "rss");
    if (l && l->heap_start_mb >= 0 && l->heap_end_mb >= 0)
        dz_say(d,
               "after a full garbage collection the heap and its buffers held %.1f MB before the "
               "load and %.1f MB after it: %.1f MB more (threshold %.0f MB and %.0f%%)",
               l->heap_start_mb, l->heap_end_mb, l->heap_end_mb - l->heap_start_mb, RETAINED_MB,
               100 * RETAINED_PART);
    if (l && l->requests && l->heap_end_mb > l->heap_start_mb)
        dz_say(d, "that is %.1f kB for each of %llu requests, %.1f MB a minute at this rate",
               1e3 * (l->heap_end_mb - l->heap_start_mb) / (double)l->requests,
               (unsigned long long)l->requests,
               60 * (l->heap_end_mb - l->heap_start_mb) / f->seconds);
    if (l)
        dz_say(d, "its lowest level was still rising in the second half: %.1f MB",
               l->floor_late_mb);
    for (size_t i = 0; !l && i < f->process_count; i++)
        if (dz_process_grows(&f->processes[i]))
            dz_say(d,
                   "%s (process %d) grew from %.1f to %.1f MB (threshold %.0f MB and %.0f%%), "
                   "%.1f MB of it in the second half",
                   f->processes[i].name, (int)f->processes[i].pid, f->processes[i].rss_start_mb,
                   f->processes[i].rss_end_mb, RSS_MB, 100 * RETAINED_PART,
                   f->processes[i].rss_late_mb);
}

void dz_explain_garbage(dz_diagnosis *d, const dz_loop_facts *l)
{
    chart(d, "gc");
    dz_say(d,
           "%.0f%% of the time went into %zu garbage collections (threshold %.0f%%), %zu of them "
           "full ones; longest pause %.0f ms",
           100 * l->gc, l->gcs, 100 * GC_SHARE, l->gcs_major, l->gc_max_ms);
    if (l->stalls)
        dz_say(d, "of the time the loop stood still, %.0f%% was garbage collection",
               100 * l->stall_gc);
    say_culprit(d, &l->culprit, "the loop's busy time");
    say_route(d, l);
}

void dz_explain_cores(dz_diagnosis *d, const dz_facts *f)
{
    chart(d, "cpu");
    dz_say(d, "%.1f threads wanted to run at any time, for %u core%s (threshold %.1f)",
           f->demand.wanted, f->cores, f->cores == 1 ? "" : "s", f->cores + EXTRA_DEMAND);
    dz_say(d, "of the time they could have run, they waited for a core %.0f%% (threshold %.0f%%)",
           100 * f->demand.waiting, 100 * WAIT_SHARE);
    if (f->demand.throttled >= THROTTLED)
        dz_say(d, "the container's CPU quota stopped it %.0f%% of the time",
               100 * f->demand.throttled);
    dz_explain_inside(d, f);
}

void dz_explain_overloaded(dz_diagnosis *d, const dz_facts *f, const dz_loop_facts *l)
{
    chart(d, "cpu");
    if (!l) {
        if (f->demand.busiest >= FULL)
            dz_say(d,
                   "one thread was busy %.0f%% of the time (threshold %.0f%%) while %.1f of %u "
                   "cores were in use",
                   100 * f->demand.busiest, 100 * FULL, f->demand.machine, f->cores);
        else
            dz_say(d, "%.1f threads wanted to run at any time, for %u cores (threshold %.1f)",
                   f->demand.ready, f->cores, FULL_MACHINE * f->cores);
        if (f->load.known)
            dz_say(d, "half of the requests took %.0f ms or more (threshold %.0f ms)",
                   f->load.p50_ms, QUEUE_MS);
        else
            dz_say(d, "asked from outside, it took %d ms or more to answer for %.0f%% of the time",
                   DZ_STALL_MS, 100 * f->probe.stalled);
        if (f->load.known && dz_cpu_per_request_ms(f) > 0)
            dz_say(d, "a request costs %.2f ms of CPU, %.0f were answered a second",
                   dz_cpu_per_request_ms(f), f->load.rps);
        dz_explain_inside(d, f);
        say_culprit(d, &f->native, "its CPU time");
        return;
    }
    dz_say(d,
           "the loop was busy %.0f%% of the time (threshold %.0f%%), and a tick came %.0f ms late "
           "or more one time in ten (threshold %.0f ms)",
           100 * l->utilisation, 100 * FULL, l->delay_p90_ms, QUEUE_MS);
    dz_say(d,
           "no single piece of work is to blame: a request takes %.2f ms of the loop, the longest "
           "piece %.0f ms",
           l->sync_ms, l->piece_max_ms);
    dz_say(d, "%.0f requests were in flight on average, %.0f were answered a second", l->inflight,
           (double)l->requests / fmax(0.001, l->seconds));
    say_culprit(d, &l->culprit, "its busy time");
}

void dz_explain_waiting(dz_diagnosis *d, const dz_facts *f, const dz_loop_facts *l)
{
    chart(d, "inflight");
    if (!l && f->inside.known) {
        const dz_inside_facts *in = &f->inside;
        dz_say(d,
               "a request took %.0f ms on average (threshold %.0f ms), but its handler ran only "
               "%.1f ms of it",
               in->request_ms / in->requests, WAITING_MS, in->held_ms / in->requests);
        for (size_t i = 0; i < in->route_count; i++)
            if (in->routes[i].total_ms >= WAITING_MS)
                dz_say(d, "%s: %.0f ms, %llu requests", in->routes[i].name, in->routes[i].total_ms,
                       (unsigned long long)in->routes[i].count);
        dz_say(d, "a message waited for the loop at most %.1f ms in nine of ten cases",
               in->delay_p90_ms);
        return;
    }
    if (!l) {
        dz_say(d,
               "half of the requests took %.0f ms or more (threshold %.0f ms), yet its busiest "
               "thread ran %.0f%% of the time",
               f->load.p50_ms, WAITING_MS, 100 * f->demand.busiest);
        if (f->probe.answered)
            dz_say(d,
                   "asked from outside meanwhile, it answered within %.1f ms in nine of ten cases",
                   f->probe.p90_ms);
        return;
    }
    dz_say(d, "a request took %.0f ms on average (threshold %.0f ms), but only %.1f ms of the loop",
           l->request_ms, WAITING_MS, l->sync_ms);
    dz_say(d,
           "the loop was busy %.0f%% of the time (threshold %.0f%%) with %.0f requests in flight",
           100 * l->utilisation, 100 * WAITING_LOOP, l->inflight);
    for (size_t i = 0; i < l->route_count; i++)
        if (l->routes[i].total_ms >= WAITING_MS)
            dz_say(d, "%s: %.0f ms, %llu requests", l->routes[i].name, l->routes[i].total_ms,
                   (unsigned long long)l->routes[i].count);
}

void dz_explain_healthy(dz_diagnosis *d, const dz_facts *f, const dz_loop_facts *l)
{
    if (l) {
        dz_say(d,
               "the busiest loop was busy %.0f%% of the time; its ticks came at most %.1f ms late "
               "in 99 of 100 cases, %.0f ms at worst",
               100 * l->utilisation, l->delay_p99_ms, l->delay_max_ms);
        dz_say(d,
               "it stood still (%d ms or more) %.1f%% of the time, garbage collection took %.1f%%",
               DZ_STALL_MS, 100 * l->stalled, 100 * l->gc);
        if (l->requests)
            dz_say(d, "%.0f requests a second, %.1f ms each, %.2f ms of them on the loop",
                   (double)l->requests / fmax(0.001, l->seconds), l->request_ms, l->sync_ms);
        if (l->utilisation >= FULL)
            dz_say(d, "it is near its limit: more load will only wait longer");
    } else {
        dz_say(d,
               "%.2f cores were used of %u; threads waited for a core %.0f%% of the time they "
               "could have run",
               f->demand.running, f->cores, 100 * f->demand.waiting);
        if (f->probe.answered)
            dz_say(d,
                   "asked from outside %zu times, it answered within %.1f ms in nine of ten cases, "
                   "%.0f ms at worst",
                   f->probe.answered, f->probe.p90_ms, f->probe.max_ms);
        dz_explain_inside(d, f);
    }
}
