/* shed: limits on concurrency beside each other, in the simulator of the unit tests. Why the one in
 * src/shed was chosen: docs/decisions. Prints one table; takes a second. --cost prints
 * instead what a guard takes of a core for a request. */
#include "../tests/unit/shed/simulate.h"

#include "base/clock.h"
#include "shed/guard.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the rivals, as their authors describe them --- */

typedef struct rival {
    double limit;
    unsigned in_flight, refused;
    /* the window */
    uint64_t since;
    double sum;
    unsigned count;
    double shortest; /* ns, the least ever (Vegas), or the long mean (gradient) */
    unsigned windows;
} rival;

static bool rival_room(void *self)
{
    const rival *r = self;
    return r->in_flight + 1 <= r->limit;
}

static void rival_enter(void *self, uint64_t now)
{
    (void)now;
    ((rival *)self)->in_flight++;
}

static void rival_refuse(void *self, uint64_t now)
{
    (void)now;
    ((rival *)self)->refused++;
}

static double rival_limit(void *self)
{
    return ((rival *)self)->limit;
}

static bool window(rival *r, uint64_t now, double value)
{
    r->sum += value;
    r->count++;
    return now - r->since >= 100 * DZ_MS && r->count >= 10;
}

static void next_window(rival *r, uint64_t now)
{
    r->since = now;
    r->sum = 0;
    r->count = r->refused = 0;
}

static void bound(rival *r)
{
    r->limit = r->limit < 1 ? 1 : r->limit > 10000 ? 10000 : r->limit;
}

static void fixed_leave(void *self, uint64_t now, const dz_limit_sample *sample)
{
    (void)now, (void)sample;
    ((rival *)self)->in_flight--;
}

/* TCP Vegas on the whole time, for each window: between 3 and 6 (times log10 of the limit) may
 * queue. */
static void vegas_leave(void *self, uint64_t now, const dz_limit_sample *sample)
{
    rival *r = self;
    double used = r->in_flight--;
    if (!sample || !window(r, now, (double)(sample->waited + sample->served)))
        return;
    double time = r->sum / r->count;
    r->shortest = r->shortest == 0 || time < r->shortest ? time : r->shortest;
    double queue = ceil(r->limit * (1 - r->shortest / time)), unit = fmax(1, log10(r->limit));
    if (queue > 6 * unit)
        r->limit -= unit;
    else if (queue < 3 * unit && used * 2 > r->limit)
        r->limit += unit;
    if (++r->windows % 600 == 0) /* a minute: forget, lest it goes stale */
        r->shortest = 0;
    bound(r);
    next_window(r, now);
}

/* Gradient of a long mean to the short one, with a queue of sqrt(limit) and smoothing. */
static void gradient_leave(void *self, uint64_t now, const dz_limit_sample *sample)
{
    rival *r = self;
    double used = r->in_flight--;
    if (!sample || !window(r, now, (double)(sample->waited + sample->served)))
        return;
    double time = r->sum / r->count;
    r->shortest = r->shortest == 0 ? time : r->shortest + (time - r->shortest) * 2 / 601;
    if (r->shortest / time > 2)
        r->shortest *= 0.95;
    if (used * 2 >= r->limit) {
        double gradient = fmax(0.5, fmin(1, 1.5 * r->shortest / time));
        r->limit = r->limit * 0.8 + 0.2 * (r->limit * gradient + sqrt(r->limit));
    }
    bound(r);
    next_window(r, now);
}

/* Up by one, down by a tenth when the mean wait is above 5 ms. */
static void aimd_leave(void *self, uint64_t now, const dz_limit_sample *sample)
{
    rival *r = self;
    r->in_flight--;
    if (!sample || !window(r, now, (double)sample->waited))
        return;
    if (r->sum / r->count > 5e6)
        r->limit *= 0.9;
    else if (r->refused > 0)
        r->limit += 1;
    bound(r);
    next_window(r, now);
}

static sim_limiter rival_of(rival *r, void (*leave)(void *, uint64_t, const dz_limit_sample *))
{
    return (sim_limiter){.self = r,
                         .room = rival_room,
                         .enter = rival_enter,
                         .leave = leave,
                         .refuse = rival_refuse,
                         .limit = rival_limit};
}

/* --- the worlds --- */

typedef struct trial {
    const char *name;
    double capacity, capacity_2; /* requests a second before and after the step */
    sim_world world;
} trial;

#define ROUTE(ms, scatter_, behind)                                                                \
    {                                                                                              \
        .share = 1, .service_ms = (ms), .scatter = (scatter_), .behind_ms = (behind)               \
    }
#define PLAIN .loops = 1, .route_count = 1, .seconds = 60, .step_at = 30, .seed = 7

