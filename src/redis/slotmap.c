/* Which node has which slots: reading CLUSTER SLOTS from one node after the other, until one tells.
 */
#include "redis/cluster.h"

#include <donmaz/error.h>

#include <stdio.h>
#include <stdlib.h>

/* --- the reply: [first, last, [host, port, ...] (the master), [...] (replicas)] for each range */

/* A node that does not know its own address leaves it out: it is the one that was asked. */
static dz_slice host_of(const dz_reply *host, const dz_redis_endpoint *from)
{
    dz_slice text = dz_buf_slice(&host->text);
    bool unknown =
        host->kind == DZ_REPLY_NULL || text.len == 0 || dz_slice_equal(text, DZ_LIT("?"));
    return unknown ? dz_slice_of(from->host) : text;
}

static int take_range(dz_redis_cluster *cluster, const dz_redis_endpoint *from,
                      const dz_reply *range, uint16_t *owner)
{
    const dz_reply *first = range->first, *last = first ? first->next : NULL;
    const dz_reply *master = last ? last->next : NULL;
    const dz_reply *host = master ? master->first : NULL, *port = host ? host->next : NULL;
    if (!port || first->kind != DZ_REPLY_INTEGER || last->kind != DZ_REPLY_INTEGER ||
        port->kind != DZ_REPLY_INTEGER || first->integer < 0 || last->integer < first->integer ||
        last->integer >= DZ_SLOTS || port->integer < 0 || port->integer > UINT16_MAX)
        return DZ_E_PROTOCOL;
    if (port->integer == 0)
        return 0; /* it does not speak what we speak (TLS or not) */
    int place = dz_redis_node_at(cluster, host_of(host, from), (uint16_t)port->integer);
    if (place < 0)
        return place;
    for (int64_t slot = first->integer; slot <= last->integer; slot++)
        owner[slot] = (uint16_t)place;
    return 0;
}

/* Whether a slot that had a node has another one now. */
static bool has_moved(const dz_redis_cluster *cluster, const uint16_t *owner)
{
    for (size_t i = 0; i < DZ_SLOTS; i++)
        if (cluster->owner[i] != DZ_NODE_NONE && cluster->owner[i] != owner[i])
            return true;
    return false;
}

static void take_over(dz_redis_cluster *cluster, const uint16_t *owner)
{
    if (has_moved(cluster, owner)) /* the old node's promise to tell of changes may be void */
        dz_redis_share_flush(cluster->share);
    memcpy(cluster->owner, owner, sizeof cluster->owner);
    for (size_t i = 0; i < cluster->places; i++)
        if (cluster->nodes[i])
            cluster->nodes[i]->named = false;
    for (size_t i = 0; i < DZ_SLOTS; i++)
        if (owner[i] != DZ_NODE_NONE)
            cluster->nodes[owner[i]]->named = true;
    dz_defer(cluster->share->loop, &cluster->sweep);
}

int dz_redis_slotmap_apply(dz_redis_cluster *cluster, const dz_redis_endpoint *from,
                           const dz_reply *reply)
{
    if (reply->kind != DZ_REPLY_ARRAY)
        return DZ_E_PROTOCOL;
    uint16_t *owner = malloc(sizeof cluster->owner);
    if (!owner)
        return DZ_E_NOMEM;
    memset(owner, 0xff, sizeof cluster->owner);
    int rc = reply->count > 0 ? 0 : DZ_E_UNAVAILABLE;
    for (const dz_reply *range = reply->first; range && rc == 0; range = range->next)
        rc = take_range(cluster, from, range, owner);
    if (rc == 0)
        take_over(cluster, owner);
    else
        dz_defer(cluster->share->loop, &cluster->sweep); /* nodes that were made for nothing */
    free(owner);
    return rc;
}

/* --- asking */

static void end(dz_redis_cluster *cluster, int rc)
{
    cluster->refreshing = false;
    cluster->refreshed_at = dz_now();
    dz_redis_cluster_mapped(cluster, rc);
}

static void ask_next(dz_redis_cluster *cluster)
{
    cluster->asked = NULL;
    dz_defer(cluster->share->loop, &cluster->ask);
}

static void tell_why(dz_redis_cluster *cluster, const dz_redis_conn *conn, const dz_reply *reply)
{
    char why[160];
    bool error = reply->kind == DZ_REPLY_ERROR;
    size_t len = reply->text.len < 100 ? reply->text.len : 100;
    snprintf(why, sizeof why, "no map of the cluster: %.*s", error ? (int)len : 26,
             error ? reply->text.data : "the node knows of no slots");
    dz_redis_note(cluster->share->redis, conn->endpoint, why);
}

static void on_slots(dz_redis_conn *conn, dz_redis_cmd *cmd, int rc, dz_reply *reply)
{
    dz_redis_cluster *cluster = cmd->user;
    bool wanted = cluster->asked == cmd; /* else it was too late, and another node is asked */
    free(cmd);
    if (wanted && rc == 0) {
        rc = dz_redis_slotmap_apply(cluster, conn->endpoint, reply);
        if (rc < 0)
            tell_why(cluster, conn, reply);
    }
    dz_reply_free(reply);
    if (!wanted)
        return;
    cluster->asked = NULL;
    if (rc == 0)
        end(cluster, 0);
    else
        ask_next(cluster);
}

static void on_slots_expired(dz_redis_conn *conn, dz_redis_cmd *cmd)
{
    (void)conn;
    dz_redis_cluster *cluster = cmd->user;
    if (cluster->asked == cmd)
        ask_next(cluster);
}

static int ask_node(dz_redis_cluster *cluster, dz_redis_node *node)
{
    const dz_slice args[] = {DZ_LIT("CLUSTER"), DZ_LIT("SLOTS")};
    const dz_redis_config *config = &cluster->share->redis->config;
    dz_redis_cmd *cmd = dz_redis_cmd_new(args, 2);
    if (!cmd)
        return DZ_E_NOMEM;
    cmd->done = on_slots;
    cmd->expired = on_slots_expired;
    cmd->user = cluster;
    /* A node that does not answer must not use up the time of those who wait for the map, unless
     * nobody else is left to ask. */
    bool last = cluster->tried == cluster->places;
    cmd->deadline = dz_now() + config->timeout_ns / (last ? 1 : 4);
    cluster->asked = cmd; /* before it can be done */
    int rc = dz_redis_conn_submit(&node->conns[0], cmd);
    if (rc < 0)
        free(cmd);
    return rc;
}

void dz_redis_slotmap_ask(dz_loop *loop, dz_deferred *deferred)
{
    (void)loop;
    dz_redis_cluster *cluster = DZ_CONTAINER(deferred, dz_redis_cluster, ask);
    while (cluster->tried < cluster->places) {
        dz_redis_node *node = cluster->nodes[(cluster->first + cluster->tried++) % cluster->places];
        if (node && ask_node(cluster, node) == 0)
            return;
    }
    cluster->asked = NULL;
    end(cluster, DZ_E_UNAVAILABLE);
}

void dz_redis_slotmap_refresh(dz_redis_cluster *cluster, size_t first)
{
    if (cluster->refreshing)
        return;
    cluster->refreshing = true;
    cluster->first = first;
    cluster->tried = 0;
    dz_redis_count(&cluster->share->map_refreshes, 1);
    ask_next(cluster);
}
