/* queueing.h: what ways of running a server would give, by simulating its queues.
 *
 * Requests of several routes come from a fixed number of connections, each sending its next one
 * when it has its answer (as load generators do). Each process has a loop that takes them in order;
 * worker threads compute beside it. All these threads share the cores as under Linux: see
 * scheduler.h. */
#ifndef DZ_DOCTOR_QUEUEING_H
#define DZ_DOCTOR_QUEUEING_H

#include <stddef.h>

enum { DZ_QUEUE_ROUTES = 8 };

typedef struct dz_queue_route {
    double service_ms; /* CPU time of one request, mean */
    double deviation_ms;
    double connections; /* how many of the closed loops ask for this route */
} dz_queue_route;

typedef enum dz_queue_mode {
    DZ_QUEUE_PLAIN,   /* one process */
    DZ_QUEUE_CLUSTER, /* a process a core */
    DZ_QUEUE_WORKERS, /* one process; what takes long runs in workers, one a core */
    DZ_QUEUE_BOTH,    /* a process a core, each with its share of the workers */
    DZ_QUEUE_MODES
} dz_queue_mode;

/* How a cluster's primary deals out connections. */
typedef enum dz_queue_deal {
    DZ_QUEUE_EVEN,   /* in turn */
    DZ_QUEUE_UNEVEN, /* one process was computing while it would have been its turn */
    DZ_QUEUE_DEALS
} dz_queue_deal;

typedef struct dz_queue_latency {
    double rps, p50_ms, p99_ms; /* p99: what runs of 20 s show on average, if it is as many */
} dz_queue_latency;

typedef struct dz_queue_result {
    dz_queue_latency all;
    dz_queue_latency routes[DZ_QUEUE_ROUTES]; /* in the order given */
} dz_queue_result;

/* Requests longer than this are given to workers in the modes that have them. */
#define DZ_QUEUE_LONG_MS 10.0

/* Simulates until `requests` were answered, or a thousand seconds of the server's time, or what a
 * second or two of ours can do. At most DZ_QUEUE_ROUTES routes. Deterministic. 0, DZ_E_INVALID,
 * DZ_E_NOMEM. */
int dz_queue_simulate(dz_queue_mode mode, dz_queue_deal deal, unsigned cores,
                      const dz_queue_route *routes, size_t count, size_t requests,
                      dz_queue_result *out);

const char *dz_queue_mode_name(dz_queue_mode mode);

#endif
