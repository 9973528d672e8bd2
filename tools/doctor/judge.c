#include "judge.h"

#include "advice.h"

#include <donmaz/export.h>

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* The thresholds, each printed beside what was measured; docs/doctor.md gives the reasons. */
#define MIN_SECONDS   1.0
#define STALLED       0.05 /* of the time */
#define STALLS        2    /* once is a hiccup */
#define GC_SHARE      0.15
#define GC_OF_STALLS  0.50
#define RETAINED_MB   8.0
#define RETAINED_PART 0.20
#define RSS_MB        20.0
#define WAIT_SHARE    0.20
#define EXTRA_DEMAND  0.5 /* cores */
#define THROTTLED     0.05
#define FULL          0.90 /* utilisation */
#define QUEUE_MS      20.0
#define WAITING_MS    20.0
#define WAITING_LOOP  0.70
#define WAITING_PART  0.20

const char *dz_verdict_name(dz_verdict verdict)
{
    static const char *const names[] = {
#define X(name, json, words) json,
        DZ_VERDICTS(X)
#undef X
    };
    return names[verdict];
}

const char *dz_verdict_words(dz_verdict verdict)
{
    static const char *const names[] = {
#define X(name, json, words) words,
        DZ_VERDICTS(X)
#undef X
    };
    return names[verdict];
}

static void DZ_PRINTF(2, 3) say(dz_diagnosis *d, const char *format, ...)
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

/* What a request costs the loop, as if no other program had taken the cores: what ran right after
 * it began, or, of a loop that hardly rests, all it did. */
static double cost_ms(const dz_loop_facts *l)
{
    double whole = l->requests ? l->utilisation * l->seconds * 1e3 / (double)l->requests : 0;
    double cost = l->utilisation >= FULL && whole > l->sync_ms ? whole : l->sync_ms;
    return cost * (1 - l->starved);
}

static bool loop_memory(const dz_loop_facts *l)
{
    if (l->heap_start_mb >= 0 && l->heap_end_mb >= 0) {
        double held = l->heap_end_mb - l->heap_start_mb;
        /* A cache that fills up stops rising before the end. */
        return held >= RETAINED_MB && held >= RETAINED_PART * l->heap_start_mb &&
               l->floor_late_mb >= 0.2 * held;
    }
    /* Before the first full collections whatever was once promoted only adds up. */
    return l->gcs_major >= 3 && l->floor_steady && l->floor_rise_mb >= RSS_MB &&
           l->floor_rise_mb >= RETAINED_PART * l->floor_start_mb &&
           l->floor_late_mb >= 0.3 * l->floor_rise_mb;
}

static bool process_memory(const dz_process_facts *p)
{
    double rise = p->rss_end_mb - p->rss_start_mb;
    return !p->node && p->rss_steady && rise >= RSS_MB && rise >= RETAINED_PART * p->rss_start_mb &&
           p->rss_late_mb >= 0.3 * rise;
}

static bool loop_garbage(const dz_loop_facts *l)
{
    return l->gc >= GC_SHARE || (l->gc >= GC_SHARE / 3 && l->stalls >= STALLS &&
                                 l->stalled >= STALLED && l->stall_gc >= GC_OF_STALLS);
}

static bool loop_blocked(const dz_loop_facts *l)
{
    /* A worker thread that answers no requests itself is there to compute. */
    if (strcmp(l->role, "worker") == 0 && l->requests == 0)
        return false;
    if (l->hung)
        return true;
    bool often = l->stalls >= STALLS || l->stalled >= 0.5;
    if (often && l->stalled >= STALLED && l->single >= 0.5 && l->stall_gc < GC_OF_STALLS)
        return true;
    return l->utilisation >= 0.5 && l->requests >= 5 && cost_ms(l) >= DZ_PIECE_MS &&
           l->gc < 0.5 * l->utilisation;
}

static bool loop_overloaded(const dz_loop_facts *l)
{
    return l->requests > 0 && l->utilisation >= FULL &&
           l->delay_p90_ms * (1 - l->starved) >= QUEUE_MS;
}

