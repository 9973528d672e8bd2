/* The calls of redis.h, on the handler's stack. */
#include "redis/client.h"

#include "base/block.h"

#include <donmaz/error.h>

#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

enum { DEFAULT_TIMEOUT_MS = 1000, DEFAULT_WAITING = 4096, SMALL_ARGS = 64 };

int dz_redis_open(dz_redis **out, const char *url, const dz_redis_options *options)
{
    static const dz_redis_options defaults;
    if (!options)
        options = &defaults;
    if (options->connections > DZ_REDIS_CONNECTIONS)
        return DZ_E_INVALID;
    dz_redis *redis = calloc(1, sizeof *redis);
    if (!redis)
        return DZ_E_NOMEM;
    dz_redis_config *config = &redis->config;
    int rc = dz_redis_url_parse(&config->url, dz_slice_of(url));
    if (rc == 0 && config->url.tls)
        rc = DZ_E_UNAVAILABLE;
    if (rc == 0)
        rc = dz_redis_resolve(config);
    if (rc < 0) {
        free(redis);
        return rc;
    }
    uint64_t timeout = options->timeout_ms ? options->timeout_ms : DEFAULT_TIMEOUT_MS;
    uint64_t connect =
        options->connect_timeout_ms ? options->connect_timeout_ms : DEFAULT_TIMEOUT_MS;
    config->timeout_ns = timeout * DZ_MS;
    config->connect_timeout_ns = connect * DZ_MS;
    config->max_waiting = options->max_waiting ? options->max_waiting : DEFAULT_WAITING;
    config->limits.bytes = options->max_reply;
    config->tracking = options->cache_bytes > 0;
    redis->connections = options->connections ? options->connections : 1;
    redis->cache_bytes = options->cache_bytes;
    redis->no_sharing = options->no_sharing;
    *out = redis;
    return 0;
}

void dz_redis_close(dz_redis *redis)
{
    if (!redis)
        return;
    for (size_t i = 0; i < DZ_REDIS_LOOPS; i++) {
        dz_redis_share *share = atomic_load(&redis->shares[i]);
        if (share)
            dz_redis_share_free(share);
    }
    free(redis);
}

int dz_redis_do(dz_redis_call *call)
{
    call->fiber = dz_fiber_current();
    if (!call->fiber)
        return DZ_E_STATE;
    dz_loop *loop = call->fiber->loop;
    if (call->is_get && call->redis->cache_bytes > 0 && dz_loop_pin(loop)) {
        bool found = dz_redis_share_lookup(call, loop);
        dz_loop_unpin(loop);
        if (found)
            return call->rc;
    }
    dz_fiber_park(dz_redis_share_start, call);
    return call->rc;
}

static int get(dz_redis *redis, dz_slice key, dz_buf *value, uint64_t *hash)
{
    const dz_slice args[] = {DZ_LIT("GET"), key};
    dz_redis_call call = {.redis = redis,
                          .args = args,
                          .count = 2,
                          .is_get = true,
                          .is_read = true,
                          .want_hash = hash != NULL};
    int rc = dz_redis_do(&call);
    *value = call.value;
    if (rc == 0 && hash)
        *hash = call.has_hash ? call.hash : XXH3_64bits(value->data, value->len);
    return rc;
}

int dz_redis_get(dz_redis *redis, dz_slice key, dz_buf *value)
{
    return get(redis, key, value, NULL);
}

int dz_redis_get_hash(dz_redis *redis, dz_slice key, dz_buf *value, uint64_t *hash)
{
    return get(redis, key, value, hash);
}

/* A write of `keys` (args of its own) with a reply of the given kind; the reply is freed. */
static int write_command(dz_redis *redis, const dz_slice *args, size_t count, const dz_slice *keys,
                         size_t key_count, dz_reply_kind expected, int64_t *number)
{
    dz_redis_call call = {
        .redis = redis, .args = args, .count = count, .keys = keys, .key_count = key_count};
    int rc = dz_redis_do(&call);
    if (rc == 0 && call.reply->kind != expected)
        rc = DZ_E_PROTOCOL;
    if (rc == 0 && number)
        *number = call.reply->integer;
    dz_reply_free(call.reply);
    return rc;
}

int dz_redis_set(dz_redis *redis, dz_slice key, dz_slice value, uint64_t expire_ms)
{
    char number[24];
    snprintf(number, sizeof number, "%llu", (unsigned long long)expire_ms);
    const dz_slice args[] = {DZ_LIT("SET"), key, value, DZ_LIT("PX"), dz_slice_of(number)};
    return write_command(redis, args, expire_ms ? 5 : 3, &key, 1, DZ_REPLY_STATUS, NULL);
}

int dz_redis_incr(dz_redis *redis, dz_slice key, int64_t by, int64_t *value)
{
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)by);
    const dz_slice args[] = {DZ_LIT("INCRBY"), key, dz_slice_of(number)};
    return write_command(redis, args, 3, &key, 1, DZ_REPLY_INTEGER, value);
}

/* The command's name and the keys, in `small` when they fit. NULL: out of memory. */
static dz_slice *with_name(dz_slice name, const dz_slice *keys, size_t count, dz_slice *small)
{
    if (count >= SIZE_MAX / sizeof(dz_slice) - 1)
        return NULL;
    dz_slice *args = count < SMALL_ARGS ? small : malloc((count + 1) * sizeof *args);
    if (!args)
        return NULL;
    args[0] = name;
    if (count > 0)
        memcpy(args + 1, keys, count * sizeof *keys);
    return args;
}

