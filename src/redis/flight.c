/* Commands on their way, and the calls that wait for them. All on the loop. */
#include "redis/client.h"

#include "redis/cluster.h"

#include <donmaz/error.h>

#include <stdlib.h>
#include <xxhash.h>

typedef struct flight {
    dz_redis_share *share;
    dz_list calls;
    uint64_t ticket; /* of the cache; 0: not to be kept */
    size_t place;    /* among the joinable */
    dz_redis_cmd *cmd;
} flight;

/* --- the end */

void dz_redis_call_done(dz_redis_call *call)
{
    dz_redis_group *group = call->group;
    if (!group)
        dz_fiber_ready(call->fiber);
    else if (--group->left == 0)
        dz_fiber_ready(group->fiber);
}

static void answer(flight *f, int rc)
{
    for (dz_list *link; (link = dz_list_shift(&f->calls));) {
        dz_redis_call *call = DZ_CONTAINER(link, dz_redis_call, link);
        call->rc = rc;
        dz_redis_call_done(call);
    }
}

static bool begins_with(dz_slice text, const char *word)
{
    size_t len = strlen(word);
    return text.len >= len && memcmp(text.ptr, word, len) == 0;
}

/* States of the server that pass are not the caller's mistake. */
static int rc_of_error(dz_redis_share *share, const dz_reply *reply)
{
    dz_slice text = dz_buf_slice(&reply->text);
    static const char *const passing[] = {"LOADING", "BUSY ", "MASTERDOWN", "CLUSTERDOWN",
                                          "TRYAGAIN"};
    dz_redis_count(&share->errors, 1);
    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
        if (begins_with(text, passing[i]))
            return DZ_E_UNAVAILABLE;
    if (!begins_with(text, "MOVED ") && !begins_with(text, "ASK "))
        return DZ_E_REPLY;
    if (share->cluster) /* sent on too often */
        return DZ_E_UNAVAILABLE;
    dz_redis_note(share->redis, &share->redis->config.url.endpoints[0],
                  "this is a node of a Redis Cluster: use redis+cluster://");
    return DZ_E_REPLY;
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
        dz_redis_call_done(call);
    }
}

static void end_flight(flight *f)
{
    free(f->cmd);
    free(f);
}

static void drop_flight(dz_redis_cmd *cmd)
{
    end_flight(cmd->user);
}

/* Whether the cluster takes the command on to where it belongs. */
static bool goes_on(flight *f, dz_redis_conn *conn, int rc, dz_reply *reply)
{
    dz_redis_share *share = f->share;
    if (!share->cluster || !conn || dz_list_empty(&f->calls))
        return false;
    dz_redis_cmd *cmd = f->cmd;
    if (f->ticket != 0) { /* what another node answers is not tracked by this one */
        dz_cache_abandon(share->cache, cmd->key, f->ticket);
        f->ticket = 0;
    }
    if (share->joinable[f->place] == cmd)
        share->joinable[f->place] = NULL;
    return dz_redis_cluster_follow(share->cluster, conn, cmd, rc, reply);
}

static bool may_go_on(int rc, const dz_reply *reply)
{
    return rc < 0 || reply->kind == DZ_REPLY_ERROR;
}

/* A GET's reply goes into the cache if nothing overtook it. */
static void keep(flight *f, int rc, dz_reply *reply)
{
    dz_redis_share *share = f->share;
    if (!share->cache || f->ticket == 0)
        return;
    if (rc == 0 && reply->kind == DZ_REPLY_STRING && reply->text.block)
        dz_cache_fill(share->cache, f->cmd->key, f->ticket, &reply->text);
    else if (rc == 0 && reply->kind == DZ_REPLY_NULL)
        dz_cache_fill(share->cache, f->cmd->key, f->ticket, NULL);
    else
        dz_cache_abandon(share->cache, f->cmd->key, f->ticket);
    dz_redis_share_publish(share);
}

static void on_get(dz_redis_conn *conn, dz_redis_cmd *cmd, int rc, dz_reply *reply)
{
    flight *f = cmd->user;
    dz_redis_share *share = f->share;
    if (may_go_on(rc, reply) && goes_on(f, conn, rc, reply))
        return;
    if (share->joinable[f->place] == cmd)
        share->joinable[f->place] = NULL;
    keep(f, rc, reply);
    if (rc == 0 && reply->kind == DZ_REPLY_STRING && reply->text.block)
        hand_out(f, reply);
    else if (rc == 0 && reply->kind == DZ_REPLY_ERROR)
        answer(f, rc_of_error(share, reply));
    else if (rc == 0)
        answer(f, reply->kind == DZ_REPLY_NULL ? DZ_E_NOT_FOUND : DZ_E_PROTOCOL);
    else
        answer(f, rc);
    dz_reply_free(reply);
    end_flight(f);
}