static bool loop_waiting(const dz_loop_facts *l)
{
    return l->requests >= 5 && l->request_ms >= WAITING_MS && l->utilisation < WAITING_LOOP &&
           l->sync_ms <= WAITING_PART * l->request_ms;
}

static double blocked_weight(const dz_loop_facts *l)
{
    return l->hung ? 2 : l->stalled + l->utilisation / 10;
}

static double waiting_weight(const dz_loop_facts *l)
{
    return l->request_ms * (double)l->requests;
}

static double memory_weight(const dz_loop_facts *l)
{
    return fmax(l->heap_end_mb - l->heap_start_mb, l->floor_rise_mb);
}

static double gc_weight(const dz_loop_facts *l)
{
    return l->gc + l->stalled * l->stall_gc;
}

static double busy_weight(const dz_loop_facts *l)
{
    return l->utilisation + l->delay_p90_ms / 1e6;
}

/* The loop for which `holds`, of the largest weight; NULL. */
static const dz_loop_facts *worst(const dz_facts *f, bool (*holds)(const dz_loop_facts *),
                                  double (*weight)(const dz_loop_facts *))
{
    const dz_loop_facts *best = NULL;
    for (size_t i = 0; i < f->loop_count; i++) {
        const dz_loop_facts *l = &f->loops[i];
        if ((!holds || holds(l)) && (!best || weight(l) > weight(best)))
            best = l;
    }
    return best;
}

static bool too_few_cores(const dz_facts *f)
{
    return f->demand.throttled >= THROTTLED ||
           (f->demand.wanted >= f->cores + EXTRA_DEMAND && f->demand.waiting >= WAIT_SHARE);
}

/* The process that is no Node and does most. */
static const dz_process_facts *busiest(const dz_facts *f)
{
    const dz_process_facts *best = NULL;
    for (size_t i = 0; i < f->process_count; i++)
        if (!f->processes[i].node && (!best || f->processes[i].cpu > best->cpu))
            best = &f->processes[i];
    return best;
}

static double cpu_per_request_ms(const dz_facts *f)
{
    return f->load.known && f->load.requests > 0
               ? f->demand.running * f->seconds * 1e3 / f->load.requests
               : 0;
}

/* A program whose inside can't be seen: one thread full, and what a request costs. */
static bool outside_full(const dz_facts *f, const dz_process_facts *p)
{
    return f->loop_count == 0 && p && p->main_cpu + p->main_wait >= FULL &&
           p->cpu < p->main_cpu + 0.5;
}

static bool outside_waiting(const dz_facts *f)
{
    return f->loop_count == 0 && f->load.known && f->load.p50_ms >= WAITING_MS &&
           f->demand.wanted < 0.5;
}

static bool nothing_happened(const dz_facts *f)
{
    uint64_t requests = (uint64_t)(f->load.known ? f->load.requests : 0);
    for (size_t i = 0; i < f->loop_count; i++) {
        if (f->loops[i].hung || f->loops[i].stalled >= 0.2)
            return false;
        requests += f->loops[i].requests;
    }
    /* A little is start-up, and our own collecting of garbage. */
    return requests == 0 && f->demand.running < (f->loop_count ? 0.3 : 0.05);
}

static bool no_data(dz_diagnosis *d, const dz_facts *f)
{
    if (f->seconds < MIN_SECONDS) {
        say(d, "%.1f s under load were seen; at least %.0f s are needed", f->seconds, MIN_SECONDS);
        return true;
    }
    if (nothing_happened(f)) {
        say(d, "nothing happened in the %.1f s that were watched: no request, %.1f%% of a core",
            f->seconds, 100 * f->demand.running);
        return true;
    }
    return false;
}

static void say_culprit(dz_diagnosis *d, const dz_culprit *c, const char *of)
{
    if (!c->known)
        return;
    say(d, "%.0f%% of %s was spent in %s (%s%s%.0u)", 100 * c->share, of, c->name,
        c->file[0] ? c->file : "no file", c->line ? ":" : "", c->line);
    if (c->caller[0])
        say(d, "it is called by %s (%s:%u)", c->caller, c->caller_file, c->caller_line);
    if (c->inner[0])
        say(d, "most of that below it, in %s (%.0f%%)", c->inner, 100 * c->inner_share);
}