static const trial trials[] = {
    {"5 ms, 2 threads, 3x",
     400,
     400,
     {PLAIN, .threads = 2, .routes = {ROUTE(5, 0, 0)}, .rate = 1200}},
    {"5 ms, scattered, 3x",
     400,
     400,
     {PLAIN, .threads = 2, .routes = {ROUTE(5, 1, 0)}, .rate = 1200}},
    {"calm, then 3x",
     200,
     400,
     {PLAIN, .threads = 2, .routes = {ROUTE(5, 0, 0)}, .rate = 200, .rate_2 = 1200}},
    {"slows to a quarter",
     400,
     100,
     {PLAIN, .threads = 2, .routes = {ROUTE(5, 0.5, 0)}, .rate = 1200, .slower_2 = 4}},
    {"quickens fourfold",
     100,
     400,
     {PLAIN, .threads = 2, .routes = {ROUTE(20, 0.5, 0)}, .rate = 1200, .slower_2 = 0.25}},
    {"10 us, bursts of 200",
     50000,
     50000,
     {PLAIN, .threads = 1, .routes = {ROUTE(0.01, 0.2, 0)}, .rate = 50000, .burst = 200}},
    {"0.1 ms and 50 ms",
     380,
     380,
     {.loops = 1,
      .route_count = 2,
      .seconds = 60,
      .step_at = 30,
      .seed = 7,
      .threads = 2,
      .routes = {{.share = 0.9, .service_ms = 0.1, .scatter = 0.5},
                 {.share = 0.1, .service_ms = 50, .scatter = 0.5}},
      .rate = 1200}},
    {"database, 10 at a time",
     1000,
     1000,
     {PLAIN, .threads = 2, .behind = 10, .routes = {ROUTE(0.1, 0.5, 10)}, .rate = 3000}},
    {"database 10x slower",
     2000,
     2000,
     {PLAIN, .threads = 2, .routes = {ROUTE(0.1, 0.5, 5)}, .rate = 2000, .behind_2 = 10}},
    {"hiccups of 50 ms",
     380,
     380,
     {PLAIN, .threads = 2, .routes = {ROUTE(5, 0.5, 0)}, .rate = 1200, .hiccup = 50}},
};

enum { TRIALS = sizeof trials / sizeof trials[0], LIMITERS = 5 };
static const char *const names[LIMITERS] = {"fixed 100", "Vegas", "gradient", "AIMD on wait",
                                            "donmaz"};

static sim_limiter limiter_of(unsigned which, rival *r, dz_limit *limit)
{
    static void (*const leave[])(void *, uint64_t, const dz_limit_sample *) = {
        fixed_leave, vegas_leave, gradient_leave, aimd_leave};
    const dz_limit_options options = {.start = 100, .min = 1, .max = 10000, .wait_ns = 5 * DZ_MS};
    *r = (rival){.limit = which == 0 ? 100 : 20};
    dz_limit_init(limit, &options, 0);
    return which < 4 ? rival_of(r, leave[which]) : sim_limiter_of(limit);
}

/* What letting a request in and counting it out takes of a core. */
static int print_cost(void)
{
    enum { REQUESTS = 10000000 };
    static dz_guard guard;
    static dz_limit_route route;
    const dz_guard_options options = {
        .adaptive = true,
        .limit = {.start = 256, .min = 1, .max = 100000, .wait_ns = 5 * DZ_MS},
        .lag_max_ns = 500 * DZ_MS,
        .close_every = 8};
    uint64_t now = DZ_SEC, began = dz_thread_cpu();
    dz_guard_init(&guard, &options, now);
    for (unsigned i = 0; i < REQUESTS; i++) {
        const dz_guard_load load = {.now = now};
        dz_guard_admit(&guard, DZ_SHED_NORMAL, &load);
        dz_guard_wants_close(&guard);
        const dz_limit_sample sample = {
            .route = &route, .admitted = now, .waited = 1000, .served = 2000};
        dz_guard_leave(&guard, now += 3000, &sample);
    }
    printf("%.1f ns a request\n", (double)(dz_thread_cpu() - began) / REQUESTS);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--cost") == 0)
        return print_cost();
    bool seconds = argc > 1 && strcmp(argv[1], "--seconds") == 0;
    sim_result *result = malloc(sizeof *result);
    if (!result)
        return 1;
    printf(
        "goodput as %% of capacity (20 s to 30 s, first 3 s after the step, 50 s to 60 s) and the "
        "worst p99 there, ms\n\n%-24s",
        "");
    for (unsigned which = 0; which < LIMITERS; which++)
        printf("| %-30s", names[which]);
    printf("\n");
    for (unsigned i = 0; i < TRIALS; i++) {
        const trial *t = &trials[i];
        printf("%-24s", t->name);
        for (unsigned which = 0; which < LIMITERS; which++) {
            rival r;
            dz_limit limit;
            dz_limit_route routes[SIM_LOOPS * SIM_ROUTES] = {0};
            sim_limiter limiter = limiter_of(which, &r, &limit);
            sim_run(&t->world, &limiter, routes, result);
            printf("|%4.0f%4.0f%4.0f%% %5.0f%6.0f%6.0f",
                   100 * sim_goodput(result, 20, 30) / t->capacity,
                   100 * sim_goodput(result, 30, 33) / t->capacity_2,
                   100 * sim_goodput(result, 50, 60) / t->capacity_2, sim_worst_p99(result, 20, 30),
                   sim_worst_p99(result, 30, 33), sim_worst_p99(result, 50, 60));
            for (unsigned s = 0; seconds && which == 4 && s < 60; s++)
                printf("\n   %2u s: served %5u refused %5u dropped %4u limit %7.1f p99 %6.1f", s,
                       result->seconds[s].served, result->seconds[s].refused,
                       result->seconds[s].dropped, result->seconds[s].limit,
                       result->seconds[s].p99_ms);
        }
        printf("\n");
    }
    free(result);
    return 0;
}
