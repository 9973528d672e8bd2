#include "redis/conn.h"

#include "redis/tls.h"

#include <donmaz/error.h>

#include <stdlib.h>
#include <unistd.h>

static const char asking[] = "*1\r\n$6\r\nASKING\r\n";
enum { ASKING_LEN = sizeof asking - 1 };

/* --- commands */

dz_redis_cmd *dz_redis_cmd_new(const dz_slice *args, size_t arg_count)
{
    /* The encoder wants a buffer; a command of its own memory is one allocation and copy less. */
    size_t size = sizeof(dz_redis_cmd) + ASKING_LEN + 32;
    for (size_t i = 0; i < arg_count; i++)
        if (__builtin_add_overflow(size, args[i].len, &size) ||
            __builtin_add_overflow(size, 32, &size))
            return NULL;
    dz_redis_cmd *cmd = malloc(size);
    if (!cmd)
        return NULL;
    *cmd = (dz_redis_cmd){.bytes = (char *)(cmd + 1) + ASKING_LEN};
    cmd->len = dz_resp_encode(cmd->bytes, args, arg_count);
    return cmd;
}

void dz_redis_cmd_asking(dz_redis_cmd *cmd, bool wanted)
{
    if (cmd->asking == wanted)
        return;
    cmd->asking = wanted;
    if (!wanted) {
        cmd->bytes += ASKING_LEN;
        cmd->len -= ASKING_LEN;
        return;
    }
    cmd->bytes -= ASKING_LEN; /* room that each command has */
    cmd->len += ASKING_LEN;
    memcpy(cmd->bytes, asking, ASKING_LEN);
}

void dz_redis_cmd_drop(dz_redis_cmd *cmd)
{
    if (cmd->drop)
        cmd->drop(cmd);
    else
        free(cmd);
}

static void on_flush(dz_loop *loop, dz_deferred *deferred)
{
    (void)loop;
    dz_redis_write(DZ_CONTAINER(deferred, dz_redis_conn, flush));
}

int dz_redis_conn_init(dz_redis_conn *conn, dz_loop *loop, const dz_redis_config *config,
                       const dz_redis_endpoint *endpoint, dz_redis_conn_stats *stats)
{
    int rc = dz_timer_reserve(loop);
    if (rc < 0)
        return rc;
    memset(conn, 0, offsetof(dz_redis_conn, resp));
    conn->loop = loop;
    conn->config = config;
    conn->endpoint = endpoint;
    conn->stats = stats;
    conn->fd = -1;
    conn->watch.fn = dz_redis_watch;
    dz_timer_init(&conn->timer, dz_redis_deadline_passed);
    dz_deferred_init(&conn->flush, on_flush);
    dz_list_init(&conn->greeting);
    dz_list_init(&conn->queue);
    dz_list_init(&conn->pending);
    dz_resp_init(&conn->resp, &config->limits);
    return 0;
}

static void free_all(dz_list *list)
{
    for (dz_list *link; (link = dz_list_shift(list));)
        dz_redis_cmd_drop(DZ_CONTAINER(link, dz_redis_cmd, link));
}

void dz_redis_hang_up(dz_redis_conn *conn, bool loop_ended)
{
    dz_redis_tls_end(conn);
    if (conn->fd < 0)
        return;
    if (!loop_ended)
        dz_watch_stop(conn->loop, &conn->watch);
    close(conn->fd);
    conn->fd = -1;
}

void dz_redis_conn_close(dz_redis_conn *conn, bool loop_ended)
{
    dz_redis_lookup_cancel(conn->lookup, loop_ended);
    conn->lookup = NULL;
    if (!loop_ended) {
        dz_timer_stop(conn->loop, &conn->timer);
        dz_timer_unreserve(conn->loop);
        dz_defer_cancel(conn->loop, &conn->flush);
        if (conn->state == DZ_REDIS_READY)
            dz_redis_count(&conn->stats->ready, (uint64_t)-1);
    }
    dz_redis_hang_up(conn, loop_ended);
    conn->state = DZ_REDIS_CLOSED;
    free_all(&conn->greeting);
    free_all(&conn->queue);
    free_all(&conn->pending);
    dz_resp_close(&conn->resp);
}

void dz_redis_conn_given_up(dz_redis_conn *conn, dz_redis_cmd *cmd)
{
    cmd->late = true;
    conn->waiting--;
    dz_redis_count(&conn->stats->waiting, (uint64_t)-1);
}

/* Takes the command out and tells whose it is. */
void dz_redis_conn_finish(dz_redis_conn *conn, dz_redis_cmd *cmd, int rc, dz_reply *reply)
{
    dz_list_remove(&cmd->link);
    conn->owed--;
    conn->owed_bytes -= cmd->len;
    dz_redis_count(&conn->stats->waiting_bytes, -(uint64_t)cmd->len);
    if (!cmd->late) {
        conn->waiting--;
        dz_redis_count(&conn->stats->waiting, (uint64_t)-1);
    }
    cmd->done(conn, cmd, rc, reply);
}

bool dz_redis_conn_opened(dz_redis_conn *conn)
{
    conn->state = DZ_REDIS_HANDSHAKE;
    int rc = dz_redis_greet(conn);
    if (rc == 0)
        return true;
    dz_redis_conn_fail(conn, rc);
    return false;
}

bool dz_redis_conn_ready(dz_redis_conn *conn)
{
    conn->state = DZ_REDIS_READY;
    conn->failures = 0;
    conn->retry_at = 0;
    conn->why[0] = '\0';
    dz_redis_count(&conn->stats->connects, 1);
    dz_redis_count(&conn->stats->ready, 1);
    if (conn->on_up)
        conn->on_up(conn);
    return dz_redis_write(conn);
}

/* --- submitting */

/* Whether the bytes of commands and of the reply that is coming in allow one more. A command that
 * is larger than the limit can go when nothing else waits. */
static bool has_room(const dz_redis_conn *conn, const dz_redis_cmd *cmd)
{
    size_t used = conn->owed_bytes + conn->resp.bytes, limit = conn->config->max_waiting_bytes;
    return conn->owed < conn->config->max_waiting &&
           (conn->owed == 0 || (used <= limit && cmd->len <= limit - used));
}

int dz_redis_conn_submit(dz_redis_conn *conn, dz_redis_cmd *cmd)
{
    if (!has_room(conn, cmd))
        return DZ_E_QUEUE_FULL;
    if (conn->state == DZ_REDIS_CLOSED && conn->retry_at != 0 && dz_now() < conn->retry_at)
        return DZ_E_UNAVAILABLE;
    if (cmd->deadline == 0)
        cmd->deadline = dz_now() + conn->config->timeout_ns;
    uint64_t deadline = cmd->deadline;
    cmd->written = 0;
    cmd->led = false;
    dz_list_push(&conn->queue, &cmd->link);
    conn->owed++;
    conn->owed_bytes += cmd->len;
    conn->waiting++;
    dz_redis_count(&conn->stats->waiting, 1);
    dz_redis_count(&conn->stats->waiting_bytes, cmd->len);
    if (conn->state == DZ_REDIS_CLOSED)
        dz_redis_conn_start(conn); /* may fail and finish the command */
    else if (conn->state == DZ_REDIS_READY)
        dz_defer(conn->loop, &conn->flush);
    if (conn->owed > 0)
        dz_redis_deadline_arm(conn, deadline);
    return 0;
}
