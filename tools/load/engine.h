/* engine.h: the loop of one thread: its connections, their schedule, and what it wrote down.
 *
 * Level of detail that matters for measuring: one recv and one send a request, edge-triggered
 * readiness registered once a connection, the clock read right before each send, arrivals stamped
 * by the kernel. */
#ifndef DZ_LOAD_ENGINE_H
#define DZ_LOAD_ENGINE_H

#include "load/plan.h"
#include "load/record.h"

#include <stdatomic.h>

typedef struct ssl_ctx_st SSL_CTX;

/* What the threads of one run share. */
typedef struct load_shared {
    const load_plan *plan;
    SSL_CTX *tls;                  /* NULL when no origin uses TLS */
    uint64_t start, counting, end; /* monotonic ns: first send, first that counts, last */
    atomic_bool stop;              /* end now, with what there is */
    atomic_uint_fast64_t failures; /* for --bailout */
    atomic_uint_fast64_t seq;      /* {{seq}} */
    atomic_int fatal;              /* 0, or why nothing can be measured: errno or DZ_E_* */
    atomic_size_t fatal_origin;
    int done_fd;          /* eventfd: each thread adds 1 when it ends */
    char tls_reason[160]; /* the first TLS failure, for people; under its lock */
    atomic_flag tls_lock;
} load_shared;

/* A request that waited for its response, or for its turn, when the run ended. */
typedef struct load_unfinished {
    uint64_t in_flight;  /* sent, not answered */
    uint64_t oldest;     /* ns since the send of the oldest of them */
    uint64_t never_sent; /* due by the schedule, but no connection was free */
} load_unfinished;

typedef struct load_engine load_engine;

/* Live figures for the progress line, written by the engine only. */
typedef struct load_live {
    atomic_uint_fast64_t completed, errors;
} load_live;

/* The engine of thread `index`; NULL when memory ran out. */
load_engine *load_engine_new(load_shared *shared, size_t index);
void load_engine_free(load_engine *engine);

/* Runs to the end of the plan; a thread's start routine. Returns NULL. */
void *load_engine_run(void *engine);

/* Readable when the thread has ended (records), or at any time (live). */
load_record *load_engine_records(load_engine *engine); /* one an endpoint */
load_unfinished load_engine_unfinished(const load_engine *engine);
const load_live *load_engine_live(const load_engine *engine);
uint64_t load_engine_finished_at(const load_engine *engine); /* monotonic ns of the last event */
bool load_engine_out_of_memory(const load_engine *engine);

#endif
