/* Time: commands that are overdue, servers that are silent, connections that do not come about. */
#include "redis/conn.h"

#include <donmaz/error.h>

void dz_redis_deadline_arm(dz_redis_conn *conn, uint64_t due)
{
    if (conn->timer_on && conn->timer.node.key <= due)
        return;
    conn->timer_on = true;
    dz_timer_start(conn->loop, &conn->timer, due);
}

/* Gives up what is due in the list. Unsent commands end; for sent ones the answer may still come.
 * The lists are nearly, but not quite, in the order of deadlines: a command that was redirected or
 * is sent again keeps the one it had. */
static void expire(dz_redis_conn *conn, dz_list *list, bool sent, uint64_t now)
{
    dz_list over;
    dz_list_init(&over);
    for (dz_list *link = list->next, *next; link != list; link = next) {
        next = link->next;
        dz_redis_cmd *cmd = DZ_CONTAINER(link, dz_redis_cmd, link);
        if (cmd->late || cmd->deadline > now)
            continue;
        dz_redis_count(&conn->stats->timeouts, 1);
        if (!sent && cmd->written == 0) {
            dz_list_remove(link);
            dz_list_push(&over, link);
            continue;
        }
        dz_redis_conn_given_up(conn, cmd);
        cmd->expired(conn, cmd);
    }
    while (!dz_list_empty(&over)) /* last: `done` may submit */
        dz_redis_conn_finish(conn, DZ_CONTAINER(over.next, dz_redis_cmd, link), DZ_E_TIMEOUT, NULL);
}

/* The first deadline in the list; UINT64_MAX without one. */
static uint64_t first_deadline(dz_list *list)
{
    uint64_t first = UINT64_MAX;
    for (dz_list *link = list->next; link != list; link = link->next) {
        const dz_redis_cmd *cmd = DZ_CONTAINER(link, dz_redis_cmd, link);
        if (!cmd->late && cmd->deadline < first)
            first = cmd->deadline;
    }
    return first;
}

static bool is_opening(const dz_redis_conn *conn)
{
    return conn->state != DZ_REDIS_CLOSED && conn->state != DZ_REDIS_READY;
}

/* A server that owes answers and has been silent for twice the timeout is given up. */
static uint64_t silence_limit(const dz_redis_conn *conn)
{
    if (conn->state != DZ_REDIS_READY || dz_list_empty(&conn->pending))
        return UINT64_MAX;
    const dz_redis_cmd *first = DZ_CONTAINER(conn->pending.next, dz_redis_cmd, link);
    uint64_t since = first->deadline - conn->config->timeout_ns;
    return (conn->heard > since ? conn->heard : since) + 2 * conn->config->timeout_ns;
}

static uint64_t next_due(dz_redis_conn *conn)
{
    uint64_t due = UINT64_MAX;
    const uint64_t all[] = {
        first_deadline(&conn->queue), first_deadline(&conn->pending), silence_limit(conn),
        is_opening(conn) ? conn->opened + conn->config->connect_timeout_ns : UINT64_MAX};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] < due)
            due = all[i];
    return due;
}

void dz_redis_deadline_passed(dz_loop *loop, dz_timer *timer)
{
    (void)loop;
    dz_redis_conn *conn = DZ_CONTAINER(timer, dz_redis_conn, timer);
    uint64_t now = dz_now();
    conn->timer_on = false;
    if (is_opening(conn) && now >= conn->opened + conn->config->connect_timeout_ns)
        dz_redis_conn_fail(conn, DZ_E_TIMEOUT);
    expire(conn, &conn->pending, true, now);
    expire(conn, &conn->queue, false, now);
    if (conn->give_up || now >= silence_limit(conn))
        dz_redis_conn_fail(conn, DZ_E_TIMEOUT);
    uint64_t due = next_due(conn);
    if (due == UINT64_MAX)
        return;
    /* Not for each of many commands in turn: that would look at all of them each time. */
    dz_redis_deadline_arm(conn, due > now + DZ_MS ? due : now + DZ_MS);
}