static void say_route(dz_diagnosis *d, const dz_loop_facts *l)
{
    if (l->route_count && l->routes[0].share >= 0.3)
        say(d,
            "%s: each of %llu requests held the loop %.1f ms (longest %.0f ms), %.0f%% of its "
            "busy time",
            l->routes[0].name, (unsigned long long)l->routes[0].count, l->routes[0].sync_ms,
            l->routes[0].sync_max_ms, 100 * l->routes[0].share);
}

static void explain_blocked(dz_diagnosis *d, const dz_loop_facts *l)
{
    if (l->hung)
        say(d, "the loop of process %d had not come back when the run ended", (int)l->pid);
    if (l->stalls)
        say(d,
            "the loop stood still %zu times for %d ms or more, %.0f%% of the time (threshold "
            "%.0f%%); longest delay %.0f ms",
            l->stalls, DZ_STALL_MS, 100 * l->stalled, 100 * STALLED, l->delay_max_ms);
    if (l->requests && cost_ms(l) >= DZ_PIECE_MS)
        say(d, "a request costs the loop %.1f ms on average (threshold %d ms)", cost_ms(l),
            DZ_PIECE_MS);
    say_culprit(d, &l->culprit, l->stalls ? "the stalls" : "the loop's busy time");
    say_route(d, l);
    if (l->stall_cpu >= 0 && l->stall_cpu < 0.3)
        say(d,
            "while it stood still its thread hardly computed (%.0f%% of a core): it waited in a "
            "synchronous call",
            100 * l->stall_cpu);
    chart(d, "delay");
}

static void explain_memory(dz_diagnosis *d, const dz_facts *f, const dz_loop_facts *l)
{
    chart(d, l ? "heap" : "rss");
    if (l && l->heap_start_mb >= 0 && l->heap_end_mb >= 0)
        say(d,
            "after a full garbage collection the heap and its buffers held %.1f MB before the "
            "load and %.1f MB after it: %.1f MB more (threshold %.0f MB and %.0f%%)",
            l->heap_start_mb, l->heap_end_mb, l->heap_end_mb - l->heap_start_mb, RETAINED_MB,
            100 * RETAINED_PART);
    if (l && l->requests && l->heap_end_mb > l->heap_start_mb)
        say(d, "that is %.1f kB for each of %llu requests, %.1f MB a minute at this rate",
            1e3 * (l->heap_end_mb - l->heap_start_mb) / (double)l->requests,
            (unsigned long long)l->requests, 60 * (l->heap_end_mb - l->heap_start_mb) / f->seconds);
    if (l)
        say(d, "its lowest level was still rising in the second half: %.1f MB", l->floor_late_mb);
    for (size_t i = 0; !l && i < f->process_count; i++)
        if (process_memory(&f->processes[i]))
            say(d,
                "%s (process %d) grew from %.1f to %.1f MB (threshold %.0f MB and %.0f%%), "
                "%.1f MB of it in the second half",
                f->processes[i].name, (int)f->processes[i].pid, f->processes[i].rss_start_mb,
                f->processes[i].rss_end_mb, RSS_MB, 100 * RETAINED_PART,
                f->processes[i].rss_late_mb);
}

static void explain_garbage(dz_diagnosis *d, const dz_loop_facts *l)
{
    chart(d, "gc");
    say(d,
        "%.0f%% of the time went into %zu garbage collections (threshold %.0f%%), %zu of them "
        "full ones; longest pause %.0f ms",
        100 * l->gc, l->gcs, 100 * GC_SHARE, l->gcs_major, l->gc_max_ms);
    if (l->stalls)
        say(d, "of the time the loop stood still, %.0f%% was garbage collection",
            100 * l->stall_gc);
    say_culprit(d, &l->culprit, "the loop's busy time");
    say_route(d, l);
}

