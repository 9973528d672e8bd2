#include "redis/cluster.h"

#include <donmaz/error.h>

#include <stdlib.h>

enum {
    REDIRECTS = 8,       /* of one command */
    REFRESH_PAUSE = 100, /* ms between two readings of the map */
    TRYAGAIN_PAUSE = 5,  /* ms, times the number of tries */
};

static void on_timer(dz_loop *loop, dz_timer *timer);

dz_redis_cluster *dz_redis_cluster_new(dz_redis_share *share)
{
    const dz_redis_url *url = &share->redis->config.url;
    dz_redis_cluster *cluster = calloc(1, sizeof *cluster);
    if (!cluster)
        return NULL;
    cluster->share = share;
    memset(cluster->owner, 0xff, sizeof cluster->owner);
    dz_list_init(&cluster->parked);
    dz_timer_init(&cluster->timer, on_timer);
    dz_deferred_init(&cluster->ask, dz_redis_slotmap_ask);
    dz_deferred_init(&cluster->sweep, dz_redis_node_sweep);
    int rc = dz_timer_reserve(share->loop);
    for (size_t i = 0; i < url->endpoint_count && rc >= 0; i++) {
        const dz_redis_endpoint *seed = &url->endpoints[i];
        rc = dz_redis_node_at(cluster, dz_slice_of(seed->host), seed->port);
        if (rc >= 0)
            cluster->nodes[rc]->seed = true;
    }
    if (rc >= 0)
        return cluster;
    dz_redis_cluster_free(cluster);
    return NULL;
}

void dz_redis_cluster_free(dz_redis_cluster *cluster)
{
    if (!cluster)
        return;
    for (dz_list *link; (link = dz_list_shift(&cluster->parked));)
        dz_redis_cmd_drop(DZ_CONTAINER(link, dz_redis_cmd, link));
    dz_redis_nodes_free(cluster);
    free(cluster);
}

/* --- parking */

static void arm(dz_redis_cluster *cluster)
{
    uint64_t due = UINT64_MAX;
    for (dz_list *link = cluster->parked.next; link != &cluster->parked; link = link->next) {
        const dz_redis_cmd *cmd = DZ_CONTAINER(link, const dz_redis_cmd, link);
        uint64_t first =
            cmd->retry_at != 0 && cmd->retry_at < cmd->deadline ? cmd->retry_at : cmd->deadline;
        if (first < due)
            due = first;
    }
    if (due == UINT64_MAX)
        dz_timer_stop(cluster->share->loop, &cluster->timer);
    else
        dz_timer_start(cluster->share->loop, &cluster->timer, due);
}

static void unpark(dz_redis_cluster *cluster, dz_redis_cmd *cmd)
{
    dz_list_remove(&cmd->link);
    cluster->parked_count--;
    dz_redis_count(&cluster->share->conn_stats.waiting, (uint64_t)-1);
}

/* Until then, or with 0 until there is a map. */
static int park(dz_redis_cluster *cluster, dz_redis_cmd *cmd, uint64_t retry_at)
{
    const dz_redis_config *config = &cluster->share->redis->config;
    if (cluster->parked_count >= config->max_waiting)
        return DZ_E_QUEUE_FULL;
    if (cmd->deadline == 0)
        cmd->deadline = dz_now() + config->timeout_ns;
    cmd->retry_at = retry_at;
    bool first = dz_list_empty(&cluster->parked);
    dz_list_push(&cluster->parked, &cmd->link);
    cluster->parked_count++;
    dz_redis_count(&cluster->share->conn_stats.waiting, 1);
    if (first || retry_at != 0)
        arm(cluster);
    return 0;
}

/* --- sending */

static int place_of(const dz_redis_cluster *cluster, const dz_redis_cmd *cmd)
{
    if (cmd->slot != DZ_SLOT_ANY) {
        uint16_t place = cluster->owner[cmd->slot];
        return place == DZ_NODE_NONE ? -1 : place;
    }
    int any = -1;
    for (size_t i = 0; i < cluster->places; i++) {
        const dz_redis_node *node = cluster->nodes[i];
        if (!node || !node->named || node->serial == cmd->failed_node)
            continue;
        if (node->conns[0].state == DZ_REDIS_READY)
            return (int)i;
        any = (int)i;
    }
    return any;
}

