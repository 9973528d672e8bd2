/* Whatever a node answers to CLUSTER SLOTS, the map stays one: each slot belongs to nobody or to a
 * node that is there, and nonsense changes nothing. */
#include "fuzz.h"

#include "loop/runtime.h"
#include "redis/cluster.h"

#include <stdlib.h>
#include <string.h>

static dz_runtime *runtime;

static dz_redis_share *make_share(dz_redis *redis)
{
    dz_redis_share *share = calloc(1, sizeof *share);
    HOLDS(share);
    share->redis = redis;
    share->loop = &runtime->loops[0];
    share->cluster = dz_redis_cluster_new(share);
    HOLDS(share->cluster);
    return share;
}

static void check(const dz_redis_cluster *cluster)
{
    for (size_t i = 0; i < DZ_SLOTS; i++) {
        uint16_t place = cluster->owner[i];
        HOLDS(place == DZ_NODE_NONE || (place < cluster->places && cluster->nodes[place]));
        HOLDS(place == DZ_NODE_NONE || cluster->nodes[place]->named);
    }
}

static void apply(dz_redis_cluster *cluster, const dz_reply *reply)
{
    static uint16_t before[DZ_SLOTS];
    memcpy(before, cluster->owner, sizeof before);
    int rc = dz_redis_slotmap_apply(cluster, &cluster->nodes[0]->endpoint, reply);
    HOLDS(rc == 0 || memcmp(before, cluster->owner, sizeof before) == 0);
    /* As at the end of the tick. */
    dz_defer_cancel(cluster->share->loop, &cluster->sweep);
    dz_redis_node_sweep(cluster->share->loop, &cluster->sweep);
    check(cluster);
}

/* The input is what a server sends: each reply in it is taken for a map. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static dz_resp resp;
    static dz_redis redis = {.connections = 1};
    const dz_resp_limits limits = {.depth = 8, .elements = 1000, .bytes = 1 << 20};
    if (!runtime) {
        const dz_runtime_options options = {.loops = 1, .stack_size = 256 << 10};
        int error = 0;
        runtime = dz_runtime_new(&options, &error);
        HOLDS(runtime);
        HOLDS(dz_redis_url_parse(&redis.config.url, DZ_LIT("redis+cluster://127.0.0.1:1")) == 0);
    }
    dz_redis_share *share = make_share(&redis);
    dz_resp_init(&resp, &limits);
    int rc = 0;
    for (size_t at = 0; at < size && rc >= 0;) {
        struct iovec iov[2];
        dz_resp_room(&resp, iov);
        size_t n = size - at < iov[0].iov_len ? size - at : iov[0].iov_len;
        memcpy(iov[0].iov_base, data + at, n);
        dz_resp_filled(&resp, n);
        at += n;
        dz_reply *reply;
        while ((rc = dz_resp_next(&resp, &reply)) == 1) {
            apply(share->cluster, reply);
            dz_reply_free(reply);
        }
    }
    dz_resp_close(&resp);
    /* As if the loop had ended, which it has not: what it reserved is given back by hand. */
    uint64_t timers = 1 + share->nodes;
    dz_redis_cluster_free(share->cluster);
    while (timers-- > 0)
        dz_timer_unreserve(share->loop);
    free(share);
    return 0;
}
