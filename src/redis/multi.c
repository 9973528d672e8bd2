/* Calls over keys in several slots of a cluster: one command for each slot, sent together, and the
 * answers put back in the keys' order. */
#include "redis/client.h"
#include "redis/slot.h"

#include <donmaz/error.h>

#include <stdlib.h>

typedef struct member {
    uint16_t slot;
    size_t index; /* of the key, as the caller has it */
} member;

/* Everything in one allocation; the arguments of part i stand together, its name first. */
typedef struct plan {
    member *members;
    dz_slice *args;
    size_t *at;
    dz_redis_call *calls;
    size_t parts;
} plan;

static int by_slot(const void *a, const void *b)
{
    const member *x = a, *y = b;
    if (x->slot != y->slot)
        return x->slot < y->slot ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static void plan_free(plan *p)
{
    for (size_t i = 0; i < p->parts; i++)
        dz_reply_free(p->calls[i].reply);
    free(p->members);
    free(p->args);
    free(p->at);
    free(p->calls);
}

static int plan_alloc(plan *p, size_t count)
{
    *p = (plan){.members = calloc(count, sizeof *p->members),
                .args = calloc(count, 2 * sizeof *p->args),
                .at = calloc(count, sizeof *p->at),
                .calls = calloc(count, sizeof *p->calls)};
    return p->members && p->args && p->at && p->calls ? 0 : DZ_E_NOMEM;
}

/* A call for each slot. */
static int plan_make(plan *p, dz_redis *redis, dz_slice name, bool is_read, const dz_slice *keys,
                     size_t count)
{
    int rc = plan_alloc(p, count);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < count; i++)
        p->members[i] = (member){.slot = dz_slot_of(keys[i]), .index = i};
    qsort(p->members, count, sizeof *p->members, by_slot);
    dz_slice *arg = p->args;
    dz_redis_call *call = NULL;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || p->members[i].slot != p->members[i - 1].slot) {
            call = &p->calls[p->parts++];
            *call = (dz_redis_call){
                .redis = redis, .args = arg, .count = 1, .key = 1, .is_read = is_read};
            *arg++ = name;
            if (!is_read)
                call->keys = arg;
        }
        p->at[i] = p->members[i].index;
        *arg++ = keys[p->members[i].index];
        call->count++;
        call->key_count += !is_read;
    }
    return 0;
}

static int plan_run(plan *p, dz_redis *redis)
{
    dz_redis_group group = {.redis = redis, .calls = p->calls, .count = p->parts};
    int rc = dz_redis_do_group(&group);
    for (size_t i = 0; i < p->parts && rc == 0; i++)
        rc = p->calls[i].rc;
    return rc;
}

int dz_redis_multi_get(dz_redis *redis, const dz_slice *keys, size_t count, dz_buf *values)
{
    plan p;
    memset(values, 0, count * sizeof *values);
    int rc = plan_make(&p, redis, DZ_LIT("MGET"), true, keys, count);
    if (rc == 0)
        rc = plan_run(&p, redis);
    const size_t *at = p.at;
    for (size_t i = 0; i < p.parts && rc == 0; i++) {
        size_t part = p.calls[i].count - 1;
        rc = dz_redis_take_values(p.calls[i].reply, values, at, part);
        at += part;
    }
    if (rc < 0)
        for (size_t i = 0; i < count; i++)
            dz_buf_release(&values[i]);
    plan_free(&p);
    return rc;
}

int dz_redis_multi_del(dz_redis *redis, const dz_slice *keys, size_t count, int64_t *deleted)
{
    plan p;
    int64_t sum = 0;
    int rc = plan_make(&p, redis, DZ_LIT("DEL"), false, keys, count);
    if (rc == 0)
        rc = plan_run(&p, redis);
    for (size_t i = 0; i < p.parts && rc == 0; i++) {
        if (p.calls[i].reply->kind != DZ_REPLY_INTEGER)
            rc = DZ_E_PROTOCOL;
        sum += p.calls[i].reply->integer;
    }
    if (rc == 0 && deleted)
        *deleted = sum;
    plan_free(&p);
    return rc;
}