static int send_to(dz_redis_cluster *cluster, int place, dz_redis_cmd *cmd)
{
    dz_redis_node *node = cluster->nodes[place];
    return dz_redis_conn_submit(dz_redis_least_busy(cluster->share, node->conns, node->conn_count),
                                cmd);
}

/* Whether the map was read so lately that reading it again would tell nothing new. */
static bool is_fresh(const dz_redis_cluster *cluster)
{
    return !cluster->refreshing && cluster->refreshed_at != 0 &&
           dz_now() < cluster->refreshed_at + REFRESH_PAUSE * DZ_MS;
}

/* Waits for a map, unless it is just as old as what is to be known. */
static int wait_for_map(dz_redis_cluster *cluster, dz_redis_cmd *cmd, size_t first)
{
    if (is_fresh(cluster))
        return DZ_E_UNAVAILABLE;
    int rc = park(cluster, cmd, 0);
    if (rc == 0)
        dz_redis_slotmap_refresh(cluster, first);
    return rc;
}

static size_t any_place(const dz_redis_cluster *cluster)
{
    return (size_t)(dz_now() >> 10) % cluster->places;
}

int dz_redis_cluster_submit(dz_redis_cluster *cluster, dz_redis_cmd *cmd)
{
    int place = place_of(cluster, cmd);
    if (place < 0)
        return wait_for_map(cluster, cmd, any_place(cluster));
    uint32_t serial = cluster->nodes[place]->serial;
    int rc = send_to(cluster, place, cmd);
    if (rc != DZ_E_UNAVAILABLE)
        return rc;
    /* The node is in its back-off: another one may have its slots by now. */
    cmd->failed_node = serial;
    cmd->failed_rc = rc;
    cmd->redirects++;
    return wait_for_map(cluster, cmd, (size_t)place + 1);
}

/* A command that was taken before: errors are its end. */
static void send_on(dz_redis_cluster *cluster, int place, dz_redis_cmd *cmd)
{
    int rc = place < 0 ? DZ_E_UNAVAILABLE : send_to(cluster, place, cmd);
    if (rc < 0)
        cmd->done(NULL, cmd, rc, NULL);
}

/* --- the parked go on */

void dz_redis_cluster_mapped(dz_redis_cluster *cluster, int rc)
{
    dz_list now;
    dz_list_init(&now);
    for (dz_list *link = cluster->parked.next, *next; link != &cluster->parked; link = next) {
        next = link->next;
        dz_redis_cmd *cmd = DZ_CONTAINER(link, dz_redis_cmd, link);
        if (cmd->retry_at != 0)
            continue;
        unpark(cluster, cmd);
        dz_list_push(&now, link);
    }
    for (dz_list *link; (link = dz_list_shift(&now));) {
        dz_redis_cmd *cmd = DZ_CONTAINER(link, dz_redis_cmd, link);
        int place = rc < 0 ? -1 : place_of(cluster, cmd);
        if (place >= 0 && cluster->nodes[place]->serial == cmd->failed_node)
            cmd->done(NULL, cmd, cmd->failed_rc, NULL); /* nobody took its place */
        else
            send_on(cluster, place, cmd);
    }
    arm(cluster);
}

static void on_timer(dz_loop *loop, dz_timer *timer)
{
    (void)loop;
    dz_redis_cluster *cluster = DZ_CONTAINER(timer, dz_redis_cluster, timer);
    uint64_t now = dz_now();
    dz_list due;
    dz_list_init(&due);
    for (dz_list *link = cluster->parked.next, *next; link != &cluster->parked; link = next) {
        next = link->next;
        dz_redis_cmd *cmd = DZ_CONTAINER(link, dz_redis_cmd, link);
        if (cmd->deadline > now && (cmd->retry_at == 0 || cmd->retry_at > now))
            continue;
        unpark(cluster, cmd);
        dz_list_push(&due, link);
    }
    for (dz_list *link; (link = dz_list_shift(&due));) {
        dz_redis_cmd *cmd = DZ_CONTAINER(link, dz_redis_cmd, link);
        if (cmd->deadline > now) {
            send_on(cluster, place_of(cluster, cmd), cmd);
            continue;
        }
        dz_redis_count(&cluster->share->conn_stats.timeouts, 1);
        cmd->done(NULL, cmd, DZ_E_TIMEOUT, NULL);
    }
    arm(cluster);
}

