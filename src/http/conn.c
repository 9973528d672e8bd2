#include "http/conn.h"

#include <donmaz/error.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint64_t DRAIN_FRESH_NS = DZ_SEC; /* for a request on its way when we drain */

int dz_conn_fd(const dz_conn *conn)
{
    return conn->state == DZ_CONN_CLOSED ? -1 : conn->watch.fd;
}

/* --- opening and closing --- */

static void on_event(dz_loop *loop, dz_watch *watch, uint32_t events);
static void on_flush(dz_loop *loop, dz_deferred *deferred);
static void on_again(dz_loop *loop, dz_msg *msg);

void dz_conn_open(dz_server_loop *home, int fd)
{
    dz_conn *conn = malloc(sizeof *conn);
    if (!conn || dz_timer_reserve(home->loop) < 0) {
        free(conn);
        dz_server_connection_gone(home);
        close(fd);
        return;
    }
    *conn = (dz_conn){.home = home,
                      .state = DZ_CONN_IDLE,
                      .readable = true,
                      .writable = true,
                      .fresh = true,
                      .deadline = UINT64_MAX,
                      .write_deadline = UINT64_MAX,
                      .retry_at = UINT64_MAX,
                      .again.fn = on_again};
    dz_list_init(&conn->out);
    dz_list_init(&conn->line);
    dz_deferred_init(&conn->flush, on_flush);
    dz_conn_init_timer(conn);
    int one = 1; /* fails on unix sockets, which have no delay to switch off */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (dz_watch_start(home->loop, &conn->watch, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                       on_event) < 0) {
        dz_timer_unreserve(home->loop);
        free(conn);
        dz_server_connection_gone(home);
        close(fd);
        return;
    }
    dz_list_push(&home->conns, &conn->link);
    home->conn_count++;
    dz_conn_set_deadline(conn, home->loop->now + dz_conn_options(conn)->header_timeout_ns);
}

void dz_conn_free_if_unused(dz_conn *conn)
{
    dz_server_loop *home = conn->home;
    if (conn->req || conn->again_posted)
        return;
    dz_list_remove(&conn->link);
    home->conn_count--;
    free(conn);
    dz_server_connection_gone(home);
}

void dz_conn_close(dz_conn *conn)
{
    if (conn->state == DZ_CONN_CLOSED)
        return;
    dz_loop *loop = conn->home->loop;
    conn->state = DZ_CONN_CLOSED;
    dz_watch_stop(loop, &conn->watch);
    close(conn->watch.fd);
    dz_timer_stop(loop, &conn->timer);
    dz_timer_unreserve(loop);
    dz_defer_cancel(loop, &conn->flush);
    dz_list_remove(&conn->line);
    if (conn->req) {
        dz_request_note_gone(conn->req);
        if (!conn->req->head_bytes && conn->in) {
            /* Its handler may still read the head. */
            conn->req->head_bytes = conn->in;
            conn->in = NULL;
        }
    }
    dz_conn_drop_output(conn);
    dz_conn_drop_input(conn);
    if (conn->body_read)
        dz_conn_fail_body(conn, DZ_E_CLOSED, 0);
    if (conn->body_write) {
        dz_body_write *writer = conn->body_write;
        conn->body_write = NULL;
        writer->req->cut = true;
        writer->result = DZ_E_CLOSED;
        dz_fiber_ready(writer->req->fiber);
    }
    dz_conn_later(conn); /* freed then: callers up the stack still look at it */
}

void dz_conn_later(dz_conn *conn)
{
    if (conn->again_posted)
        return;
    conn->again_posted = true;
    dz_loop_post(conn->home->loop, &conn->again);
}

static void on_again(dz_loop *loop, dz_msg *msg)
{
    (void)loop;
    dz_conn *conn = DZ_CONTAINER(msg, dz_conn, again);
    conn->again_posted = false;
    if (conn->state == DZ_CONN_CLOSED) {
        dz_conn_free_if_unused(conn);
        return;
    }
    if (conn->writable && !dz_list_empty(&conn->out) && !dz_conn_flush(conn))
        return;
    dz_conn_advance(conn);
}

/* --- going on --- */

void dz_conn_advance(dz_conn *conn)
{
    bool again = true;
    while (again) {
        switch (conn->state) {
        case DZ_CONN_IDLE:
        case DZ_CONN_HEAD:
            again = dz_conn_step(conn);
            break;
        case DZ_CONN_HELD:
            if (conn->body_read)
                dz_conn_read_body(conn);
            again = false;
            break;
        case DZ_CONN_LINGER:
            dz_conn_linger(conn);
            again = false;
            break;
        case DZ_CONN_CLOSED:
            again = false;
            break;
        }
    }
}

void dz_conn_flush_and_advance(dz_conn *conn)
{
    bool was_full = conn->out_bytes > DZ_CONN_PIPELINE_OUT;
    if (!dz_conn_flush(conn))
        return;
    bool drained = dz_list_empty(&conn->out);
    if ((conn->close_after && drained) || (was_full && conn->out_bytes <= DZ_CONN_PIPELINE_OUT))
        dz_conn_advance(conn);
}

void dz_conn_go_on_writing(dz_conn *conn)
{
    conn->fetching = false;
    dz_conn_flush_and_advance(conn);
}

static void on_flush(dz_loop *loop, dz_deferred *deferred)
{
    (void)loop;
    dz_conn_flush_and_advance(DZ_CONTAINER(deferred, dz_conn, flush));
}

void dz_conn_drain(dz_conn *conn)
{
    /* Busy ones end by themselves: each reply from now on has Connection: close (see persistence()
     * in reply.c), and one that comes to rest is closed. Closing them with the reply under way,
     * which may not have said so, would lose the requests that the client sent behind it. */
    if (conn->state != DZ_CONN_IDLE)
        return;
    if (conn->fresh) {
        dz_conn_set_deadline(conn, conn->home->loop->now + DRAIN_FRESH_NS);
        return;
    }
    conn->readable = true; /* a request that has arrived since the last look is answered */
    dz_conn_advance(conn);
}

static void on_event(dz_loop *loop, dz_watch *watch, uint32_t events)
{
    (void)loop;
    dz_conn *conn = DZ_CONTAINER(watch, dz_conn, watch);
    if (events & EPOLLRDHUP) {
        /* The client closed, or will send no more. Most that do so in mid-request are gone. */
        conn->peer_ended = true;
        if (conn->req)
            dz_request_note_gone(conn->req);
    }
    if (events & (EPOLLHUP | EPOLLERR)) {
        dz_conn_close(conn);
        return;
    }
    if (events & (EPOLLIN | EPOLLRDHUP))
        conn->readable = true;
    if ((events & EPOLLOUT) && !conn->writable) {
        conn->writable = true;
        if (!dz_list_empty(&conn->out))
            dz_conn_flush_and_advance(conn);
    }
    dz_conn_advance(conn);
}
