/* stress.h: the service and the clients of the stress test. */
#ifndef DZ_TESTS_STRESS_H
#define DZ_TESTS_STRESS_H

#include <donmaz.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Prints what went wrong and ends the process. */
void stress_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* --- service.c --- */

/* Every response has the header X-Number: what the request's path ends in.
 *
 *   GET  /plain/:n        "n"
 *   GET  /burn/:us/:n     computes that long first; stays on the loop, so it is rescued
 *   GET  /learned/:us/:n  the same; the library may move it to a worker
 *   GET  /blocking/:us/:n the same; always on a worker
 *   GET  /sleep/:us/:n    parks that long first
 *   GET  /pool/:n         "n" by way of a task
 *   GET  /stream/:size/:n size bytes in pieces, between which it computes or parks
 *   POST /upload/:n       reads the body in pieces; "length sum" */
dz_app *stress_service(dz_pool *pool);
int stress_add_tasks(dz_pool *pool);

typedef struct stress_service_counts {
    _Atomic uint64_t begun, ended; /* handlers */
} stress_service_counts;

extern stress_service_counts stress_served;

/* --- client.c --- */

typedef struct stress_client_counts {
    _Atomic uint64_t requests, responses, connections, vanished;
} stress_client_counts;

extern stress_client_counts stress_asked;

typedef struct stress_client {
    uint64_t random; /* state of its generator */
    unsigned port;
    const _Atomic bool *over;     /* return soon */
    const _Atomic bool *draining; /* the service may close a connection now */
} stress_client;

/* A thread's main function: asks and checks until it is over. */
void *stress_client_run(void *client);

uint64_t stress_random(uint64_t *state);

#endif