/* --- following */

static int place_of_redirect(dz_redis_cluster *cluster, const dz_redis_conn *conn,
                             const dz_redis_redirect *to)
{
    return dz_redis_node_at(
        cluster, to->host.len > 0 ? to->host : dz_slice_of(conn->endpoint->host), to->port);
}

static void note_moved(dz_redis_cluster *cluster, const dz_redis_redirect *to, int place)
{
    cluster->nodes[place]->named = true; /* until the next map */
    if (cluster->owner[to->slot] == place)
        return;
    cluster->owner[to->slot] = (uint16_t)place;
    dz_redis_share_flush(cluster->share); /* as when a map says so */
    if (!is_fresh(cluster))
        dz_redis_slotmap_refresh(cluster, (size_t)place); /* that node has the newest view */
}

static bool follow_redirect(dz_redis_cluster *cluster, const dz_redis_conn *conn, dz_redis_cmd *cmd,
                            const dz_redis_redirect *to, dz_reply *reply)
{
    int place = place_of_redirect(cluster, conn, to);
    if (place < 0)
        return false;
    if (!to->ask)
        note_moved(cluster, to, place);
    dz_reply_free(reply); /* `to` points into it */
    dz_redis_cmd_asking(cmd, to->ask);
    send_on(cluster, place, cmd);
    return true;
}

static bool follow_failure(dz_redis_cluster *cluster, const dz_redis_conn *conn, dz_redis_cmd *cmd,
                           int rc)
{
    /* Unsent, or without harm to be sent again. */
    if (rc != DZ_E_UNAVAILABLE && !(rc == DZ_E_CLOSED && cmd->is_read))
        return false;
    const dz_redis_node *node = conn->node;
    dz_redis_cmd_asking(cmd, false);
    cmd->failed_node = node->serial;
    cmd->failed_rc = rc;
    cmd->retried = false;
    return wait_for_map(cluster, cmd, any_place(cluster)) == 0;
}

bool dz_redis_cluster_follow(dz_redis_cluster *cluster, dz_redis_conn *conn, dz_redis_cmd *cmd,
                             int rc, dz_reply *reply)
{
    if (cmd->redirects >= REDIRECTS || (rc == 0 && reply->kind != DZ_REPLY_ERROR))
        return false;
    cmd->redirects++;
    if (rc < 0)
        return follow_failure(cluster, conn, cmd, rc);
    dz_slice text = dz_buf_slice(&reply->text);
    dz_redis_redirect to;
    bool sent_on = false;
    if (dz_redis_redirect_parse(&to, text)) {
        sent_on = follow_redirect(cluster, conn, cmd, &to, reply);
    } else if (text.len >= 8 && memcmp(text.ptr, "TRYAGAIN", 8) == 0) {
        /* Keys of one slot lie on two nodes while it moves. */
        uint64_t pause = (uint64_t)cmd->redirects * TRYAGAIN_PAUSE * DZ_MS;
        dz_redis_cmd_asking(cmd, false);
        sent_on = park(cluster, cmd, dz_now() + pause) == 0;
        if (sent_on)
            dz_reply_free(reply);
    }
    if (sent_on)
        dz_redis_count(&cluster->share->redirects, 1);
    return sent_on;
}

void dz_redis_cluster_down(dz_redis_cluster *cluster, const dz_redis_conn *conn)
{
    const dz_redis_node *node = conn->node;
    if (node->named && !is_fresh(cluster))
        dz_redis_slotmap_refresh(cluster, any_place(cluster));
}

dz_redis_conn *dz_redis_cluster_conn(const dz_redis_cluster *cluster, dz_slice key)
{
    uint16_t place = cluster->owner[dz_slot_of(key)];
    return place == DZ_NODE_NONE ? NULL : &cluster->nodes[place]->conns[0];
}