static void drop_written(dz_redis_share *share, const dz_redis_call *call)
{
    if (!share->cache)
        return;
    if (call->writes_anything)
        dz_cache_flush(share->cache);
    for (size_t i = 0; i < call->key_count; i++)
        dz_cache_drop(share->cache, call->keys[i]);
}

static void on_any(dz_redis_conn *conn, dz_redis_cmd *cmd, int rc, dz_reply *reply)
{
    flight *f = cmd->user;
    dz_redis_share *share = f->share;
    if (may_go_on(rc, reply) && goes_on(f, conn, rc, reply))
        return;
    if (!dz_list_empty(&f->calls)) { /* else it was given up */
        dz_redis_call *call = DZ_CONTAINER(f->calls.next, dz_redis_call, link);
        /* Again: a read that was sent before the write may have been answered in between. */
        drop_written(share, call);
        call->reply = reply;
        reply = NULL;
        if (rc == 0 && call->reply->kind == DZ_REPLY_ERROR)
            rc = rc_of_error(share, call->reply);
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

/* --- the beginning */

/* With a cache, all goes over the connection that tracks: it tells of changes before it answers. */
dz_redis_conn *dz_redis_least_busy(const dz_redis_share *share, dz_redis_conn *conns,
                                   unsigned count)
{
    dz_redis_conn *best = &conns[0];
    for (unsigned i = 1; i < count && !share->cache; i++)
        if (conns[i].owed < best->owed)
            best = &conns[i];
    return best;
}

dz_redis_conn *dz_redis_tracking_conn(dz_redis_share *share, dz_slice key)
{
    if (!share->cache)
        return NULL;
    dz_redis_conn *conn =
        share->cluster ? dz_redis_cluster_conn(share->cluster, key) : &share->conns[0];
    return conn && conn->tracks && conn->state == DZ_REDIS_READY ? conn : NULL;
}

static int submit(dz_redis_share *share, const dz_redis_call *call, dz_redis_cmd *cmd)
{
    if (!share->cluster)
        return dz_redis_conn_submit(dz_redis_least_busy(share, share->conns, share->conn_count),
                                    cmd);
    cmd->slot =
        call->key > 0 && call->key < call->count ? dz_slot_of(call->args[call->key]) : DZ_SLOT_ANY;
    return dz_redis_cluster_submit(share->cluster, cmd);
}

static flight *new_flight(dz_redis_share *share, const dz_redis_call *call)
{
    flight *f = malloc(sizeof *f);
    if (!f)
        return NULL;
    *f = (flight){.share = share};
    dz_list_init(&f->calls);
    f->cmd = dz_redis_cmd_new(call->args, call->count);
    if (!f->cmd) {
        free(f);
        return NULL;
    }
    f->cmd->user = f;
    f->cmd->done = call->is_get ? on_get : on_any;
    f->cmd->expired = on_expired;
    f->cmd->drop = drop_flight;
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
    dz_redis_count(&share->shared, 1);
    return true;
}

static int start_get(dz_redis_share *share, dz_redis_call *call)
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
    if (dz_redis_tracking_conn(share, key))
        f->ticket = dz_cache_begin(share->cache, key);
    dz_list_push(&f->calls, &call->link);
    share->joinable[place] = f->cmd;
    share->joinable_count++;
    dz_defer(share->loop, &share->end_of_tick);
    int rc = submit(share, call, f->cmd);
    if (rc == 0)
        return 0;
    share->joinable[place] = NULL;
    if (f->ticket != 0)
        dz_cache_abandon(share->cache, key, f->ticket);
    end_flight(f);
    return rc;
}

static int start_any(dz_redis_share *share, dz_redis_call *call)
{
    drop_written(share, call);
    flight *f = new_flight(share, call);
    if (!f)
        return DZ_E_NOMEM;
    dz_list_push(&f->calls, &call->link);
    int rc = submit(share, call, f->cmd);
    if (rc < 0)
        end_flight(f);
    return rc;
}

int dz_redis_flight_start(dz_redis_share *share, dz_redis_call *call)
{
    return call->is_get ? start_get(share, call) : start_any(share, call);
}
