#include "facts.h"

#include "trend.h"

#include "common/percentile.h"

#include <base/clock.h>

#include <math.h>
#include <stdlib.h>

static double ms(uint64_t ns)
{
    return (double)ns / 1e6;
}

static double mb(uint64_t bytes)
{
    return (double)bytes / 1e6;
}

/* How much later than due the timer fired. */
static uint64_t delay_of(const dz_js_sample *s)
{
    uint64_t span = s->to - s->from;
    return span > DZ_INTERVAL_MS * DZ_MS ? span - DZ_INTERVAL_MS * DZ_MS : 0;
}

bool dz_is_stall(const dz_js_sample *s)
{
    /* A late timer of a loop that waited for events was late for another reason: the process was
     * stopped, or the machine slept. */
    return delay_of(s) >= DZ_STALL_MS * DZ_MS && s->active * 2 >= s->to - s->from;
}

/* The part of an interval that lies in the window; false when none does. */
static bool clip(const dz_js_sample *s, uint64_t from, uint64_t to, dz_js_sample *out)
{
    if (s->to <= from || s->from >= to || s->to <= s->from)
        return false;
    *out = *s;
    out->from = s->from > from ? s->from : from;
    out->to = s->to < to ? s->to : to;
    out->active =
        (uint64_t)((double)s->active * (double)(out->to - out->from) / (double)(s->to - s->from));
    return true;
}

typedef struct usage {
    double ran, waited; /* the main thread's time on a core, and ready without one, ns */
    double process;     /* CPU time of all threads */
} usage;

/* What a process did in [from, to]. False when that was not sampled. */
static bool usage_within(const dz_out_series *outside, uint64_t from, uint64_t to, usage *u)
{
    *u = (usage){0};
    double span = 0;
    for (size_t i = 0; outside && i < outside->samples.count; i++) {
        const dz_out_sample *s = &outside->samples.at[i];
        uint64_t start = s->from > from ? s->from : from, end = s->to < to ? s->to : to;
        if (end <= start)
            continue;
        double part = (double)(end - start);
        span += part;
        u->ran += part * (double)s->main_cpu;
        u->waited += part * (double)s->main_wait;
        u->process += part * (double)s->cpu;
    }
    return span > 0;
}

/* How long a pause would have been on a quiet machine: no longer than the CPU time it took. V8's
 * helper threads may wait for a core while the main one waits for them. */
static double own_pause(const dz_js_gc *g, const dz_out_series *outside, double starved)
{
    usage u;
    double pause = (double)g->duration;
    if (pause < DZ_INTERVAL_MS * 1e6)
        return pause * (1 - starved);
    if (!usage_within(outside, g->at, g->at + g->duration, &u))
        return pause;
    return fmin(pause, u.process);
}

/* Garbage collection that began within an interval. */
static double gc_within(const dz_js_series *series, const dz_out_series *outside, uint64_t from,
                        uint64_t to)
{
    double total = 0;
    for (size_t i = 0; i < series->gcs.count; i++)
        if (series->gcs.at[i].at >= from && series->gcs.at[i].at < to)
            total += own_pause(&series->gcs.at[i], outside, 0);
    return total;
}

/* Counts an interval if it is a stall of the loop's own making: time in which the thread was ready
 * and other programs had the cores is not. */
static void add_stall(dz_loop_facts *f, const dz_js_series *series, const dz_out_series *outside,
                      const dz_js_sample *s, double *cpu_time)
{
    usage u;
    double span = (double)(s->to - s->from);
    bool known = usage_within(outside, s->from, s->to, &u);
    if ((double)delay_of(s) - u.waited < DZ_STALL_MS * 1e6)
        return;
    double own = span > u.waited ? (span - u.waited) / span : 0;
    double longest = (double)s->longest * own, requests = (double)s->work * own;
    /* One piece of work is to blame when it alone makes a stall, or half of this one; or when the
     * requests that began in it did not take half of it: then something else ran. */
    if (requests * 2 < span * own)
        longest = span * own - requests;
    bool single = longest >= DZ_STALL_MS * 1e6 || longest * 2 >= span * own;
    f->stalls++;
    f->stalled += span;
    f->single += single ? span : 0;
    f->stall_gc += gc_within(series, outside, s->from, s->to);
    f->piece_max_ms = fmax(f->piece_max_ms, longest / 1e6);
    *cpu_time += known ? fmin(span, u.ran + u.waited) : 0;
}

