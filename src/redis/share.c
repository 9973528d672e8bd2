/* One loop's share of a client: cache and connections. All on the loop. */
#include "redis/client.h"

#include "redis/cluster.h"

#include <donmaz/error.h>

#include <stdlib.h>

static void end_tick(dz_loop *loop, dz_deferred *deferred)
{
    (void)loop;
    dz_redis_share *share = DZ_CONTAINER(deferred, dz_redis_share, end_of_tick);
    if (share->joinable_count > 0)
        memset(share->joinable, 0, sizeof share->joinable);
    share->joinable_count = 0;
}

/* --- the cache */

void dz_redis_share_publish(dz_redis_share *share)
{
    dz_cache_stats now;
    dz_cache_get_stats(share->cache, &now);
    const uint64_t values[] = {now.hits,    now.misses, now.invalidations, now.evictions,
                               now.flushes, now.late,   now.bytes,         now.values};
    _Atomic uint64_t *const cells[] = {&share->view.hits,          &share->view.misses,
                                       &share->view.invalidations, &share->view.evictions,
                                       &share->view.flushes,       &share->view.late,
                                       &share->view.bytes,         &share->view.values};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        atomic_store_explicit(cells[i], values[i], memory_order_relaxed);
}

void dz_redis_share_flush(dz_redis_share *share)
{
    if (!share->cache)
        return;
    dz_cache_flush(share->cache);
    dz_redis_share_publish(share);
}

/* >2 invalidate [key, ...], or null in place of the keys after FLUSHALL. */
static void on_push(dz_redis_conn *conn, const dz_reply *push)
{
    dz_redis_share *share = conn->user;
    const dz_reply *name = push->first, *keys = name ? name->next : NULL;
    if (!share->cache || !keys || !dz_slice_equal(dz_buf_slice(&name->text), DZ_LIT("invalidate")))
        return;
    if (keys->kind == DZ_REPLY_NULL)
        dz_cache_flush(share->cache);
    for (const dz_reply *key = keys->first; key; key = key->next)
        dz_cache_invalidate(share->cache, dz_buf_slice(&key->text));
    dz_redis_share_publish(share);
}

static void on_down(dz_redis_conn *conn, bool was_ready)
{
    dz_redis_share *share = conn->user;
    if (was_ready && conn->tracks)
        dz_redis_share_flush(share);
    dz_redis_note(share->redis, conn->endpoint, conn->why);
    if (share->cluster)
        dz_redis_cluster_down(share->cluster, conn);
}

static void on_up(dz_redis_conn *conn)
{
    const dz_redis_share *share = conn->user;
    dz_redis_note(share->redis, conn->endpoint, NULL);
}

/* A connection that has been silent is asked whether it is there: without an answer it is given up
 * after a while, and with it the values that it vouched for. */
static void on_ping(dz_redis_conn *conn, dz_redis_cmd *cmd, int rc, dz_reply *reply)
{
    (void)conn;
    (void)rc;
    dz_reply_free(reply);
    free(cmd);
}

static void on_ping_expired(dz_redis_conn *conn, dz_redis_cmd *cmd)
{
    (void)cmd;
    conn->give_up = true;
}

static void check_alive(dz_redis_conn *conn)
{
    if (conn->owed > 0 || conn->loop->now - conn->heard < conn->config->timeout_ns)
        return;
    const dz_slice args[] = {DZ_LIT("PING")};
    dz_redis_cmd *cmd = dz_redis_cmd_new(args, 1);
    if (!cmd)
        return;
    cmd->done = on_ping;
    cmd->expired = on_ping_expired;
    if (dz_redis_conn_submit(conn, cmd) < 0)
        free(cmd);
}

static bool answer_from_cache(dz_redis_share *share, dz_redis_call *call)
{
    if (!share->cache)
        return false;
    /* Without tracking nobody would tell us of changes. */
    dz_redis_conn *conn = dz_redis_tracking_conn(share, call->args[1]);
    call->looked = true;
    if (!conn) {
        dz_cache_missed(share->cache);
        dz_redis_share_publish(share);
        return false;
    }
    dz_cache_found found = dz_cache_get(share->cache, call->args[1], &call->value);
    dz_redis_share_publish(share);
    if (found == DZ_CACHE_MISS)
        return false;
    call->rc = found == DZ_CACHE_ABSENT ? DZ_E_NOT_FOUND : 0;
    check_alive(conn);
    return true;
}

