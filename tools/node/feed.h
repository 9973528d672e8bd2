/* feed.h: what the preload script in each Node thread reports, kept as series.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC, as dz_now gives. The text comes from inside the process
 * under test: lines that do not parse are counted and skipped. */
#ifndef DZ_NODE_FEED_H
#define DZ_NODE_FEED_H

#include <donmaz/slice.h>

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* One interval of a loop, from one tick of our 10 ms timer to the next. */
typedef struct dz_js_sample {
    uint64_t from, to;
    uint64_t active;                          /* of it, not waiting in the kernel for events */
    uint64_t heap_used, heap_total, external; /* bytes */
    uint32_t handles, inflight;
    uint32_t begun;   /* requests that began in it */
    uint64_t longest; /* the longest stretch of the loop that one of them took */
    uint64_t work;    /* what all of them took */
} dz_js_sample;

typedef struct dz_js_gc {
    uint64_t at, duration;
    unsigned kind; /* 1 minor, 2 or 4 major, 8 incremental, 16 weak callbacks */
} dz_js_gc;

/* What a route's requests took between two reports, a tenth of a second or more apart. */
typedef struct dz_js_route_sample {
    uint64_t at;
    uint32_t route;      /* index of the series' route names */
    uint64_t count;      /* finished */
    uint64_t total;      /* ns from start to finish, summed */
    uint64_t sync;       /* ns of loop time right after their start, summed */
    double sync_squared; /* ms^2 */
    uint64_t sync_max;
} dz_js_route_sample;

#define DZ_VECTOR(type)                                                                            \
    struct {                                                                                       \
        type *at;                                                                                  \
        size_t count, cap;                                                                         \
    }

typedef struct dz_js_series {
    pid_t tid, pid;
    unsigned number;  /* Node's threadId: 0 for a main thread */
    char role[12];    /* main, cluster, worker */
    char version[24]; /* of Node, "v22.1.0" */
    char url[128];    /* of the inspector; empty when it is not open */
    uint64_t started;
    bool exiting;
    DZ_VECTOR(dz_js_sample) samples;
    DZ_VECTOR(dz_js_gc) gcs;
    DZ_VECTOR(dz_js_route_sample) requests;
    DZ_VECTOR(char *) routes;
} dz_js_series;

typedef struct dz_feed {
    DZ_VECTOR(dz_js_series) threads;
    char partial[8192]; /* the beginning of a line whose end has not come */
    size_t partial_len;
    uint64_t malformed;
    bool out_of_memory; /* something was dropped */
} dz_feed;

void dz_feed_init(dz_feed *feed);
void dz_feed_close(dz_feed *feed);

/* Takes bytes as they come, lines split anywhere. */
void dz_feed_take(dz_feed *feed, dz_slice bytes);

/* The thread's series, or NULL. Valid until the next take. */
dz_js_series *dz_feed_find(dz_feed *feed, pid_t tid);

#endif
