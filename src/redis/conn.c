#include "redis/conn.h"

#include <donmaz/error.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MAX_IOV = 64, BACKOFF_FIRST_MS = 25, BACKOFF_DOUBLINGS = 6 };

static void on_ready(dz_loop *loop, dz_watch *watch, uint32_t events);
static void on_timer(dz_loop *loop, dz_timer *timer);
static void on_flush(dz_loop *loop, dz_deferred *deferred);

static void count(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

dz_redis_cmd *dz_redis_cmd_new(const dz_slice *args, size_t arg_count)
{
    /* The encoder wants a buffer; a command of its own memory is one allocation and copy less. */
    size_t size = sizeof(dz_redis_cmd) + 32;
    for (size_t i = 0; i < arg_count; i++)
        if (__builtin_add_overflow(size, args[i].len, &size) ||
            __builtin_add_overflow(size, 32, &size))
            return NULL;
    dz_redis_cmd *cmd = malloc(size);
    if (!cmd)
        return NULL;
    *cmd = (dz_redis_cmd){.bytes = (char *)(cmd + 1)};
    cmd->len = dz_resp_encode(cmd->bytes, args, arg_count);
    return cmd;
}

int dz_redis_conn_init(dz_redis_conn *conn, dz_loop *loop, const dz_redis_config *config)
{
    int rc = dz_timer_reserve(loop);
    if (rc < 0)
        return rc;
    memset(conn, 0, offsetof(dz_redis_conn, resp));
    conn->loop = loop;
    conn->config = config;
    conn->fd = -1;
    conn->watch.fn = on_ready;
    dz_timer_init(&conn->timer, on_timer);
    dz_deferred_init(&conn->flush, on_flush);
    dz_list_init(&conn->greeting);
    dz_list_init(&conn->queue);
    dz_list_init(&conn->pending);
    dz_resp_init(&conn->resp, &config->limits);
    return 0;
}

static void free_all(dz_list *list)
{
    for (dz_list *link = list->next, *next; link != list; link = next) {
        next = link->next;
        free(DZ_CONTAINER(link, dz_redis_cmd, link));
    }
    dz_list_init(list);
}

void dz_redis_conn_close(dz_redis_conn *conn)
{
    free_all(&conn->greeting);
    free_all(&conn->queue);
    free_all(&conn->pending);
    dz_resp_close(&conn->resp);
    if (conn->fd >= 0)
        close(conn->fd);
    conn->fd = -1;
}

/* --- commands and their ends */

static void publish_waiting(dz_redis_conn *conn)
{
    atomic_store_explicit(&conn->stats.waiting, conn->waiting, memory_order_relaxed);
}

/* Takes the command out and tells whose it is. */
static void finish(dz_redis_conn *conn, dz_redis_cmd *cmd, int rc, dz_reply *reply)
{
    dz_list_remove(&cmd->link);
    conn->owed--;
    if (!cmd->late)
        conn->waiting--;
    publish_waiting(conn);
    cmd->done(conn, cmd, rc, reply);
}

static void finish_all(dz_redis_conn *conn, dz_list *list, int rc)
{
    while (!dz_list_empty(list))
        finish(conn, DZ_CONTAINER(list->next, dz_redis_cmd, link), rc, NULL);
}

static void arm(dz_redis_conn *conn, uint64_t due)
{
    if (conn->timer_on && conn->timer.node.key <= due)
        return;
    conn->timer_on = true;
    dz_timer_start(conn->loop, &conn->timer, due);
}

/* --- losing the connection */

static uint64_t backoff(unsigned failures)
{
    uint32_t random = 0;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0)
        random = (uint32_t)dz_now();
    unsigned doublings = failures < BACKOFF_DOUBLINGS ? failures : BACKOFF_DOUBLINGS;
    uint64_t most = (uint64_t)BACKOFF_FIRST_MS * DZ_MS << doublings;
    return most / 2 + random % (most / 2); /* so that a fleet does not come back all at once */
}

