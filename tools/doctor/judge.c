#include "judging.h"

#include "advice.h"

#include <math.h>

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

double dz_cost_ms(const dz_loop_facts *l)
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
    return l->utilisation >= 0.5 && l->requests >= 5 && dz_cost_ms(l) >= DZ_PIECE_MS &&
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

static bool nothing_happened(const dz_facts *f)
{
    uint64_t requests = (uint64_t)(f->load.known ? f->load.requests : 0);
    for (size_t i = 0; i < f->loop_count; i++) {
        if (f->loops[i].hung || f->loops[i].stalled >= 0.2)
            return false;
        requests += f->loops[i].requests;
    }
    /* A little is start-up, and our own collecting of garbage. One that wanted to run and got no
     * core did not do nothing. */
    double wanted = fmax(f->demand.running, f->demand.busiest);
    return requests == 0 && wanted < (f->loop_count ? 0.3 : 0.05);
}

static bool no_data(dz_diagnosis *d, const dz_facts *f)
{
    if (f->seconds < MIN_SECONDS) {
        dz_say(d, "%.1f s under load were seen; at least %.0f s are needed", f->seconds,
               MIN_SECONDS);
        return true;
    }
    if (nothing_happened(f)) {
        dz_say(d, "nothing happened in the %.1f s that were watched: no request, %.1f%% of a core",
               f->seconds, 100 * f->demand.running);
        return true;
    }
    return false;
}

/* A program that hardly ran has shown nothing: what is wrong with it would not have been seen. */
static bool hardly_ran(const dz_facts *f)
{
    return f->demand.busiest >= STARVED_WANTED &&
           f->demand.running < STARVED_GOT * f->demand.busiest;
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

static void say_others(dz_diagnosis *d, const dz_facts *f)
{
    if (f->demand.others >= 0.5)
        dz_say(d,
               "other programs took %.1f of the machine's cores meanwhile: figures on a quiet "
               "machine will differ",
               f->demand.others);
}

void dz_judge(dz_diagnosis *d, const dz_facts *f)
{
    *d = (dz_diagnosis){.verdict = DZ_VERDICT_HEALTHY};
    if (no_data(d, f)) {
        d->verdict = DZ_VERDICT_NO_DATA;
        say_others(d, f);
        dz_advise(d, f);
        return;
    }
    const dz_loop_facts *memory = worst(f, loop_memory, memory_weight);
    const dz_loop_facts *garbage = worst(f, loop_garbage, gc_weight);
    const dz_loop_facts *blocked = worst(f, loop_blocked, blocked_weight);
    const dz_loop_facts *full = worst(f, loop_overloaded, busy_weight);
    const dz_loop_facts *waiting = worst(f, loop_waiting, waiting_weight);
    dz_outside_view outside = dz_look_outside(f);
    /* In order: what makes the next ones worse comes first. */
    find(d, DZ_VERDICT_MEMORY, memory || outside.memory);
    bool mostly_garbage = garbage && (!blocked || garbage->stall_gc >= GC_OF_STALLS ||
                                      garbage->gc >= 0.5 * garbage->utilisation);
    find(d, DZ_VERDICT_GARBAGE, mostly_garbage);
    bool cores = too_few_cores(f);
    /* A loop that hardly gets a core stands still without being to blame, unless its pieces of work
     * are long by any measure. */
    bool starved = cores && blocked && !blocked->hung && blocked->starved >= 0.4 &&
                   dz_cost_ms(blocked) < 3 * DZ_PIECE_MS;
    /* From outside a program that waits for cores looks as late as one that is blocked. */
    starved |= cores && outside.blocked && !f->inside.known && f->probe.pending_ms < 1000;
    const dz_route_facts *route = dz_inside_route(f);
    starved |= cores && outside.blocked && route && dz_route_cost_ms(route) < 3 * DZ_PIECE_MS;
    find(d, DZ_VERDICT_CORES, starved);
    find(d, DZ_VERDICT_BLOCKED, blocked || outside.blocked);
    find(d, DZ_VERDICT_GARBAGE, garbage && !mostly_garbage);
    find(d, DZ_VERDICT_CORES, cores && !starved);
    find(d, DZ_VERDICT_OVERLOADED, (full && !blocked) || outside.overloaded);
    find(d, DZ_VERDICT_WAITING, waiting || outside.waiting);
    if (d->verdict == DZ_VERDICT_HEALTHY && hardly_ran(f))
        d->verdict = DZ_VERDICT_NO_DATA;
    switch (d->verdict) {
    case DZ_VERDICT_MEMORY:
        d->loop = memory;
        dz_explain_memory(d, f, memory);
        break;
    case DZ_VERDICT_GARBAGE:
        d->loop = garbage;
        dz_explain_garbage(d, garbage);
        break;
    case DZ_VERDICT_BLOCKED:
        d->loop = blocked;
        dz_explain_blocked(d, f, blocked);
        break;
    case DZ_VERDICT_CORES:
        d->loop = worst(f, NULL, busy_weight);
        dz_explain_cores(d, f);
        break;
    case DZ_VERDICT_OVERLOADED:
        d->loop = full;
        dz_explain_overloaded(d, f, full);
        break;
    case DZ_VERDICT_WAITING:
        d->loop = waiting;
        dz_explain_waiting(d, f, waiting);
        break;
    case DZ_VERDICT_NO_DATA:
        dz_say(d,
               "a thread of it wanted a core %.0f%% of the time, and all of it got %.1f%% of one: "
               "the machine was too full to see what it does",
               100 * f->demand.busiest, 100 * f->demand.running);
        break;
    default:
        d->loop = worst(f, NULL, busy_weight);
        dz_explain_healthy(d, f, d->loop);
    }
    say_others(d, f);
    dz_advise(d, f);
}
