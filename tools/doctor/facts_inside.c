/* What a donmaz server's own figures say of the window. */
#include "facts.h"

#include "common/percentile.h"

#include <base/clock.h>

#include <math.h>
#include <stdlib.h>

enum { SLACK_MS = 200 }; /* the reading that closes the window comes a little after it */

static const dz_expo_route *find_route(const dz_inside_reading *r, const char *name)
{
    for (size_t i = 0; i < r->count; i++)
        if (strcmp(r->routes[i].name, name) == 0)
            return &r->routes[i];
    return NULL;
}

/* What was counted between two readings; a counter that fell began anew. */
static dz_expo_route between(const dz_inside_reading *first, const dz_expo_route *last)
{
    const dz_expo_route *f = find_route(first, last->name);
    dz_expo_route d = *last;
    if (!f || f->requests > last->requests)
        return d;
    d.requests -= f->requests;
    d.duration_ms -= f->duration_ms;
    d.handler_ms -= f->handler_ms;
    d.cpu_ms -= f->cpu_ms;
    d.cpu_ms_squared -= f->cpu_ms_squared;
    d.rescues -= f->rescues;
    return d;
}

static void describe_route(dz_route_facts *out, const dz_expo_route *r, const dz_expo_route *late)
{
    double n = r->requests, mean = r->cpu_ms / n;
    double variance = r->cpu_ms_squared / n - mean * mean;
    *out = (dz_route_facts){
        .name = NULL,
        .count = (uint64_t)n,
        .total_ms = r->duration_ms / n,
        .sync_ms = mean,
        .sync_deviation_ms = variance > 0 ? sqrt(variance) : 0,
        .held_ms = r->handler_ms / n,
        .piece_ms = r->cpu_ms > 0 ? r->cpu_ms_squared / r->cpu_ms : 0,
        .late_ms = late->requests > 0 ? late->cpu_ms / late->requests : 0,
        .rescued = r->rescues / n,
        .klass = r->klass,
    };
}

static int by_work(const void *a, const void *b)
{
    const dz_route_facts *x = a, *y = b;
    return x->share < y->share ? 1 : x->share > y->share ? -1 : 0;
}

static void routes(dz_inside_facts *out, const dz_inside_reading *first,
                   const dz_inside_reading *middle, const dz_inside_reading *last)
{
    dz_route_facts *all = calloc(last->count + 1, sizeof *all);
    size_t n = 0;
    for (size_t i = 0; all && i < last->count; i++) {
        dz_expo_route whole = between(first, &last->routes[i]);
        dz_expo_route late = between(middle, &last->routes[i]);
        if (whole.requests < 1)
            continue;
        describe_route(&all[n], &whole, &late);
        all[n].name = last->routes[i].name;
        all[n++].share = fmax(whole.handler_ms, whole.cpu_ms);
        out->requests += whole.requests;
        out->request_ms += whole.duration_ms;
        out->held_ms += whole.handler_ms;
        out->cpu_ms += whole.cpu_ms;
    }
    double busy = fmax(out->held_ms, out->cpu_ms);
    for (size_t i = 0; i < n; i++)
        all[i].share = busy > 0 ? all[i].share / busy : 0;
    if (all)
        qsort(all, n, sizeof *all, by_work);
    for (size_t i = 0; i < n && i < DZ_MAX_ROUTES; i++)
        out->routes[out->route_count++] = all[i];
    free(all);
}

typedef struct loop_view {
    unsigned worker, loop;
    double stalls, stall_ms, hung_ms, rescues;
    uint64_t *delays; /* ns */
    size_t count;
} loop_view;

static void view(loop_view *v, const dz_inside_seen *seen, uint64_t from, uint64_t to)
{
    for (size_t i = 0; i < seen->loops.count; i++) {
        const dz_inside_loop *l = &seen->loops.at[i];
        if (l->worker != v->worker || l->loop != v->loop || l->at < from || l->at > to)
            continue;
        v->stalls += l->stalls;
        v->stall_ms += l->stall_ms;
        v->rescues += l->rescues;
        v->hung_ms = l->delay_ms;
        v->delays[v->count++] = (uint64_t)(l->delay_ms * 1e6);
    }
}

