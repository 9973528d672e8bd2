/* The nodes of a cluster. */
#include "redis/cluster.h"

#include <donmaz/error.h>

#include <stdlib.h>

static void free_node(dz_redis_node *node, bool loop_ended)
{
    for (unsigned i = 0; i < node->conn_count; i++)
        dz_redis_conn_close(&node->conns[i], loop_ended);
    free(node);
}

static dz_redis_node *new_node(dz_redis_cluster *cluster, dz_slice host, uint16_t port)
{
    dz_redis_share *share = cluster->share;
    unsigned connections = share->redis->connections;
    dz_redis_node *node = malloc(sizeof *node + connections * sizeof(dz_redis_conn));
    if (!node)
        return NULL;
    memset(node, 0, sizeof *node);
    memcpy(node->endpoint.host, host.ptr, host.len);
    node->endpoint.port = port;
    node->serial = ++cluster->last_serial;
    for (unsigned i = 0; i < connections; i++) {
        if (dz_redis_share_conn(share, &node->conns[i], &node->endpoint, i) < 0) {
            free_node(node, false);
            return NULL;
        }
        node->conns[i].node = node;
        node->conn_count++;
    }
    return node;
}

static bool is_there(const dz_redis_node *node, dz_slice host, uint16_t port)
{
    return node->endpoint.port == port &&
           dz_slice_equal_nocase(dz_slice_of(node->endpoint.host), host);
}

int dz_redis_node_at(dz_redis_cluster *cluster, dz_slice host, uint16_t port)
{
    size_t hole = cluster->places;
    for (size_t i = cluster->places; i-- > 0;) {
        if (!cluster->nodes[i])
            hole = i;
        else if (is_there(cluster->nodes[i], host, port))
            return (int)i;
    }
    if (hole == DZ_REDIS_NODES || host.len == 0 ||
        host.len >= sizeof cluster->nodes[0]->endpoint.host)
        return DZ_E_TOO_LARGE;
    dz_redis_node *node = new_node(cluster, host, port);
    if (!node)
        return DZ_E_NOMEM;
    cluster->nodes[hole] = node;
    if (hole == cluster->places)
        cluster->places++;
    dz_redis_count(&cluster->share->nodes, 1);
    return (int)hole;
}

static bool is_idle(const dz_redis_node *node)
{
    for (unsigned i = 0; i < node->conn_count; i++)
        if (node->conns[i].owed > 0)
            return false;
    return true;
}

/* Not while one of its connections is on the stack: at the end of a tick. */
void dz_redis_node_sweep(dz_loop *loop, dz_deferred *deferred)
{
    (void)loop;
    dz_redis_cluster *cluster = DZ_CONTAINER(deferred, dz_redis_cluster, sweep);
    for (size_t i = 0; i < cluster->places; i++) {
        dz_redis_node *node = cluster->nodes[i];
        if (!node || node->seed || node->named || !is_idle(node))
            continue;
        cluster->nodes[i] = NULL;
        free_node(node, false);
        dz_redis_count(&cluster->share->nodes, (uint64_t)-1);
    }
}

void dz_redis_nodes_free(dz_redis_cluster *cluster)
{
    for (size_t i = 0; i < cluster->places; i++)
        if (cluster->nodes[i])
            free_node(cluster->nodes[i], true);
}