static void loop_delays(dz_loop_facts *f, const dz_js_series *series, const dz_out_series *outside,
                        uint64_t from, uint64_t to)
{
    uint64_t *delays = calloc(series->samples.count + 1, sizeof *delays);
    double span = 0, active = 0, inflight = 0, cpu_time = 0;
    double first = series->samples.count ? series->samples.at[0].handles : 0;
    uint64_t last = series->started; /* a loop may hang before its first tick */
    for (size_t i = 0; i < series->samples.count; i++) {
        const dz_js_sample *whole = &series->samples.at[i];
        dz_js_sample part, *s = &part;
        last = whole->to;
        if (!clip(whole, from, to, &part))
            continue;
        if (delays)
            delays[f->samples] = delay_of(whole);
        f->samples++;
        span += (double)(s->to - s->from);
        active += (double)s->active;
        inflight += (double)s->inflight * (double)(s->to - s->from);
        f->inflight_max = fmax(f->inflight_max, s->inflight);
        f->connections = fmax(f->connections, (double)s->handles - first);
        if (dz_is_stall(whole))
            add_stall(f, series, outside, s, &cpu_time);
    }
    /* Silent until the end: it is still in a piece of work that began before. */
    if (last && last < to && to - last > DZ_SEC && !series->exiting) {
        dz_js_sample open = {.from = last > from ? last : from, .to = to, .active = to - last};
        f->hung = true;
        span += (double)(to - open.from);
        active += (double)(to - open.from);
        add_stall(f, series, outside, &open, &cpu_time);
        if (delays)
            delays[f->samples] = to - open.from;
        f->samples++;
    }
    f->seconds = span / 1e9;
    if (delays && f->samples) {
        dz_sort_u64(delays, f->samples);
        f->delay_p50_ms = ms(dz_percentile(delays, f->samples, 50));
        f->delay_p90_ms = ms(dz_percentile(delays, f->samples, 90));
        f->delay_p99_ms = ms(dz_percentile(delays, f->samples, 99));
        f->delay_max_ms = ms(delays[f->samples - 1]);
    }
    free(delays);
    usage u;
    if (usage_within(outside, from, to, &u) && u.ran + u.waited > 0)
        f->starved = u.waited / (u.ran + u.waited);
    f->stall_cpu = f->stalled > 0 && outside ? cpu_time / f->stalled : -1;
    f->single = f->stalled > 0 ? f->single / f->stalled : 0;
    f->stall_gc = f->stalled > 0 ? f->stall_gc / f->stalled : 0;
    f->stalled = span > 0 ? f->stalled / span : 0;
    f->utilisation = span > 0 ? fmin(1, active / span) : 0;
    f->inflight = span > 0 ? inflight / span : 0;
}

static void loop_garbage(dz_loop_facts *f, const dz_js_series *series, const dz_out_series *outside,
                         uint64_t from, uint64_t to)
{
    double total = 0;
    for (size_t i = 0; i < series->gcs.count; i++) {
        const dz_js_gc *g = &series->gcs.at[i];
        if (g->at < from || g->at > to)
            continue;
        total += own_pause(g, outside, f->starved);
        f->gc_max_ms = fmax(f->gc_max_ms, ms(g->duration));
        f->gcs++;
        f->gcs_major += g->kind == 4;
    }
    double own = f->seconds * (1 - f->starved); /* the pauses, too, are without the waiting */
    f->gc = own > 0 ? fmin(1, total / 1e9 / own) : 0;
}

/* The heap and the memory outside it that it keeps alive, first seen after `at`. */
static double heap_after(const dz_js_series *series, uint64_t at)
{
    for (size_t i = 0; at && i < series->samples.count; i++) {
        const dz_js_sample *s = &series->samples.at[i];
        if (s->to > at)
            return mb(s->heap_used + s->external);
    }
    return -1;
}

static void loop_heap(dz_loop_facts *f, const dz_js_series *series, uint64_t from, uint64_t to,
                      uint64_t before, uint64_t after)
{
    dz_trend trend;
    dz_trend_begin(&trend, from, to);
    for (size_t i = 0; i < series->samples.count; i++) {
        const dz_js_sample *s = &series->samples.at[i];
        if (s->from >= from && s->to <= to)
            dz_trend_add(&trend, s->to, mb(s->heap_used + s->external));
    }
    dz_trend_end(&trend);
    f->floor_start_mb = trend.first;
    f->floor_rise_mb = trend.rise;
    f->floor_late_mb = trend.late;
    f->floor_steady = trend.steady;
    f->heap_start_mb = heap_after(series, before);
    f->heap_end_mb = heap_after(series, after);
}