/* After a loss: what was sent and may not be sent again fails; reads go before what waits. */
static void sort_out_pending(dz_redis_conn *conn)
{
    dz_list again;
    dz_list_init(&again);
    while (!dz_list_empty(&conn->pending)) {
        dz_redis_cmd *cmd = DZ_CONTAINER(conn->pending.next, dz_redis_cmd, link);
        if (!cmd->is_read || cmd->retried || cmd->late) {
            finish(conn, cmd, DZ_E_CLOSED, NULL);
            continue;
        }
        cmd->retried = true;
        cmd->written = 0;
        count(&conn->stats.retries);
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
    for (dz_list *link = conn->queue.next, *next; link != &conn->queue; link = next) {
        next = link->next;
        dz_redis_cmd *cmd = DZ_CONTAINER(link, dz_redis_cmd, link);
        cmd->written = 0;
        if (cmd->late)
            finish(conn, cmd, DZ_E_CLOSED, NULL);
    }
}

static void start_connecting(dz_redis_conn *conn);

void dz_redis_conn_fail(dz_redis_conn *conn, int rc)
{
    bool was_ready = conn->state == DZ_REDIS_READY;
    if (conn->fd >= 0) {
        dz_watch_stop(conn->loop, &conn->watch);
        close(conn->fd);
    }
    conn->fd = -1;
    conn->state = DZ_REDIS_CLOSED;
    conn->give_up = false;
    conn->error = rc;
    atomic_store_explicit(&conn->stats.ready, false, memory_order_relaxed);
    dz_resp_close(&conn->resp);
    dz_resp_init(&conn->resp, &conn->config->limits);
    finish_all(conn, &conn->greeting, rc);
    if (was_ready) {
        count(&conn->stats.losses);
        conn->failures = 0;
        conn->retry_at = 0; /* at once: it may have been a restart */
        if (conn->on_lost)
            conn->on_lost(conn);
        sort_out_pending(conn);
        rewind_queue(conn);
        if (!dz_list_empty(&conn->queue))
            start_connecting(conn);
        return;
    }
    count(&conn->stats.connect_failures);
    conn->retry_at = dz_now() + backoff(conn->failures++);
    finish_all(conn, &conn->pending, rc); /* the handshake's */
    finish_all(conn, &conn->queue, DZ_E_UNAVAILABLE);
}

static void start_connecting(dz_redis_conn *conn)
{
    conn->state = DZ_REDIS_CONNECTING;
    conn->opened = dz_now();
    int rc = dz_redis_connect(conn);
    if (rc < 0) {
        dz_redis_conn_fail(conn, rc);
        return;
    }
    arm(conn, conn->opened + conn->config->connect_timeout_ns);
}

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
        dz_list_remove(&cmd->link);
        dz_list_push(&conn->pending, &cmd->link);
        if (list == &conn->queue)
            count(&conn->stats.commands);
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

/* Writes until all is out or the socket is full. False when that ended the connection. */
static bool write_out(dz_redis_conn *conn)
{
    dz_list *list = conn->state == DZ_REDIS_READY ? &conn->queue : &conn->greeting;
    int rc = 0;
    if (conn->state < DZ_REDIS_HANDSHAKE)
        return true;
    while (!dz_list_empty(list)) {
        struct iovec iov[MAX_IOV];
        struct msghdr message = {.msg_iov = iov};
        message.msg_iovlen = (size_t)gather(list, iov);
        ssize_t n = sendmsg(conn->fd, &message, MSG_NOSIGNAL);
        if (n >= 0) {
            note_written(conn, list, (size_t)n);
            continue;
        }
        if (errno == EAGAIN)
            break;
        if (errno != EINTR) {
            rc = -errno;
            goto fail;
        }
    }
    rc = want_output(conn, !dz_list_empty(list));
    if (rc == 0)
        return true;
fail:
    dz_redis_conn_fail(conn, rc);
    return false;
}

static void on_flush(dz_loop *loop, dz_deferred *deferred)
{
    (void)loop;
    write_out(DZ_CONTAINER(deferred, dz_redis_conn, flush));
}

int dz_redis_conn_submit(dz_redis_conn *conn, dz_redis_cmd *cmd)
{
    if (conn->owed >= conn->config->max_waiting)
        return DZ_E_QUEUE_FULL;
    if (conn->state == DZ_REDIS_CLOSED) {
        if (conn->retry_at != 0 && dz_now() < conn->retry_at)
            return DZ_E_UNAVAILABLE;
    }
    uint64_t deadline = dz_now() + conn->config->timeout_ns;
    cmd->deadline = deadline;
    dz_list_push(&conn->queue, &cmd->link);
    conn->owed++;
    conn->waiting++;
    publish_waiting(conn);
    if (conn->state == DZ_REDIS_CLOSED)
        start_connecting(conn); /* may fail and finish the command */
    else if (conn->state == DZ_REDIS_READY)
        dz_defer(conn->loop, &conn->flush);
    if (conn->owed > 0)
        arm(conn, deadline);
    return 0;
}

/* --- reading */

static bool become_ready(dz_redis_conn *conn)
{
    conn->state = DZ_REDIS_READY;
    conn->failures = 0;
    conn->retry_at = 0;
    conn->error_text[0] = '\0';
    count(&conn->stats.connects);
    atomic_store_explicit(&conn->stats.ready, true, memory_order_relaxed);
    return write_out(conn);
}

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
    finish(conn, DZ_CONTAINER(conn->pending.next, dz_redis_cmd, link), 0, reply);
    if (conn->state != DZ_REDIS_HANDSHAKE)
        return true;
    if (conn->error < 0) {
        dz_redis_conn_fail(conn, conn->error);
        return false;
    }
    if (!dz_list_empty(&conn->greeting))
        return write_out(conn);
    return dz_list_empty(&conn->pending) ? become_ready(conn) : true;
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

static void read_in(dz_redis_conn *conn, bool to_the_end)
{
    for (;;) {
        struct iovec iov[2];
        int pieces = dz_resp_room(&conn->resp, iov);
        size_t room = iov[0].iov_len + (pieces == 2 ? iov[1].iov_len : 0);
        ssize_t n = readv(conn->fd, iov, pieces);
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

static void on_ready(dz_loop *loop, dz_watch *watch, uint32_t events)
{
    (void)loop;
    dz_redis_conn *conn = DZ_CONTAINER(watch, dz_redis_conn, watch);
    if (conn->state == DZ_REDIS_CONNECTING) {
        int rc = dz_redis_connected(conn);
        if (rc == 0 && !(events & (EPOLLOUT | EPOLLIN)))
            return;
        if (rc == 0) {
            conn->state = DZ_REDIS_HANDSHAKE;
            conn->wants_output = true; /* as registered for connecting */
            rc = dz_redis_greet(conn);
        }
        if (rc < 0) {
            dz_redis_conn_fail(conn, rc);
            return;
        }
    }
    if ((events & EPOLLOUT) && !write_out(conn))
        return;
    if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
        read_in(conn, (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
}

/* --- time */

/* Gives up what is due in the list. Unsent commands end; for sent ones the answer may still come.
 */
static void expire(dz_redis_conn *conn, dz_list *list, bool sent, uint64_t now)
{
    for (dz_list *link = list->next, *next; link != list; link = next) {
        next = link->next;
        dz_redis_cmd *cmd = DZ_CONTAINER(link, dz_redis_cmd, link);
        if (cmd->late)
            continue;
        if (cmd->deadline > now)
            return; /* they are in the order of their deadlines */
        count(&conn->stats.timeouts);
        if (!sent && cmd->written == 0) {
            finish(conn, cmd, DZ_E_TIMEOUT, NULL);
            continue;
        }
        cmd->late = true;
        conn->waiting--;
        publish_waiting(conn);
        cmd->expired(conn, cmd);
    }
}

/* The first deadline in the list; UINT64_MAX without one. */
static uint64_t first_deadline(dz_list *list)
{
    for (dz_list *link = list->next; link != list; link = link->next) {
        const dz_redis_cmd *cmd = DZ_CONTAINER(link, dz_redis_cmd, link);
        if (!cmd->late)
            return cmd->deadline;
    }
    return UINT64_MAX;
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
    const uint64_t all[] = {first_deadline(&conn->queue), first_deadline(&conn->pending),
                            silence_limit(conn),
                            conn->state == DZ_REDIS_CONNECTING || conn->state == DZ_REDIS_HANDSHAKE
                                ? conn->opened + conn->config->connect_timeout_ns
                                : UINT64_MAX};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] < due)
            due = all[i];
    return due;
}

static void on_timer(dz_loop *loop, dz_timer *timer)
{
    (void)loop;
    dz_redis_conn *conn = DZ_CONTAINER(timer, dz_redis_conn, timer);
    uint64_t now = dz_now();
    conn->timer_on = false;
    if ((conn->state == DZ_REDIS_CONNECTING || conn->state == DZ_REDIS_HANDSHAKE) &&
        now >= conn->opened + conn->config->connect_timeout_ns)
        dz_redis_conn_fail(conn, DZ_E_TIMEOUT);
    expire(conn, &conn->pending, true, now);
    expire(conn, &conn->queue, false, now);
    if (conn->give_up || now >= silence_limit(conn))
        dz_redis_conn_fail(conn, DZ_E_TIMEOUT);
    uint64_t due = next_due(conn);
    if (due != UINT64_MAX)
        arm(conn, due);
}
