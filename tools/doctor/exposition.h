/* exposition.h: what a donmaz server says of itself in its /metrics (docs/metrics.md), read from
 * the text. The text comes from the program under examination: what does not parse is skipped. */
#ifndef DZ_DOCTOR_EXPOSITION_H
#define DZ_DOCTOR_EXPOSITION_H

#include <donmaz/slice.h>

#include <stdbool.h>
#include <stddef.h>

enum { DZ_EXPO_LOOPS = 64, DZ_EXPO_ROUTES = 128, DZ_EXPO_NAME = 128 };

/* Counts since the server's start. Worker 0: a server of one process. */
typedef struct dz_expo_loop {
    unsigned worker, loop;
    double delay_ms; /* how long a message waits for the loop now */
    double lags, lag_ms;
    double stalls, stall_ms; /* handlers that held it for 1 ms or more */
    double short_stalls;     /* of them, those under DZ_EXPO_STALL_MS */
    double rescues;
} dz_expo_loop;

/* Over all workers. */
typedef struct dz_expo_route {
    char name[DZ_EXPO_NAME]; /* "GET /users/:id" */
    double requests, duration_ms;
    double handler_ms, cpu_ms, cpu_ms_squared;
    double rescues;
    int klass; /* where its handlers start: 0 the loop, 1 and 2 a worker; the highest of all */
} dz_expo_route;

typedef struct dz_exposition {
    dz_expo_loop loops[DZ_EXPO_LOOPS];
    size_t loop_count;
    dz_expo_route routes[DZ_EXPO_ROUTES]; /* that were asked for */
    size_t route_count;
    double refused, queued, in_flight; /* shed so far; waiting for a worker, under way now */
} dz_exposition;

enum { DZ_EXPO_STALL_MS = 25 }; /* a bound of the server's histogram */

void dz_exposition_read(dz_exposition *out, dz_slice text);

#endif
