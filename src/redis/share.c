/* One loop's share of a client: cache, sharing of GETs, connections. All on the loop. */
#include "redis/client.h"

#include <donmaz/error.h>

#include <stdlib.h>
#include <xxhash.h>

static void end_tick(dz_loop *loop, dz_deferred *deferred)
{
    (void)loop;
    dz_redis_share *share = DZ_CONTAINER(deferred, dz_redis_share, end_of_tick);
    if (share->joinable_count > 0)
        memset(share->joinable, 0, sizeof share->joinable);
    share->joinable_count = 0;
}

/* --- the cache */

static void publish_cache(dz_redis_share *share)
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
    publish_cache(share);
}

static void on_lost(dz_redis_conn *conn)
{
    dz_redis_share *share = conn->user;
    if (!share->cache)
        return;
    dz_cache_flush(share->cache);
    publish_cache(share);
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

static void check_alive(dz_redis_share *share)
{
    dz_redis_conn *conn = &share->conns[0];
    if (conn->state != DZ_REDIS_READY || conn->owed > 0 ||
        share->loop->now - conn->heard < conn->config->timeout_ns)
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
    /* Without tracking nobody would tell us of changes. */
    if (!share->cache || !share->conns[0].tracks || share->conns[0].state != DZ_REDIS_READY)
        return false;
    dz_cache_found found = dz_cache_get(share->cache, call->args[1], &call->value,
                                        call->want_hash ? &call->hash : NULL);
    publish_cache(share);
    if (found == DZ_CACHE_MISS)
        return false;
    call->rc = found == DZ_CACHE_ABSENT ? DZ_E_NOT_FOUND : 0;
    call->has_hash = found == DZ_CACHE_VALUE && call->want_hash;
    check_alive(share);
    return true;
}

static void drop_keys(dz_redis_share *share, const dz_slice *keys, size_t count)
{
    if (!share->cache)
        return;
    for (size_t i = 0; i < count; i++)
        dz_cache_drop(share->cache, keys[i]);
}

/* --- commands */

/* A command on its way and the calls that wait for it. */
typedef struct flight {
    dz_redis_share *share;
    dz_list calls;
    uint64_t ticket; /* of the cache; 0: not to be kept */
    size_t place;    /* among the joinable */
    dz_redis_cmd *cmd;
} flight;

static void answer(flight *f, int rc)
{
    for (dz_list *link; (link = dz_list_shift(&f->calls));) {
        dz_redis_call *call = DZ_CONTAINER(link, dz_redis_call, link);
        call->rc = rc;
        dz_fiber_ready(call->fiber);
    }
}

static bool begins_with(dz_slice text, const char *word)
{
    size_t len = strlen(word);
    return text.len >= len && memcmp(text.ptr, word, len) == 0;
}

/* States of the server that pass are not the caller's mistake. */
static int rc_of_error(const dz_reply *reply)
{
    dz_slice text = dz_buf_slice(&reply->text);
    static const char *const passing[] = {"LOADING", "BUSY ", "MASTERDOWN", "CLUSTERDOWN",
                                          "TRYAGAIN"};
    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
        if (begins_with(text, passing[i]))
            return DZ_E_UNAVAILABLE;
    return DZ_E_REPLY;
}

static void count_one(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* Gives the value to everyone who waits; the last one gets it without sharing. */
static void hand_out(flight *f, dz_reply *reply)
{
    for (dz_list *link; (link = dz_list_shift(&f->calls));) {
        dz_redis_call *call = DZ_CONTAINER(link, dz_redis_call, link);
        call->rc = 0;
        if (dz_list_empty(&f->calls)) {
            call->value = reply->text;
            reply->text = (dz_buf){0};
        } else {
            call->rc = dz_buf_share(&call->value, &reply->text, 0, reply->text.len);
        }
        dz_fiber_ready(call->fiber);
    }
}

static void end_flight(flight *f)
{
    free(f->cmd);
    free(f);
}

static void on_get(dz_redis_conn *conn, dz_redis_cmd *cmd, int rc, dz_reply *reply)
{
    (void)conn;
    flight *f = cmd->user;
    dz_redis_share *share = f->share;
    if (share->joinable[f->place] == cmd)
        share->joinable[f->place] = NULL;
    bool is_value = rc == 0 && reply->kind == DZ_REPLY_STRING && reply->text.block;
    if (share->cache && f->ticket != 0) {
        if (is_value)
            dz_cache_fill(share->cache, cmd->key, f->ticket, &reply->text);
        else if (rc == 0 && reply->kind == DZ_REPLY_NULL)
            dz_cache_fill(share->cache, cmd->key, f->ticket, NULL);
        else
            dz_cache_abandon(share->cache, cmd->key, f->ticket);
        publish_cache(share);
    }
    if (is_value) {
        hand_out(f, reply);
    } else {
        if (rc == 0 && reply->kind == DZ_REPLY_ERROR) {
            count_one(&share->errors);
            rc = rc_of_error(reply);
        } else if (rc == 0) {
            rc = reply->kind == DZ_REPLY_NULL ? DZ_E_NOT_FOUND : DZ_E_PROTOCOL;
        }
        answer(f, rc);
    }
    dz_reply_free(reply);
    end_flight(f);
}

static void on_any(dz_redis_conn *conn, dz_redis_cmd *cmd, int rc, dz_reply *reply)
{
    (void)conn;
    flight *f = cmd->user;
    dz_redis_share *share = f->share;
    if (!dz_list_empty(&f->calls)) { /* else it was given up */
        dz_redis_call *call = DZ_CONTAINER(f->calls.next, dz_redis_call, link);
        /* Again: a read that was sent before the write may have been answered in between. */
        drop_keys(share, call->keys, call->key_count);
        call->reply = reply;
        reply = NULL;
        if (rc == 0 && call->reply->kind == DZ_REPLY_ERROR) {
            count_one(&share->errors);
            rc = rc_of_error(call->reply);
        }
        answer(f, rc);
    }
    dz_reply_free(reply);
    end_flight(f);
}

static void on_expired(dz_redis_conn *conn, dz_redis_cmd *cmd)
{
    (void)conn;
    answer(cmd->user, DZ_E_TIMEOUT);
}

/* --- submitting */

static dz_redis_conn *least_busy(dz_redis_share *share)
{
    dz_redis_conn *best = &share->conns[0];
    for (unsigned i = 1; i < share->conn_count; i++)
        if (share->conns[i].owed < best->owed)
            best = &share->conns[i];
    return best;
}

static flight *new_flight(dz_redis_share *share, const dz_redis_call *call)
{
    flight *f = malloc(sizeof *f);
    if (!f)
        return NULL;
    f->share = share;
    f->ticket = 0;
    f->place = 0;
    dz_list_init(&f->calls);
    f->cmd = dz_redis_cmd_new(call->args, call->count);
    if (!f->cmd) {
        free(f);
        return NULL;
    }
    f->cmd->user = f;
    f->cmd->done = call->is_get ? on_get : on_any;
    f->cmd->expired = on_expired;
    f->cmd->is_read = call->is_read;
    return f;
}

/* The key of an encoded GET: the last argument, before the CRLF. */
static dz_slice key_in(const dz_redis_cmd *cmd, size_t key_len)
{
    return dz_slice_make(cmd->bytes + cmd->len - 2 - key_len, key_len);
}

/* Joins a GET of the same key that was made in this tick and is not on its way yet. */
static bool join(dz_redis_share *share, dz_redis_call *call, size_t place)
{
    dz_redis_cmd *cmd = share->joinable[place];
    if (!cmd || cmd->sealed || !dz_slice_equal(cmd->key, call->args[1]))
        return false;
    flight *f = cmd->user;
    dz_list_push(&f->calls, &call->link);
    count_one(&share->shared);
    return true;
}

static int submit_get(dz_redis_share *share, dz_redis_call *call)
{
    dz_slice key = call->args[1];
    size_t place = XXH3_64bits(key.ptr, key.len) % DZ_REDIS_JOINABLE;
    if (!share->redis->no_sharing && join(share, call, place))
        return 0;
    flight *f = new_flight(share, call);
    if (!f)
        return DZ_E_NOMEM;
    f->cmd->key = key_in(f->cmd, key.len);
    f->place = place;
    dz_redis_conn *conn = share->cache ? &share->conns[0] : least_busy(share);
    if (share->cache && conn->tracks && conn->state == DZ_REDIS_READY)
        f->ticket = dz_cache_begin(share->cache, key);
    dz_list_push(&f->calls, &call->link);
    share->joinable[place] = f->cmd;
    share->joinable_count++;
    dz_defer(share->loop, &share->end_of_tick);
    int rc = dz_redis_conn_submit(conn, f->cmd);
    if (rc == 0)
        return 0;
    share->joinable[place] = NULL;
    if (f->ticket != 0)
        dz_cache_abandon(share->cache, key, f->ticket);
    end_flight(f);
    return rc;
}

static int submit_any(dz_redis_share *share, dz_redis_call *call)
{
    drop_keys(share, call->keys, call->key_count);
    flight *f = new_flight(share, call);
    if (!f)
        return DZ_E_NOMEM;
    dz_list_push(&f->calls, &call->link);
    int rc = dz_redis_conn_submit(share->cache ? &share->conns[0] : least_busy(share), f->cmd);
    if (rc < 0)
        end_flight(f);
    return rc;
}

/* --- shares */

static dz_redis_share *new_share(dz_redis *redis, dz_loop *loop)
{
    size_t size = sizeof(dz_redis_share) + redis->connections * sizeof(dz_redis_conn);
    dz_redis_share *share = malloc(size);
    if (!share)
        return NULL;
    memset(share, 0, sizeof *share);
    share->redis = redis;
    share->loop = loop;
    dz_deferred_init(&share->end_of_tick, end_tick);
    for (unsigned i = 0; i < redis->connections; i++) {
        dz_redis_conn *conn = &share->conns[i];
        if (dz_redis_conn_init(conn, loop, &redis->config) < 0)
            goto fail;
        conn->user = share;
        conn->on_push = on_push;
        conn->on_lost = on_lost;
        share->conn_count++;
    }
    if (redis->cache_bytes > 0) {
        share->cache = dz_cache_new(redis->cache_bytes);
        if (!share->cache)
            goto fail;
    }
    return share;
fail:
    dz_redis_share_free(share);
    return NULL;
}

void dz_redis_share_free(dz_redis_share *share)
{
    for (unsigned i = 0; i < share->conn_count; i++)
        dz_redis_conn_close(&share->conns[i]);
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

void dz_redis_share_start(dz_loop *loop, dz_fiber *fiber)
{
    dz_redis_call *call = fiber->after_arg;
    dz_redis_share *share = share_of(call->redis, loop);
    dz_list_init(&call->link);
    if (!share) {
        call->rc = DZ_E_NOMEM;
    } else if (!call->is_get || !answer_from_cache(share, call)) {
        int rc = call->is_get ? submit_get(share, call) : submit_any(share, call);
        if (rc == 0)
            return; /* the call may have been answered already: it is not ours to touch */
        call->rc = rc;
    }
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