static void explain_cores(dz_diagnosis *d, const dz_facts *f)
{
    chart(d, "cpu");
    say(d, "%.1f threads wanted to run at any time, for %u core%s (threshold %.1f)",
        f->demand.wanted, f->cores, f->cores == 1 ? "" : "s", f->cores + EXTRA_DEMAND);
    say(d, "of the time they could have run, they waited for a core %.0f%% (threshold %.0f%%)",
        100 * f->demand.waiting, 100 * WAIT_SHARE);
    if (f->demand.throttled >= THROTTLED)
        say(d, "the container's CPU quota stopped it %.0f%% of the time",
            100 * f->demand.throttled);
}

static void explain_overloaded(dz_diagnosis *d, const dz_facts *f, const dz_loop_facts *l)
{
    chart(d, "cpu");
    if (!l) {
        say(d,
            "one thread was busy all the time (threshold %.0f%%) while %.1f of %u cores were "
            "in use",
            100 * FULL, f->demand.machine, f->cores);
        if (cpu_per_request_ms(f) > 0)
            say(d, "a request costs %.2f ms of CPU, %.0f were answered a second",
                cpu_per_request_ms(f), f->load.rps);
        return;
    }
    say(d,
        "the loop was busy %.0f%% of the time (threshold %.0f%%), and a tick came %.0f ms late "
        "or more one time in ten (threshold %.0f ms)",
        100 * l->utilisation, 100 * FULL, l->delay_p90_ms, QUEUE_MS);
    say(d,
        "no single piece of work is to blame: a request takes %.2f ms of the loop, the longest "
        "piece %.0f ms",
        l->sync_ms, l->piece_max_ms);
    say(d, "%.0f requests were in flight on average, %.0f were answered a second", l->inflight,
        (double)l->requests / fmax(0.001, l->seconds));
    say_culprit(d, &l->culprit, "its busy time");
}

static void explain_waiting(dz_diagnosis *d, const dz_facts *f, const dz_loop_facts *l)
{
    chart(d, "inflight");
    if (!l) {
        say(d,
            "half of the requests took %.0f ms or more (threshold %.0f ms), yet only %.2f "
            "threads wanted to run",
            f->load.p50_ms, WAITING_MS, f->demand.wanted);
        return;
    }
    say(d, "a request took %.0f ms on average (threshold %.0f ms), but only %.1f ms of the loop",
        l->request_ms, WAITING_MS, l->sync_ms);
    say(d, "the loop was busy %.0f%% of the time (threshold %.0f%%) with %.0f requests in flight",
        100 * l->utilisation, 100 * WAITING_LOOP, l->inflight);
    for (size_t i = 0; i < l->route_count; i++)
        if (l->routes[i].total_ms >= WAITING_MS)
            say(d, "%s: %.0f ms, %llu requests", l->routes[i].name, l->routes[i].total_ms,
                (unsigned long long)l->routes[i].count);
}

static void explain_healthy(dz_diagnosis *d, const dz_facts *f)
{
    const dz_loop_facts *l = worst(f, NULL, busy_weight);
    if (l) {
        say(d,
            "the busiest loop was busy %.0f%% of the time; its ticks came at most %.1f ms late "
            "in 99 of 100 cases, %.0f ms at worst",
            100 * l->utilisation, l->delay_p99_ms, l->delay_max_ms);
        say(d, "it stood still (%d ms or more) %.1f%% of the time, garbage collection took %.1f%%",
            DZ_STALL_MS, 100 * l->stalled, 100 * l->gc);
        if (l->requests)
            say(d, "%.0f requests a second, %.1f ms each, %.2f ms of them on the loop",
                (double)l->requests / fmax(0.001, l->seconds), l->request_ms, l->sync_ms);
        if (l->utilisation >= FULL)
            say(d, "it is near its limit: more load will only wait longer");
    } else {
        say(d,
            "%.2f cores were used of %u; threads waited for a core %.0f%% of the time they "
            "could have run",
            f->demand.running, f->cores, 100 * f->demand.waiting);
    }
}

