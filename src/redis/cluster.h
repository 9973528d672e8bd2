/* cluster.h: Redis Cluster: which node a command goes to, and where it goes on when that node sends
 * it elsewhere. One per loop; all on the loop.
 *
 *                     slot's node is known
 *   submit ───────────────────────────────────────────────> its connection ──> done
 *      │                                                       │      ^
 *      │ unknown    ┌──────────┐  MOVED, ASK: the node named ──┘      │
 *      └──────────> │  parked  │  TRYAGAIN: after a pause             │
 *                   │          │  node gone: when there is a new map  │
 *                   └──────────┘ ─────────────────────────────────────┘
 *
 * A command is sent on 8 times at most, within its own deadline. The map (CLUSTER SLOTS) is read by
 * one command at a time, at most every 100 ms; a MOVED corrects its slot at once.
 *
 *   cluster.c   submitting, following, parking
 *   nodes.c     the nodes and their connections
 *   slotmap.c   reading the map */
#ifndef DZ_REDIS_CLUSTER_H
#define DZ_REDIS_CLUSTER_H

#include "redis/client.h"
#include "redis/slot.h"

enum { DZ_REDIS_NODES = 1024, DZ_NODE_NONE = 0xffff };

/* A node. Made when the map, a MOVED or the URL names it; connects when first used. */
typedef struct dz_redis_node {
    dz_redis_endpoint endpoint;
    uint32_t serial; /* never used again, unlike its place */
    bool seed;       /* the URL names it: never removed */
    bool named;      /* the map names it */
    unsigned conn_count;
    dz_redis_conn conns[];
} dz_redis_node;

struct dz_redis_cluster {
    dz_redis_share *share;
    dz_redis_node *nodes[DZ_REDIS_NODES];
    size_t places; /* in use, with holes */
    uint32_t last_serial;
    uint16_t owner[DZ_SLOTS]; /* places of nodes, or DZ_NODE_NONE */

    dz_list parked;
    size_t parked_count;
    dz_timer timer; /* the first deadline or retry of the parked */

    bool refreshing;
    dz_redis_cmd *asked;   /* CLUSTER SLOTS on its way; NULL: between two nodes */
    size_t first, tried;   /* of the nodes, in this refresh */
    uint64_t refreshed_at; /* when the last one ended */
    dz_deferred ask;       /* asks the next node */
    dz_deferred sweep;     /* frees nodes that nobody names any more */
};

/* NULL: out of memory. */
dz_redis_cluster *dz_redis_cluster_new(dz_redis_share *share);
void dz_redis_cluster_free(dz_redis_cluster *cluster); /* the loop has ended; NULL is harmless */

/* Sends cmd, whose slot is set, to its node. An error: it was not taken. */
int dz_redis_cluster_submit(dz_redis_cluster *cluster, dz_redis_cmd *cmd);

/* What conn answered (or rc < 0, that it could not) may mean that cmd belongs elsewhere. True: it
 * is taken care of, and the reply is freed. */
bool dz_redis_cluster_follow(dz_redis_cluster *cluster, dz_redis_conn *conn, dz_redis_cmd *cmd,
                             int rc, dz_reply *reply);

/* A node's connection broke or could not be made. */
void dz_redis_cluster_down(dz_redis_cluster *cluster, const dz_redis_conn *conn);

/* The first connection to the node of the key's slot; NULL: unknown. */
dz_redis_conn *dz_redis_cluster_conn(const dz_redis_cluster *cluster, dz_slice key);

/* --- between the parts */

/* nodes.c: the place of the node there, made if need be. DZ_E_NOMEM, DZ_E_TOO_LARGE. */
int dz_redis_node_at(dz_redis_cluster *cluster, dz_slice host, uint16_t port);
void dz_redis_node_sweep(dz_loop *loop, dz_deferred *deferred);
void dz_redis_nodes_free(dz_redis_cluster *cluster);

/* cluster.c: the map was read, or could not be (rc < 0). */
void dz_redis_cluster_mapped(dz_redis_cluster *cluster, int rc);

/* slotmap.c: starts reading it unless that is going on; from the node at `first` on. */
void dz_redis_slotmap_refresh(dz_redis_cluster *cluster, size_t first);
void dz_redis_slotmap_ask(dz_loop *loop, dz_deferred *deferred);
/* Takes over a reply to CLUSTER SLOTS that came from `from`. DZ_E_PROTOCOL: it was nonsense, and
 * the map is what it was; DZ_E_UNAVAILABLE: it names no node; DZ_E_NOMEM, DZ_E_TOO_LARGE. */
int dz_redis_slotmap_apply(dz_redis_cluster *cluster, const dz_redis_endpoint *from,
                           const dz_reply *reply);

/* redirect.c: MOVED slot host:port or ASK slot host:port. An empty host means the one it came from
 * and is left empty. False: something else. */
typedef struct dz_redis_redirect {
    bool ask;
    uint16_t slot, port;
    dz_slice host;
} dz_redis_redirect;
bool dz_redis_redirect_parse(dz_redis_redirect *out, dz_slice text);

#endif