/* A loop that still stands has not ended its stall. */
static double stalled_ms(const loop_view *v)
{
    return v->stall_ms + (v->hung_ms >= DZ_STALL_MS ? v->hung_ms : 0);
}

static void keep_worst(dz_inside_facts *out, loop_view *v, double span_ms)
{
    double stalled = fmin(1, stalled_ms(v) / span_ms);
    out->loops++;
    out->rescues += v->rescues;
    dz_sort_u64(v->delays, v->count);
    double p90 = (double)dz_percentile(v->delays, v->count, 90) / 1e6;
    if (out->loops > 1 &&
        (stalled < out->stalled || (stalled <= out->stalled && p90 <= out->delay_p90_ms)))
        return;
    out->worker = v->worker;
    out->loop = v->loop;
    out->stalls = v->stalls;
    out->stalled = stalled;
    out->hung_ms = v->hung_ms >= 1e3 ? v->hung_ms : 0;
    out->delay_p50_ms = (double)dz_percentile(v->delays, v->count, 50) / 1e6;
    out->delay_p90_ms = p90;
    out->delay_max_ms = (double)v->delays[v->count - 1] / 1e6;
}

static void loops(dz_inside_facts *out, const dz_inside_seen *seen, uint64_t from, uint64_t to)
{
    uint64_t *delays = calloc(seen->loops.count + 1, sizeof *delays);
    for (size_t i = 0; delays && i < seen->loops.count; i++) {
        const dz_inside_loop *l = &seen->loops.at[i];
        bool before = false;
        for (size_t k = 0; k < i && !before; k++)
            before = seen->loops.at[k].worker == l->worker && seen->loops.at[k].loop == l->loop;
        if (before)
            break; /* each reading has all loops */
        loop_view v = {.worker = l->worker, .loop = l->loop, .delays = delays};
        view(&v, seen, from, to);
        if (v.count)
            keep_worst(out, &v, (double)(to - from) / 1e6);
    }
    free(delays);
}

static double answered(const dz_inside_reading *r)
{
    double sum = 0;
    for (size_t i = 0; i < r->count; i++)
        sum += r->routes[i].requests;
    return sum;
}

/* Whether requests were answered in the last second: a long tick of short ones is not hung. */
static bool still_answers(const dz_inside_seen *seen, const dz_inside_reading *last)
{
    const dz_inside_reading *before = seen->readings.at;
    for (size_t i = 0; i < seen->readings.count; i++)
        if (seen->readings.at[i].at + DZ_SEC <= last->at)
            before = &seen->readings.at[i];
    return answered(last) > answered(before);
}

void dz_facts_inside(dz_inside_facts *out, const dz_inside_seen *seen, uint64_t from, uint64_t to)
{
    const dz_inside_reading *first = NULL, *middle = NULL, *last = NULL;
    memset(out, 0, sizeof *out);
    uint64_t end = to + SLACK_MS * DZ_MS, half = from + (to - from) / 2;
    double refused = 0;
    for (size_t i = 0; i < seen->readings.count; i++) {
        const dz_inside_reading *r = &seen->readings.at[i];
        /* The last one before the window counts from its beginning on. */
        if (!first || r->at <= from)
            first = r;
        if (!middle || r->at <= half)
            middle = r;
        if (r->at <= end || !last)
            last = r;
        if (r->at >= from && r->at <= end)
            out->in_flight = fmax(out->in_flight, r->in_flight);
    }
    if (!first || first == last || to <= from)
        return;
    refused = last->refused - first->refused;
    out->known = true;
    out->seconds = (double)(last->at - first->at) / 1e9;
    out->refused = refused > 0 ? refused : 0;
    routes(out, first, middle, last);
    loops(out, seen, from, end);
    if (out->hung_ms > 0 && still_answers(seen, last))
        out->hung_ms = 0;
}
