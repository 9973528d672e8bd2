/* client.h: what dz_redis is: a share for each loop that uses it. */
#ifndef DZ_REDIS_CLIENT_H
#define DZ_REDIS_CLIENT_H

#include "redis/cache.h"
#include "redis/conn.h"

#include <donmaz/redis.h>

#include <pthread.h>

enum { DZ_REDIS_CONNECTIONS = 16, DZ_REDIS_LOOPS = 256, DZ_REDIS_JOINABLE = 64 };

/* Cache counters as others may read them. */
typedef struct dz_redis_cache_view {
    _Atomic uint64_t hits, misses, invalidations, evictions, flushes, late, bytes, values;
} dz_redis_cache_view;

/* One loop's share; only that loop touches it, statistics excepted. */
typedef struct dz_redis_share {
    dz_redis *redis;
    dz_loop *loop;
    dz_cache *cache;                           /* NULL: none */
    dz_redis_cmd *joinable[DZ_REDIS_JOINABLE]; /* GETs of this tick, by their key's hash */
    size_t joinable_count;
    dz_deferred end_of_tick;
    dz_redis_cache_view view;
    _Atomic uint64_t shared, errors;
    unsigned conn_count;
    dz_redis_conn conns[];
} dz_redis_share;

struct dz_redis {
    dz_redis_config config;
    unsigned connections;
    size_t cache_bytes;
    bool no_sharing;
    _Atomic(dz_redis_share *)
        shares[DZ_REDIS_LOOPS]; /* by the loop's index; made when first used */
};

/* A handler's call, on its stack while it is parked. */
typedef struct dz_redis_call dz_redis_call;
struct dz_redis_call {
    dz_redis *redis;
    dz_fiber *fiber;
    dz_list link; /* among those that wait for a command */
    const dz_slice *args;
    size_t count;
    bool is_get, is_read, want_hash, has_hash;
    const dz_slice *keys; /* that the command writes; dropped from the cache */
    size_t key_count;
    int rc;
    dz_reply *reply; /* of commands that are not is_get */
    dz_buf value;    /* of is_get */
    uint64_t hash;
};

/* client.c: parks until the call is answered; returns call->rc. */
int dz_redis_do(dz_redis_call *call);

/* share.c */
void dz_redis_share_start(dz_loop *loop, dz_fiber *fiber); /* a dz_fiber_after; arg: the call */
/* From a handler whose loop is pinned: answers a GET from the cache. False: not there. */
bool dz_redis_share_lookup(dz_redis_call *call, dz_loop *loop);
void dz_redis_share_free(dz_redis_share *share);

#endif