static void explain_outside_blocked(dz_diagnosis *d, const dz_facts *f)
{
    chart(d, "cpu");
    say(d, "one thread was busy all the time, and a request cost it %.1f ms (threshold %d ms)",
        cpu_per_request_ms(f), DZ_PIECE_MS);
    say_culprit(d, &f->native, "its CPU time");
}

static void find(dz_diagnosis *d, dz_verdict verdict, bool holds)
{
    if (!holds)
        return;
    if (d->verdict == DZ_VERDICT_HEALTHY)
        d->verdict = verdict;
    else
        d->also[d->also_count++] = verdict;
}

void dz_judge(dz_diagnosis *d, const dz_facts *f)
{
    *d = (dz_diagnosis){.verdict = DZ_VERDICT_HEALTHY};
    if (no_data(d, f)) {
        d->verdict = DZ_VERDICT_NO_DATA;
        dz_advise(d, f);
        return;
    }
    const dz_loop_facts *memory = worst(f, loop_memory, memory_weight);
    const dz_loop_facts *garbage = worst(f, loop_garbage, gc_weight);
    const dz_loop_facts *blocked = worst(f, loop_blocked, blocked_weight);
    const dz_loop_facts *full = worst(f, loop_overloaded, busy_weight);
    const dz_loop_facts *waiting = worst(f, loop_waiting, waiting_weight);
    const dz_process_facts *outside = busiest(f);
    bool outside_memory = false;
    for (size_t i = 0; i < f->process_count; i++)
        outside_memory |= process_memory(&f->processes[i]);
    bool one_full = outside_full(f, outside);
    bool heavy = cpu_per_request_ms(f) >= DZ_PIECE_MS;
    /* In order: what makes the next ones worse comes first. */
    find(d, DZ_VERDICT_MEMORY, memory || outside_memory);
    bool mostly_garbage = garbage && (!blocked || garbage->stall_gc >= GC_OF_STALLS ||
                                      garbage->gc >= 0.5 * garbage->utilisation);
    find(d, DZ_VERDICT_GARBAGE, mostly_garbage);
    bool cores = too_few_cores(f);
    /* A loop that hardly gets a core stands still without being to blame, unless its pieces of work
     * are long by any measure. */
    bool starved = cores && blocked && !blocked->hung && blocked->starved >= 0.4 &&
                   cost_ms(blocked) < 3 * DZ_PIECE_MS;
    find(d, DZ_VERDICT_CORES, starved);
    find(d, DZ_VERDICT_BLOCKED, blocked || (one_full && heavy));
    find(d, DZ_VERDICT_GARBAGE, garbage && !mostly_garbage);
    find(d, DZ_VERDICT_CORES, cores && !starved);
    find(d, DZ_VERDICT_OVERLOADED,
         (full && !blocked) || (one_full && !heavy && f->load.known && f->load.p50_ms >= QUEUE_MS));
    find(d, DZ_VERDICT_WAITING, waiting || outside_waiting(f));
    switch (d->verdict) {
    case DZ_VERDICT_MEMORY:
        d->loop = memory;
        explain_memory(d, f, memory);
        break;
    case DZ_VERDICT_GARBAGE:
        d->loop = garbage;
        explain_garbage(d, garbage);
        break;
    case DZ_VERDICT_BLOCKED:
        d->loop = blocked;
        if (blocked)
            explain_blocked(d, blocked);
        else
            explain_outside_blocked(d, f);
        break;
    case DZ_VERDICT_CORES:
        d->loop = worst(f, NULL, busy_weight);
        explain_cores(d, f);
        break;
    case DZ_VERDICT_OVERLOADED:
        d->loop = full;
        explain_overloaded(d, f, full);
        break;
    case DZ_VERDICT_WAITING:
        d->loop = waiting;
        explain_waiting(d, f, waiting);
        break;
    default:
        d->loop = worst(f, NULL, busy_weight);
        explain_healthy(d, f);
    }
    if (f->demand.others >= 0.5)
        say(d,
            "other programs took %.1f of the machine's cores meanwhile: figures on a quiet "
            "machine will differ",
            f->demand.others);
    dz_advise(d, f);
}
