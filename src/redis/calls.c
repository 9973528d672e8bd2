/* The calls of redis.h, on the handler's stack. */
#include "redis/blocks.h"
#include "redis/client.h"
#include "redis/command.h"

#include <donmaz/error.h>

#include <stdio.h>
#include <stdlib.h>

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

int dz_redis_do_group(dz_redis_group *group)
{
    group->fiber = dz_fiber_current();
    if (!group->fiber)
        return DZ_E_STATE;
    for (size_t i = 0; i < group->count; i++)
        group->calls[i].group = group;
    dz_fiber_park(dz_redis_share_start_group, group);
    return 0;
}

int dz_redis_get(dz_redis *redis, dz_slice key, dz_buf *value)
{
    const dz_slice args[] = {DZ_LIT("GET"), key};
    dz_redis_call call = {
        .redis = redis, .args = args, .count = 2, .key = 1, .is_get = true, .is_read = true};
    int rc = dz_redis_do(&call);
    *value = call.value;
    return rc;
}

int dz_redis_get_hash(dz_redis *redis, dz_slice key, dz_buf *value, uint64_t *hash)
{
    int rc = dz_redis_get(redis, key, value);
    if (rc < 0)
        return rc;
    bool computed;
    *hash = dz_blocks_hash(value, &computed);
    if (computed)
        atomic_fetch_add_explicit(&redis->hashes, 1, memory_order_relaxed);
    return 0;
}

/* A write of `keys` (args of its own) with a reply of the given kind; the reply is freed. */
static int write_command(dz_redis *redis, const dz_slice *args, size_t count, const dz_slice *keys,
                         size_t key_count, dz_reply_kind expected, int64_t *number)
{
    dz_redis_call call = {.redis = redis,
                          .args = args,
                          .count = count,
                          .key = 1,
                          .keys = keys,
                          .key_count = key_count};
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

dz_slice *dz_redis_with_name(dz_slice name, const dz_slice *keys, size_t count, dz_slice *small)
{
    if (count >= SIZE_MAX / sizeof(dz_slice) - 1)
        return NULL;
    dz_slice *args = count < DZ_REDIS_SMALL_ARGS ? small : malloc((count + 1) * sizeof *args);
    if (!args)
        return NULL;
    args[0] = name;
    if (count > 0)
        memcpy(args + 1, keys, count * sizeof *keys);
    return args;
}

int dz_redis_del(dz_redis *redis, const dz_slice *keys, size_t count, int64_t *deleted)
{
    dz_slice small[DZ_REDIS_SMALL_ARGS];
    if (count == 0)
        return DZ_E_INVALID;
    if (redis->config.url.cluster && count > 1)
        return dz_redis_multi_del(redis, keys, count, deleted);
    dz_slice *args = dz_redis_with_name(DZ_LIT("DEL"), keys, count, small);
    if (!args)
        return DZ_E_NOMEM;
    int rc = write_command(redis, args, count + 1, keys, count, DZ_REPLY_INTEGER, deleted);
    if (args != small)
        free(args);
    return rc;
}

/* The text of each child is long and owning, or short and the reply's. */
int dz_redis_take_values(dz_reply *reply, dz_buf *values, const size_t *at, size_t count)
{
    if (reply->kind != DZ_REPLY_ARRAY || reply->count != count)
        return DZ_E_PROTOCOL;
    size_t i = 0;
    for (dz_reply *child = reply->first; child; child = child->next, i++) {
        if (child->kind != DZ_REPLY_STRING)
            continue; /* no such key, or not a string: as MGET says */
        dz_buf *value = &values[at ? at[i] : i];
        if (child->text.block) {
            *value = child->text;
            child->text = (dz_buf){0};
            continue;
        }
        int rc = dz_buf_copy(value, dz_buf_slice(&child->text));
        if (rc < 0)
            return rc;
    }
    return 0;
}

int dz_redis_mget(dz_redis *redis, const dz_slice *keys, size_t count, dz_buf *values)
{
    dz_slice small[DZ_REDIS_SMALL_ARGS];
    if (count == 0)
        return DZ_E_INVALID;
    if (redis->config.url.cluster && count > 1)
        return dz_redis_multi_get(redis, keys, count, values);
    memset(values, 0, count * sizeof *values);
    dz_slice *args = dz_redis_with_name(DZ_LIT("MGET"), keys, count, small);
    if (!args)
        return DZ_E_NOMEM;
    dz_redis_call call = {
        .redis = redis, .args = args, .count = count + 1, .key = 1, .is_read = true};
    int rc = dz_redis_do(&call);
    if (rc == 0)
        rc = dz_redis_take_values(call.reply, values, NULL, count);
    if (rc < 0)
        for (size_t i = 0; i < count; i++)
            dz_buf_release(&values[i]);
    dz_reply_free(call.reply);
    if (args != small)
        free(args);
    return rc;
}

int dz_redis_command(dz_redis *redis, unsigned flags, const dz_slice *args, size_t count,
                     dz_reply **reply)
{
    *reply = NULL;
    if (count == 0 || dz_redis_command_refused(args, count))
        return DZ_E_INVALID;
    dz_redis_call call = {.redis = redis, .args = args, .count = count};
    call.key = dz_redis_command_key(args, count);
    call.is_read = (flags & DZ_REDIS_READ) != 0;
    if (!call.is_read) { /* any argument may be a key that it writes */
        call.writes_anything = dz_redis_command_writes_anything(args[0]);
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
