/* Writing commands and reading replies. */
#include "redis/conn.h"
#include "redis/tls.h"

#include <donmaz/error.h>

#include <errno.h>
#include <sys/uio.h>

enum { MAX_IOV = 64 };

/* --- writing */

/* What of the list is not written yet, at most MAX_IOV pieces. */
static int gather(dz_list *list, struct iovec *iov)
{
    int pieces = 0;
    for (dz_list *link = list->next; link != list && pieces < MAX_IOV; link = link->next) {
        dz_redis_cmd *cmd = DZ_CONTAINER(link, dz_redis_cmd, link);
        cmd->sealed = true;
        iov[pieces++] = (struct iovec){cmd->bytes + cmd->written, cmd->len - cmd->written};
    }
    return pieces;
}

static void note_written(dz_redis_conn *conn, dz_list *list, size_t written)
{
    while (written > 0) {
        dz_redis_cmd *cmd = DZ_CONTAINER(list->next, dz_redis_cmd, link);
        size_t left = cmd->len - cmd->written;
        if (written < left) {
            cmd->written += written;
            return;
        }
        written -= left;
        cmd->written = cmd->len;
        cmd->led = cmd->asking;
        dz_list_remove(&cmd->link);
        dz_list_push(&conn->pending, &cmd->link);
        if (list == &conn->queue)
            dz_redis_count(&conn->stats->commands, 1);
    }
}

/* EPOLLOUT only while it is needed: a unix socket reports it each time the server reads. */
static int want_output(dz_redis_conn *conn, bool wanted)
{
    if (conn->wants_output == wanted)
        return 0;
    conn->wants_output = wanted;
    return dz_watch_change(conn->loop, &conn->watch,
                           EPOLLIN | EPOLLRDHUP | EPOLLET | (wanted ? EPOLLOUT : 0));
}

static ssize_t send_pieces(dz_redis_conn *conn, struct iovec *iov, int pieces)
{
    if (conn->tls)
        return dz_redis_tls_send(conn, iov, pieces);
    const struct msghdr message = {.msg_iov = iov, .msg_iovlen = (size_t)pieces};
    return sendmsg(conn->fd, &message, MSG_NOSIGNAL);
}

/* Hands over all that the socket takes. 1: some is left; 0; -errno. */
static int send_list(dz_redis_conn *conn, dz_list *list)
{
    while (!dz_list_empty(list)) {
        struct iovec iov[MAX_IOV];
        ssize_t n = send_pieces(conn, iov, gather(list, iov));
        if (n >= 0)
            note_written(conn, list, (size_t)n);
        else if (errno == EAGAIN)
            return 1;
        else if (errno != EINTR)
            return -errno;
    }
    return conn->tls ? dz_redis_tls_flush(conn) : 0;
}

bool dz_redis_write(dz_redis_conn *conn)
{
    if (conn->state < DZ_REDIS_HANDSHAKE)
        return true;
    int rc = send_list(conn, conn->state == DZ_REDIS_READY ? &conn->queue : &conn->greeting);
    if (rc >= 0)
        rc = want_output(conn, rc == 1);
    if (rc == 0)
        return true;
    if (conn->tls && conn->state == DZ_REDIS_HANDSHAKE)
        dz_redis_tls_last_words(conn);
    dz_redis_conn_fail(conn, rc);
    return false;
}

/* --- reading */

/* One reply. False when that ended the connection. */
static bool on_reply(dz_redis_conn *conn, dz_reply *reply)
{
    if (reply->kind == DZ_REPLY_PUSH) {
        if (conn->on_push)
            conn->on_push(conn, reply);
        dz_reply_free(reply);
        return true;
    }
    if (dz_list_empty(&conn->pending)) { /* an answer to nothing */
        dz_reply_free(reply);
        dz_redis_conn_fail(conn, DZ_E_PROTOCOL);
        return false;
    }
    dz_redis_cmd *cmd = DZ_CONTAINER(conn->pending.next, dz_redis_cmd, link);
    if (cmd->led) { /* the answer to ASKING */
        cmd->led = false;
        dz_reply_free(reply);
        return true;
    }
    dz_redis_conn_finish(conn, cmd, 0, reply);
    if (conn->state != DZ_REDIS_HANDSHAKE)
        return conn->state == DZ_REDIS_READY;
    if (conn->error < 0) {
        dz_redis_conn_fail(conn, conn->error);
        return false;
    }
    if (!dz_list_empty(&conn->greeting))
        return dz_redis_write(conn);
    return dz_list_empty(&conn->pending) ? dz_redis_conn_ready(conn) : true;
}

/* All replies that are there. False when the connection ended. */
static bool take_replies(dz_redis_conn *conn)
{
    dz_reply *reply;
    int rc;
    while ((rc = dz_resp_next(&conn->resp, &reply)) == 1)
        if (!on_reply(conn, reply))
            return false;
    if (rc < 0)
        dz_redis_conn_fail(conn, rc);
    return rc == 0;
}

static ssize_t receive(dz_redis_conn *conn, struct iovec *iov, int pieces)
{
    return conn->tls ? dz_redis_tls_receive(conn, iov, pieces) : readv(conn->fd, iov, pieces);
}

void dz_redis_read(dz_redis_conn *conn, bool to_the_end)
{
    for (;;) {
        struct iovec iov[2];
        int pieces = dz_resp_room(&conn->resp, iov);
        size_t room = iov[0].iov_len + (pieces == 2 ? iov[1].iov_len : 0);
        ssize_t n = receive(conn, iov, pieces);
        if (n > 0) {
            conn->heard = conn->loop->now;
            dz_resp_filled(&conn->resp, (size_t)n);
            if (!take_replies(conn))
                return;
            if ((size_t)n < room && !to_the_end)
                return; /* epoll tells when more comes; only the end needs a read to be seen */
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        dz_redis_conn_fail(conn, n == 0 ? DZ_E_CLOSED : -errno);
        return;
    }
}
