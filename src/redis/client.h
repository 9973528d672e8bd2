/* client.h: what dz_redis is: a share for each loop that uses it.
 *
 *   client.c   open, close, statistics       share.c    a loop's share: cache, connections
 *   calls.c    the calls of redis.h           flight.c   commands and the calls that wait for them
 *   multi.c    calls over several slots       cluster.c  which node a command goes to */
#ifndef DZ_REDIS_CLIENT_H
#define DZ_REDIS_CLIENT_H

#include "redis/cache.h"
#include "redis/conn.h"

#include <donmaz/redis.h>

#include <pthread.h>

enum { DZ_REDIS_CONNECTIONS = 16, DZ_REDIS_LOOPS = 256, DZ_REDIS_JOINABLE = 64 };

typedef struct dz_redis_cluster dz_redis_cluster;

/* Cache counters as others may read them. */
typedef struct dz_redis_cache_view {
    _Atomic uint64_t hits, misses, invalidations, evictions, flushes, late, bytes, values;
} dz_redis_cache_view;

/* One loop's share; only that loop touches it, statistics excepted. */
typedef struct dz_redis_share {
    dz_redis *redis;
    dz_loop *loop;
    dz_cache *cache;                           /* NULL: none */
    dz_redis_cluster *cluster;                 /* NULL: one server */
    dz_redis_cmd *joinable[DZ_REDIS_JOINABLE]; /* GETs of this tick, by their key's hash */
    size_t joinable_count;
    dz_deferred end_of_tick;
    dz_redis_cache_view view;
    dz_redis_conn_stats conn_stats;
    _Atomic uint64_t shared, errors, redirects, map_refreshes, nodes;
    unsigned conn_count; /* 0 with a cluster, whose nodes have them */
    dz_redis_conn conns[];
} dz_redis_share;

struct dz_redis {
    dz_redis_config config;
    unsigned connections;
    size_t cache_bytes;
    bool no_sharing;
    void (*on_event)(void *context, const char *text);
    void *event_context;
    _Atomic uint64_t hashes; /* computed; by any thread */
    pthread_mutex_t why_lock;
    char why[512]; /* the last failure */
    _Atomic(dz_redis_share *)
        shares[DZ_REDIS_LOOPS]; /* by the loop's index; made when first used */
};

/* Calls that one handler waits for together. */
typedef struct dz_redis_group dz_redis_group;

/* A handler's call, on its stack while it is parked. */
typedef struct dz_redis_call dz_redis_call;
struct dz_redis_call {
    dz_redis *redis;
    dz_fiber *fiber;
    dz_redis_group *group; /* NULL: alone */
    dz_list link;          /* among those that wait for a command */
    const dz_slice *args;
    size_t count;
    size_t key; /* which of args says where it goes; 0: any node */
    bool is_get, is_read;
    bool looked;          /* into the cache, in vain unless it is answered */
    bool writes_anything; /* not only the keys below: the whole cache is dropped */
    const dz_slice *keys; /* that the command writes; dropped from the cache */
    size_t key_count;
    int rc;
    dz_reply *reply; /* of commands that are not is_get */
    dz_buf value;    /* of is_get */
};

struct dz_redis_group {
    dz_redis *redis;
    dz_fiber *fiber;
    dz_redis_call *calls;
    size_t count;
    size_t left; /* calls not answered yet, and one while they are started */
};

/* calls.c: parks until the call is answered; returns call->rc. */
int dz_redis_do(dz_redis_call *call);
/* Parks until all are answered. Each has its own rc. DZ_E_STATE: no handler. */
int dz_redis_do_group(dz_redis_group *group);
/* The command's name and the keys, in `small` (DZ_REDIS_SMALL_ARGS) when they fit. NULL: out of
 * memory. */
enum { DZ_REDIS_SMALL_ARGS = 64 };
dz_slice *dz_redis_with_name(dz_slice name, const dz_slice *keys, size_t count, dz_slice *small);
/* Moves the texts of an MGET's reply to values[at[i]], or values[i] when `at` is NULL. */
int dz_redis_take_values(dz_reply *reply, dz_buf *values, const size_t *at, size_t count);

/* multi.c: MGET (values) or DEL (deleted) of keys in several slots. */
int dz_redis_multi_get(dz_redis *redis, const dz_slice *keys, size_t count, dz_buf *values);
int dz_redis_multi_del(dz_redis *redis, const dz_slice *keys, size_t count, int64_t *deleted);

/* client.c: remembers why a connection failed (NULL: all is well again) and tells the service. */
void dz_redis_note(dz_redis *redis, const dz_redis_endpoint *at, const char *why);

/* share.c */
void dz_redis_share_start(dz_loop *loop, dz_fiber *fiber);       /* dz_fiber_after; arg: the call */
void dz_redis_share_start_group(dz_loop *loop, dz_fiber *fiber); /* arg: the group */
/* From a handler whose loop is pinned: answers a GET from the cache. False: not there. */
bool dz_redis_share_lookup(dz_redis_call *call, dz_loop *loop);
void dz_redis_share_free(dz_redis_share *share);
void dz_redis_share_publish(dz_redis_share *share); /* the cache's counters */
void dz_redis_share_flush(dz_redis_share *share);   /* drops the cache */
/* Prepares the i-th connection to an endpoint. DZ_E_NOMEM. */
int dz_redis_share_conn(dz_redis_share *share, dz_redis_conn *conn,
                        const dz_redis_endpoint *endpoint, unsigned i);

/* flight.c: sends the call's command. An error: the call is still the caller's. */
int dz_redis_flight_start(dz_redis_share *share, dz_redis_call *call);
/* Where a GET of this key would be tracked now; NULL: nowhere. */
dz_redis_conn *dz_redis_tracking_conn(dz_redis_share *share, dz_slice key);
dz_redis_conn *dz_redis_least_busy(const dz_redis_share *share, dz_redis_conn *conns,
                                   unsigned count);
/* The call has its outcome: its handler may go on. */
void dz_redis_call_done(dz_redis_call *call);

#endif