/* --- shares */

int dz_redis_share_conn(dz_redis_share *share, dz_redis_conn *conn,
                        const dz_redis_endpoint *endpoint, unsigned i)
{
    int rc =
        dz_redis_conn_init(conn, share->loop, &share->redis->config, endpoint, &share->conn_stats);
    if (rc < 0)
        return rc;
    conn->user = share;
    conn->on_push = on_push;
    conn->on_down = on_down;
    conn->on_up = on_up;
    conn->tracking = share->redis->cache_bytes > 0 && i == 0; /* the one that fills the cache */
    return 0;
}

static dz_redis_share *new_share(dz_redis *redis, dz_loop *loop)
{
    bool cluster = redis->config.url.cluster;
    unsigned connections = cluster ? 0 : redis->connections;
    size_t size = sizeof(dz_redis_share) + connections * sizeof(dz_redis_conn);
    dz_redis_share *share = malloc(size);
    if (!share)
        return NULL;
    memset(share, 0, sizeof *share);
    share->redis = redis;
    share->loop = loop;
    dz_deferred_init(&share->end_of_tick, end_tick);
    for (unsigned i = 0; i < connections; i++) {
        if (dz_redis_share_conn(share, &share->conns[i], &redis->config.url.endpoints[0], i) < 0)
            goto fail;
        share->conn_count++;
    }
    if (cluster && !(share->cluster = dz_redis_cluster_new(share)))
        goto fail;
    if (redis->cache_bytes > 0 && !(share->cache = dz_cache_new(redis->cache_bytes)))
        goto fail;
    return share;
fail:
    dz_redis_share_free(share);
    return NULL;
}

void dz_redis_share_free(dz_redis_share *share)
{
    dz_redis_cluster_free(share->cluster);
    for (unsigned i = 0; i < share->conn_count; i++)
        dz_redis_conn_close(&share->conns[i], true);
    dz_cache_free(share->cache);
    free(share);
}

static dz_redis_share *share_of(dz_redis *redis, dz_loop *loop)
{
    if (loop->index >= DZ_REDIS_LOOPS)
        return NULL;
    dz_redis_share *share = atomic_load_explicit(&redis->shares[loop->index], memory_order_acquire);
    if (share)
        return share;
    share = new_share(redis, loop);
    atomic_store_explicit(&redis->shares[loop->index], share, memory_order_release);
    return share;
}

/* --- calls begin */

/* 1: it waits for its answer (or has had it, and is not ours to touch); else the outcome. */
static int start(dz_redis_share *share, dz_redis_call *call)
{
    dz_list_init(&call->link);
    if (!share)
        return DZ_E_NOMEM;
    /* The handler has mostly looked already, on its way here. */
    if (call->is_get && !call->looked && answer_from_cache(share, call))
        return call->rc;
    int rc = dz_redis_flight_start(share, call);
    return rc == 0 ? 1 : rc;
}

void dz_redis_share_start(dz_loop *loop, dz_fiber *fiber)
{
    dz_redis_call *call = fiber->after_arg;
    int rc = start(share_of(call->redis, loop), call);
    if (rc == 1)
        return;
    call->rc = rc;
    dz_fiber_ready(fiber);
}

void dz_redis_share_start_group(dz_loop *loop, dz_fiber *fiber)
{
    dz_redis_group *group = fiber->after_arg;
    dz_redis_share *share = share_of(group->redis, loop);
    group->left = group->count + 1;
    for (size_t i = 0; i < group->count; i++) {
        int rc = start(share, &group->calls[i]);
        if (rc == 1)
            continue;
        group->calls[i].rc = rc;
        group->left--;
    }
    if (--group->left == 0)
        dz_fiber_ready(fiber);
}

bool dz_redis_share_lookup(dz_redis_call *call, dz_loop *loop)
{
    dz_redis_share *share =
        loop->index < DZ_REDIS_LOOPS
            ? atomic_load_explicit(&call->redis->shares[loop->index], memory_order_acquire)
            : NULL;
    return share && answer_from_cache(share, call);
}
