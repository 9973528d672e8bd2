/* simulate.h: a service under load in simulated time, to try limits on: requests arrive at random,
 * wait for one of some threads, are served, and may then wait for something behind the service that
 * the limit can't see (a database). Deterministic: the same seed gives the same run. */
#ifndef DZ_TESTS_SIMULATE_H
#define DZ_TESTS_SIMULATE_H

#include "shed/limit.h"

enum { SIM_ROUTES = 4, SIM_LOOPS = 4, SIM_SECONDS = 256 };

/* What decides who is let in; `leave` gets NULL for what was dropped at its turn. */
typedef struct sim_limiter {
    void *self;
    bool (*room)(void *self);
    void (*enter)(void *self, uint64_t now);
    void (*leave)(void *self, uint64_t now, const dz_limit_sample *sample);
    void (*refuse)(void *self, uint64_t now);
    uint64_t (*deadline)(void *self); /* NULL: nothing is dropped at its turn */
    double (*limit)(void *self);
} sim_limiter;

typedef struct sim_route {
    double share;      /* of the arrivals */
    double service_ms; /* mean time on a thread */
    double scatter;    /* 0: always the same; 1: exponential */
    double behind_ms;  /* mean time behind the service */
} sim_route;

typedef struct sim_world {
    unsigned threads;     /* that serve */
    unsigned behind;      /* servers behind the service; 0: as many as wanted */
    unsigned loops;       /* each with a limiter of its own; they share the threads */
    unsigned route_count; /* of routes[] */
    sim_route routes[SIM_ROUTES];
    double seconds;
    double rate;     /* arrivals a second */
    double burst;    /* arrive together, so many at a time; 0 or 1: one by one */
    double step_at;  /* seconds; from then on: */
    double rate_2;   /* arrivals a second; 0: as before */
    double slower_2; /* serving takes so many times longer; 0: as before */
    double behind_2; /* what is behind takes so many times longer; 0: as before */
    double hiccup;   /* every second all threads stand still for so many ms */
    uint64_t seed;
} sim_world;

typedef struct sim_second {
    unsigned offered, served, refused, dropped;
    double limit;           /* sum over the loops, at its end */
    double mean_ms, p99_ms; /* of what was served in it */
    unsigned loop_served[SIM_LOOPS];
    unsigned route_served[SIM_ROUTES], route_offered[SIM_ROUTES];
} sim_second;

typedef struct sim_result {
    sim_second seconds[SIM_SECONDS];
    unsigned count;
} sim_result;

/* Runs the world with one limiter a loop. */
void sim_run(const sim_world *world, sim_limiter *limiters, dz_limit_route *routes,
             sim_result *result);

/* Over the seconds [from, to): requests served a second, the largest p99, and so on. */
double sim_goodput(const sim_result *result, unsigned from, unsigned to);
double sim_worst_p99(const sim_result *result, unsigned from, unsigned to);
double sim_p99(const sim_result *result, unsigned from, unsigned to); /* mean over the seconds */
unsigned sim_refused(const sim_result *result, unsigned from, unsigned to);

/* The limit of src/shed as a limiter. */
sim_limiter sim_limiter_of(dz_limit *limit);

#endif
