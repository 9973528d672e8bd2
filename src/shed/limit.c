#include "shed/limit.h"

#include "base/clock.h"

#include <math.h>

static const uint64_t WINDOW_NS = 100 * DZ_MS, WINDOW_MAX_NS = DZ_SEC;
static const uint64_t DRAIN_MAX_NS = DZ_SEC / 2, PROBE_MAX_NS = DZ_SEC;
static const uint64_t PROBE_GAP_NS = DZ_SEC, PROBE_GAP_MAX_NS = 8 * DZ_SEC, FRESH_NS = 3 * DZ_SEC;

enum { WINDOW_SAMPLES = 10, PROBE_SAMPLES = 30, ROUTE_SAMPLES = 3, BOOST_MAX = 64 };

/* Between these two parts of what is allowed the limit stays: noise must not move it. */
static const double LOW = 0.75, HIGH = 1.25;

/* By this much the limit rises again with each window in which it held nothing back. */
static const double FORGET = 1.2;

static double clamp(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

static void clear_routes(dz_limit *l)
{
    for (dz_list *link; (link = dz_list_shift(&l->touched));) {
        dz_limit_route *route = DZ_CONTAINER(link, dz_limit_route, touched);
        route->listed = false;
        route->sum = route->square = 0;
        route->count = 0;
    }
}

static void begin_window(dz_limit *l, uint64_t now)
{
    l->since = l->last = now;
    l->area = l->waited = l->served = l->lagged = 0;
    l->count = l->refused = 0;
    l->peak = l->in_flight;
    clear_routes(l);
}

void dz_limit_init(dz_limit *l, const dz_limit_options *options, uint64_t now)
{
    *l = (dz_limit){.options = *options, .boost = 1, .probe_gap = PROBE_GAP_NS};
    l->limit = clamp(options->start, options->min, options->max);
    l->deadline_ns = 4 * options->wait_ns;
    l->allowed = 1;
    dz_list_init(&l->touched);
    begin_window(l, now);
}

/* --- what a window tells --- */

static double mean_of(const dz_limit_route *route)
{
    return route->sum / (double)route->count;
}

/* Twice the standard error of the window's mean, as a part of the mean. */
static double error_of(const dz_limit_route *route)
{
    double n = (double)route->count, mean = route->sum / n;
    double variance = route->square / n - mean * mean;
    return mean > 0 && variance > 0 ? 2 * sqrt(variance / n) / mean : 0;
}

static void set_figure(dz_limit_route *route)
{
    route->base_ns = mean_of(route);
    route->doubt = error_of(route);
}

/* Time that serving took beyond the routes' figures, and beyond chance, in ns. Learns the figures
 * of routes that have none, and lets the others follow: down at any time, up only when nothing is
 * held back. */
static double find_excess(dz_limit *l, bool limited)
{
    double excess = 0;
    for (dz_list *link = l->touched.next; link != &l->touched; link = link->next) {
        dz_limit_route *route = DZ_CONTAINER(link, dz_limit_route, touched);
        if (route->count < ROUTE_SAMPLES)
            continue;
        double mean = mean_of(route);
        if (route->base_ns == 0)
            set_figure(route);
        double tolerance = 1.25 + route->doubt + error_of(route);
        double over = mean - tolerance * route->base_ns;
        if (over > 0)
            excess += over * (double)route->count;
        else if (mean < route->base_ns || !limited)
            route->base_ns += (mean - route->base_ns) / 8;
    }
    return excess;
}

/* After a probe: what serving takes without a queue. */
static void take_figures(dz_limit *l)
{
    for (dz_list *link = l->touched.next; link != &l->touched; link = link->next) {
        dz_limit_route *route = DZ_CONTAINER(link, dz_limit_route, touched);
        if (route->count >= ROUTE_SAMPLES)
            set_figure(route);
    }
}

static void begin_probe(dz_limit *l, double needed, uint64_t now)
{
    l->state = DZ_LIMIT_DRAIN;
    l->state_since = now;
    l->saved = l->limit;
    l->limit = clamp(needed / 2, l->options.min, l->limit);
    l->probes++;
}

static void lower(dz_limit *l, double target)
{
    double from = l->limit < l->peak ? l->limit : (double)l->peak;
    double to = from + (target - from) / 2;
    if (to < l->limit)
        l->limit = clamp(to, l->options.min, l->options.max);
    l->boost = 1;
}

static void raise(dz_limit *l, double spare)
{
    l->limit = clamp(l->limit + spare * l->boost, l->options.min, l->options.max);
    bool no_queue = l->queue < l->allowed / 4;
    l->boost = no_queue && l->boost < BOOST_MAX ? l->boost * 2 : no_queue ? l->boost : 1;
}

/* With requests held back: doubts that follow each other are likely wrong, so each waits longer. */
static void consider_probe(dz_limit *l, double excess, double needed, uint64_t now)
{
    if (now < l->next_probe || now < l->fresh_until)
        return;
    bool calm = now > l->next_probe + 2 * PROBE_GAP_MAX_NS, doubt = excess > l->allowed / 4;
    if (!calm && !doubt)
        return;
    if (calm)
        l->probe_gap = PROBE_GAP_NS;
    begin_probe(l, needed > 1 ? needed : 1, now);
    l->next_probe = now + l->probe_gap;
    l->probe_gap = l->probe_gap < PROBE_GAP_MAX_NS ? 2 * l->probe_gap : PROBE_GAP_MAX_NS;
}

static void adjust(dz_limit *l, uint64_t now)
{
    double time = (double)(now - l->since);
    bool limited = l->refused > 0 || (double)l->peak + 1 > l->limit;
    double busy = l->area / time, excess = find_excess(l, limited) / time;
    double seen = (l->waited + l->lagged) / time;
    l->rate = (double)l->count / time * 1e9;
    l->queue = seen + excess;
    l->allowed = (double)l->count * (double)l->options.wait_ns / time;
    if (l->allowed < 1)
        l->allowed = 1;
    l->deadline_ns = 4 * l->options.wait_ns + (uint64_t)(2 * l->served / (double)l->count);
    double sure = now < l->fresh_until ? l->queue : seen;
    bool before = l->congested; /* one window with a queue may be chance */
    l->congested = sure > HIGH * l->allowed;
    if (l->congested && before)
        lower(l, busy - sure + l->allowed);
    else if (!l->congested && limited && l->queue < LOW * l->allowed)
        raise(l, l->allowed - l->queue);
    else
        l->boost = 1;
    if (!l->congested && !limited && l->limit < l->options.start)
        l->limit *= FORGET;
    if (limited)
        consider_probe(l, excess, busy - l->queue, now);
}

static void end_window(dz_limit *l, uint64_t now)
{
    if (l->count > 0)
        adjust(l, now);
    else if (l->refused > 0) /* all that is in flight stays: streams, or something hangs */
        l->limit = clamp(l->limit + 1, l->options.min, l->options.max);
    begin_window(l, now);
}

/* --- the states --- */

static void step(dz_limit *l, uint64_t now)
{
    uint64_t age = now - l->since;
    switch (l->state) {
    case DZ_LIMIT_NORMAL:
        if ((age >= WINDOW_NS && l->count >= WINDOW_SAMPLES) || age >= WINDOW_MAX_NS)
            end_window(l, now);
        break;
    case DZ_LIMIT_DRAIN:
        if ((double)l->in_flight > l->limit && now - l->state_since < DRAIN_MAX_NS)
            break;
        l->state = DZ_LIMIT_PROBE;
        l->state_since = now;
        l->cohort = 0;
        begin_window(l, now);
        break;
    case DZ_LIMIT_PROBE:
        if (l->count < PROBE_SAMPLES && now - l->state_since < PROBE_MAX_NS)
            break;
        /* With many of them still under way the figures would be those of the short ones. */
        if (2 * l->count > l->cohort)
            take_figures(l);
        l->state = DZ_LIMIT_NORMAL;
        l->limit = l->saved;
        l->fresh_until = now + FRESH_NS;
        begin_window(l, now);
        break;
    }
}

static void bring_up_to_date(dz_limit *l, uint64_t now)
{
    if (now > l->last) {
        l->area += (double)l->in_flight * (double)(now - l->last);
        l->last = now;
    }
}

void dz_limit_enter(dz_limit *l, uint64_t now)
{
    bring_up_to_date(l, now);
    l->in_flight++;
    if (l->state == DZ_LIMIT_PROBE && l->cohort < PROBE_SAMPLES) {
        l->cohort++;
        l->cohort_last = now;
    }
    if (l->in_flight > l->peak)
        l->peak = l->in_flight;
}

static void count_sample(dz_limit *l, const dz_limit_sample *sample)
{
    /* A probe counts what was let in since it began, and the first of these until all have ended:
     * those that end first are the short ones. */
    if (l->state == DZ_LIMIT_PROBE &&
        (sample->admitted < l->state_since || sample->admitted > l->cohort_last))
        return;
    dz_limit_route *route = sample->route;
    if (!route->listed) {
        route->listed = true;
        dz_list_init(&route->touched);
        dz_list_push(&l->touched, &route->touched);
    }
    route->sum += (double)sample->served;
    route->square += (double)sample->served * (double)sample->served;
    route->count++;
    l->count++;
    l->waited += (double)sample->waited;
    l->served += (double)sample->served;
    l->lagged += (double)sample->lagged;
}

void dz_limit_leave(dz_limit *l, uint64_t now, const dz_limit_sample *sample)
{
    bring_up_to_date(l, now);
    if (l->in_flight > 0)
        l->in_flight--;
    if (sample)
        count_sample(l, sample);
    step(l, now);
}

void dz_limit_refuse(dz_limit *l, uint64_t now)
{
    bring_up_to_date(l, now);
    l->refused++;
    step(l, now);
}