int dz_redis_del(dz_redis *redis, const dz_slice *keys, size_t count, int64_t *deleted)
{
    dz_slice small[SMALL_ARGS];
    if (count == 0)
        return DZ_E_INVALID;
    dz_slice *args = with_name(DZ_LIT("DEL"), keys, count, small);
    if (!args)
        return DZ_E_NOMEM;
    int rc = write_command(redis, args, count + 1, keys, count, DZ_REPLY_INTEGER, deleted);
    if (args != small)
        free(args);
    return rc;
}

/* Moves the text of each child, which is long and owning or short and the reply's. */
static int take_values(dz_reply *reply, dz_buf *values, size_t count)
{
    if (reply->kind != DZ_REPLY_ARRAY || reply->count != count)
        return DZ_E_PROTOCOL;
    size_t i = 0;
    for (dz_reply *child = reply->first; child; child = child->next, i++) {
        if (child->kind != DZ_REPLY_STRING)
            continue; /* no such key, or not a string: as MGET says */
        if (child->text.block) {
            values[i] = child->text;
            child->text = (dz_buf){0};
            continue;
        }
        int rc = dz_buf_copy(&values[i], dz_buf_slice(&child->text));
        if (rc < 0)
            return rc;
    }
    return 0;
}

int dz_redis_mget(dz_redis *redis, const dz_slice *keys, size_t count, dz_buf *values)
{
    dz_slice small[SMALL_ARGS];
    if (count == 0)
        return DZ_E_INVALID;
    memset(values, 0, count * sizeof *values);
    dz_slice *args = with_name(DZ_LIT("MGET"), keys, count, small);
    if (!args)
        return DZ_E_NOMEM;
    dz_redis_call call = {.redis = redis, .args = args, .count = count + 1, .is_read = true};
    int rc = dz_redis_do(&call);
    if (rc == 0)
        rc = take_values(call.reply, values, count);
    if (rc < 0)
        for (size_t i = 0; i < count; i++)
            dz_buf_release(&values[i]);
    dz_reply_free(call.reply);
    if (args != small)
        free(args);
    return rc;
}

/* Commands that change what later replies mean, or hold up everyone behind them. */
static bool is_refused(dz_slice name)
{
    static const char *const names[] = {
        "SUBSCRIBE", "UNSUBSCRIBE", "PSUBSCRIBE", "PUNSUBSCRIBE", "SSUBSCRIBE", "SUNSUBSCRIBE",
        "MONITOR",   "MULTI",       "EXEC",       "DISCARD",      "WATCH",      "UNWATCH",
        "SELECT",    "AUTH",        "HELLO",      "RESET",        "QUIT",       "CLIENT",
        "SYNC",      "PSYNC",       "BLPOP",      "BRPOP",        "BLMOVE",     "BRPOPLPUSH",
        "BLMPOP",    "BZPOPMIN",    "BZPOPMAX",   "BZMPOP",       "WAIT",       "WAITAOF"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (dz_slice_equal_nocase(name, dz_slice_of(names[i])))
            return true;
    return false;
}

int dz_redis_command(dz_redis *redis, unsigned flags, const dz_slice *args, size_t count,
                     dz_reply **reply)
{
    *reply = NULL;
    if (count == 0 || is_refused(args[0]))
        return DZ_E_INVALID;
    dz_redis_call call = {.redis = redis, .args = args, .count = count};
    call.is_read = (flags & DZ_REDIS_READ) != 0;
    if (!call.is_read) { /* any argument may be a key that it writes */
        call.keys = args + 1;
        call.key_count = count - 1;
    }
    int rc = dz_redis_do(&call);
    if (rc == 0 || rc == DZ_E_REPLY)
        *reply = call.reply;
    else
        dz_reply_free(call.reply);
    return rc;
}

static void add_conn(const dz_redis_conn_stats *conn, dz_redis_stats *stats)
{
    stats->commands += atomic_load(&conn->commands);
    stats->timeouts += atomic_load(&conn->timeouts);
    stats->retries += atomic_load(&conn->retries);
    stats->connects += atomic_load(&conn->connects);
    stats->connect_failures += atomic_load(&conn->connect_failures);
    stats->losses += atomic_load(&conn->losses);
    stats->waiting += atomic_load(&conn->waiting);
    stats->connected += atomic_load(&conn->ready);
}

void dz_redis_get_stats(const dz_redis *redis, dz_redis_stats *stats)
{
    *stats = (dz_redis_stats){0};
    for (size_t i = 0; i < DZ_REDIS_LOOPS; i++) {
        const dz_redis_share *share = atomic_load_explicit(&redis->shares[i], memory_order_acquire);
        if (!share)
            continue;
        stats->shared += atomic_load(&share->shared);
        stats->errors += atomic_load(&share->errors);
        stats->cache_hits += atomic_load(&share->view.hits);
        stats->cache_misses += atomic_load(&share->view.misses);
        stats->cache_invalidations += atomic_load(&share->view.invalidations);
        stats->cache_evictions += atomic_load(&share->view.evictions);
        stats->cache_flushes += atomic_load(&share->view.flushes);
        stats->cache_late += atomic_load(&share->view.late);
        stats->cache_bytes += atomic_load(&share->view.bytes);
        stats->cache_values += atomic_load(&share->view.values);
        for (unsigned c = 0; c < share->conn_count; c++)
            add_conn(&share->conns[c].stats, stats);
    }
}
