/* Losing the connection, or not getting one: who fails, who waits, and when to try again. */
#include "redis/conn.h"

#include <donmaz/error.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/random.h>

enum { BACKOFF_FIRST_MS = 25, BACKOFF_DOUBLINGS = 6 };

/* Only those that are there now: `done` may submit others. */
static void finish_all(dz_redis_conn *conn, dz_list *list, int rc)
{
    dz_list now;
    dz_list_init(&now);
    for (dz_list *link; (link = dz_list_shift(list));)
        dz_list_push(&now, link);
    while (!dz_list_empty(&now))
        dz_redis_conn_finish(conn, DZ_CONTAINER(now.next, dz_redis_cmd, link), rc, NULL);
}

uint64_t dz_redis_backoff(unsigned failures, uint32_t random)
{
    unsigned doublings = failures < BACKOFF_DOUBLINGS ? failures : BACKOFF_DOUBLINGS;
    uint64_t most = (uint64_t)BACKOFF_FIRST_MS * DZ_MS << doublings;
    return most / 2 + random % (most / 2); /* so that a fleet does not come back all at once */
}

static uint32_t draw(void)
{
    uint32_t random = 0;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0)
        random = (uint32_t)dz_now();
    return random;
}

static void rewind_cmd(dz_redis_cmd *cmd)
{
    cmd->written = 0;
    cmd->led = false;
}

/* After a loss: what was sent and may not be sent again fails; reads go before what waits. */
static void sort_out_pending(dz_redis_conn *conn)
{
    dz_list all, again;
    dz_list_init(&all);
    dz_list_init(&again);
    for (dz_list *link; (link = dz_list_shift(&conn->pending));)
        dz_list_push(&all, link);
    while (!dz_list_empty(&all)) {
        dz_redis_cmd *cmd = DZ_CONTAINER(all.next, dz_redis_cmd, link);
        if (!cmd->is_read || cmd->retried || cmd->late) {
            dz_redis_conn_finish(conn, cmd, DZ_E_CLOSED, NULL);
            continue;
        }
        cmd->retried = true;
        rewind_cmd(cmd);
        dz_redis_count(&conn->stats->retries, 1);
        dz_list_remove(&cmd->link);
        dz_list_push(&again, &cmd->link);
    }
    while (!dz_list_empty(&again)) { /* to the front, keeping their order */
        dz_list *last = again.prev;
        dz_list_remove(last);
        dz_list_push(conn->queue.next, last);
    }
}

/* What is written in part was not executed: it may go out again, unless nobody waits for it. */
static void rewind_queue(dz_redis_conn *conn)
{
    dz_list late;
    dz_list_init(&late);
    for (dz_list *link = conn->queue.next, *next; link != &conn->queue; link = next) {
        next = link->next;
        dz_redis_cmd *cmd = DZ_CONTAINER(link, dz_redis_cmd, link);
        rewind_cmd(cmd);
        if (!cmd->late)
            continue;
        dz_list_remove(link);
        dz_list_push(&late, link);
    }
    finish_all(conn, &late, DZ_E_CLOSED);
}

void dz_redis_conn_why(dz_redis_conn *conn, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(conn->why, sizeof conn->why, format, args);
    va_end(args);
}

static void explain(dz_redis_conn *conn, int rc)
{
    static const char *const stages[] = {
        [DZ_REDIS_RESOLVING] = "looking up the name",
        [DZ_REDIS_CONNECTING] = "connecting",
        [DZ_REDIS_SECURING] = "TLS handshake",
        [DZ_REDIS_HANDSHAKE] = "greeting",
        [DZ_REDIS_READY] = "lost",
    };
    static const char *const hints[] = {
        [DZ_REDIS_SECURING] = " (is this a TLS port?)",
        [DZ_REDIS_HANDSHAKE] = " (a TLS port is spoken to with rediss://)",
    };
    if (conn->why[0] || conn->state == DZ_REDIS_CLOSED)
        return;
    bool silent = rc == DZ_E_TIMEOUT || rc == DZ_E_CLOSED || rc == -ECONNRESET;
    bool hint = silent && (conn->state == DZ_REDIS_SECURING ||
                           (conn->state == DZ_REDIS_HANDSHAKE && !conn->tls));
    dz_redis_conn_why(conn, "%s: %s%s", stages[conn->state], dz_strerror(rc),
                      hint ? hints[conn->state] : "");
}

/* Whether another address of the same name may be tried at once. */
static bool try_next_address(dz_redis_conn *conn, int rc)
{
    return (conn->state == DZ_REDIS_CONNECTING && rc != DZ_E_TIMEOUT &&
            conn->next_address < conn->addresses.count) &&
           dz_redis_connect_next(conn) == 0;
}

static void reset(dz_redis_conn *conn, int rc)
{
    dz_redis_hang_up(conn, false);
    conn->state = DZ_REDIS_CLOSED;
    conn->give_up = false;
    conn->error = rc;
    dz_resp_close(&conn->resp);
    dz_resp_init(&conn->resp, &conn->config->limits);
}

void dz_redis_conn_fail(dz_redis_conn *conn, int rc)
{
    bool was_ready = conn->state == DZ_REDIS_READY;
    explain(conn, rc);
    if (conn->fd >= 0 && conn->state == DZ_REDIS_CONNECTING)
        dz_redis_hang_up(conn, false);
    if (try_next_address(conn, rc)) {
        conn->why[0] = '\0';
        return;
    }
    if (conn->state == DZ_REDIS_CONNECTING && rc == DZ_E_TIMEOUT)
        conn->turn += conn->next_address;
    reset(conn, rc);
    if (was_ready) {
        dz_redis_count(&conn->stats->losses, 1);
        dz_redis_count(&conn->stats->ready, (uint64_t)-1);
        conn->failures = 0;
        conn->retry_at = 0; /* at once: it may have been a restart */
    } else {
        dz_redis_count(&conn->stats->connect_failures, 1);
        conn->retry_at = dz_now() + dz_redis_backoff(conn->failures++, draw());
    }
    if (conn->on_down)
        conn->on_down(conn, was_ready);
    conn->why[0] = '\0';
    finish_all(conn, &conn->greeting, rc);
    if (!was_ready) {
        finish_all(conn, &conn->pending, rc); /* the handshake's */
        finish_all(conn, &conn->queue, DZ_E_UNAVAILABLE);
        return;
    }
    sort_out_pending(conn);
    rewind_queue(conn);
    if (!dz_list_empty(&conn->queue) && conn->state == DZ_REDIS_CLOSED)
        dz_redis_conn_start(conn);
}

void dz_redis_conn_start(dz_redis_conn *conn)
{
    conn->opened = dz_now();
    conn->why[0] = '\0';
    conn->resp2 = false; /* it may be a newer server now */
    int rc = dz_redis_connect(conn);
    if (rc < 0) {
        dz_redis_conn_fail(conn, rc);
        return;
    }
    dz_redis_deadline_arm(conn, conn->opened + conn->config->connect_timeout_ns);
}