static int by_share(const void *a, const void *b)
{
    const dz_route_facts *x = a, *y = b;
    return x->share < y->share ? 1 : x->share > y->share ? -1 : 0;
}

typedef struct route_sum {
    double total, sync, square, max;
    uint64_t count;
} route_sum;

/* Mean and deviation of what one request takes of the loop. */
static void spread(const route_sum *s, double *mean, double *deviation)
{
    double n = (double)s->count;
    *mean = n > 0 ? s->sync / n : 0;
    double variance = n > 1 ? s->square / n - *mean * *mean : 0;
    *deviation = variance > 0 ? sqrt(variance) : 0;
}

static void loop_requests(dz_loop_facts *f, const dz_js_series *series, uint64_t from, uint64_t to)
{
    route_sum *sums = calloc(series->routes.count + 1, sizeof *sums), all = {0};
    dz_route_facts *routes = calloc(series->routes.count + 1, sizeof *routes);
    double busy = f->utilisation * f->seconds * 1e3;
    for (size_t i = 0; sums && routes && i < series->requests.count; i++) {
        const dz_js_route_sample *r = &series->requests.at[i];
        if (r->at < from || r->at > to + 200 * DZ_MS)
            continue;
        route_sum *both[] = {&sums[r->route], &all};
        for (size_t k = 0; k < 2; k++) {
            both[k]->count += r->count;
            both[k]->total += ms(r->total);
            both[k]->sync += ms(r->sync);
            both[k]->square += r->sync_squared;
            both[k]->max = fmax(both[k]->max, ms(r->sync_max));
        }
    }
    f->requests = all.count;
    f->request_ms = all.count ? all.total / (double)all.count : 0;
    spread(&all, &f->sync_ms, &f->sync_deviation_ms);
    size_t n = 0;
    for (size_t i = 0; sums && routes && i < series->routes.count; i++) {
        if (!sums[i].count && sums[i].sync <= 0)
            continue;
        dz_route_facts *r = &routes[n++];
        r->name = series->routes.at[i];
        r->count = sums[i].count;
        r->total_ms = r->count ? sums[i].total / (double)r->count : 0;
        spread(&sums[i], &r->sync_ms, &r->sync_deviation_ms);
        r->sync_max_ms = sums[i].max;
        r->share = busy > 0 ? fmin(1, sums[i].sync / busy) : 0;
    }
    if (routes)
        qsort(routes, n, sizeof *routes, by_share);
    for (size_t i = 0; i < n && f->route_count < DZ_MAX_ROUTES; i++)
        f->routes[f->route_count++] = routes[i];
    free(sums);
    free(routes);
}

void dz_facts_loop(dz_loop_facts *out, const dz_js_series *series, const dz_out_series *outside,
                   uint64_t from, uint64_t to, uint64_t garbage_before, uint64_t garbage_after)
{
    memset(out, 0, sizeof *out);
    out->pid = series->pid;
    out->tid = series->tid;
    out->role = series->role;
    /* A worker's thread is not the process's main one, whose CPU is known by interval. */
    loop_delays(out, series, series->number ? NULL : outside, from, to);
    loop_garbage(out, series, series->number ? NULL : outside, from, to);
    loop_heap(out, series, from, to, garbage_before, garbage_after);
    loop_requests(out, series, from, to);
}

void dz_facts_process(dz_process_facts *out, const dz_out_series *series, uint64_t from,
                      uint64_t to)
{
    memset(out, 0, sizeof *out);
    out->pid = series->pid;
    out->name = series->name;
    dz_trend rss;
    dz_trend_begin(&rss, from, to);
    double span = 0;
    for (size_t i = 0; i < series->samples.count; i++) {
        const dz_out_sample *s = &series->samples.at[i];
        if (s->from < from || s->to > to)
            continue;
        double part = (double)(s->to - s->from);
        span += part;
        out->cpu += (double)s->cpu * part;
        out->main_cpu += (double)s->main_cpu * part;
        out->wait += (double)s->wait * part;
        out->main_wait += (double)s->main_wait * part;
        out->cpu_max = fmax(out->cpu_max, (double)s->cpu);
        dz_trend_add(&rss, s->to, mb(s->rss));
    }
    dz_trend_end(&rss);
    out->rss_start_mb = rss.first;
    out->rss_end_mb = rss.first + rss.rise;
    out->rss_late_mb = rss.late;
    out->rss_steady = rss.steady;
    out->seconds = span / 1e9;
    if (span > 0) {
        out->cpu /= span;
        out->main_cpu /= span;
        out->wait /= span;
        out->main_wait /= span;
    }
}
