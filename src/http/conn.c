#include "http/conn.h"

#include "base/clock.h"
#include "http/date.h"

#include <donmaz/error.h>

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PIPELINE_OUT = 64 << 10, /* unsent replies above which no further request is begun */
    LINGER_BYTES = 16 << 20,
    LINGER_TICK = 256 << 10, /* of them in one tick, so that an upload can't hold the loop */
};
enum { HOLD_AFTER = 3, HOLD_DOUBLED = 6 }; /* refusals in a row; from 1 ms to 64 ms */
static const uint64_t HOLD_GAP_NS = 10 * DZ_MS;
static const uint64_t LINGER_NS = 5 * DZ_SEC;
static const uint64_t DRAIN_FRESH_NS = DZ_SEC; /* for a request on its way when we drain */

static const dz_server_options *options(const dz_conn *conn)
{
    return &conn->home->server->options;
}

/* Nobody will read the response: whoever works for it may stop. */
static void note_gone(dz_request *req)
{
    atomic_store_explicit(&req->gone, true, memory_order_relaxed);
    if (req->fiber && req->fiber->abandoned)
        req->fiber->abandoned(req->fiber);
}

int dz_conn_fd(const dz_conn *conn)
{
    return conn->state == DZ_CONN_CLOSED ? -1 : conn->watch.fd;
}

/* --- deadlines --- */

void dz_conn_arm(dz_conn *conn)
{
    uint64_t due = conn->deadline < conn->write_deadline ? conn->deadline : conn->write_deadline;
    if (conn->retry_at < due)
        due = conn->retry_at;
    if (conn->held_until > 0 && conn->held_until < due)
        due = conn->held_until;
    if (due == UINT64_MAX)
        return; /* a timer that still runs finds nothing due */
    /* A later deadline is found when the timer fires: moving it for every request costs more. */
    if (!dz_heap_has(&conn->timer.node) || due < conn->timer.node.key)
        dz_timer_start(conn->home->loop, &conn->timer, due);
}

void dz_conn_set_deadline(dz_conn *conn, uint64_t due)
{
    conn->deadline = due;
    dz_conn_arm(conn);
}

static void flush_and_advance(dz_conn *conn);

static void on_deadline(dz_conn *conn)
{
    switch (conn->state) {
    case DZ_CONN_HEAD:
        dz_conn_refuse(conn, 408);
        flush_and_advance(conn);
        break;
    case DZ_CONN_HELD:
        dz_conn_fail_body(conn, DZ_E_TIMEOUT, 408);
        break;
    case DZ_CONN_IDLE:
        if (!dz_list_empty(&conn->out)) { /* not idle: a slow client still takes its reply */
            dz_conn_set_deadline(conn, conn->home->loop->now + options(conn)->idle_timeout_ns);
            break;
        }
        dz_conn_close(conn);
        break;
    case DZ_CONN_LINGER:
        dz_conn_close(conn);
        break;
    case DZ_CONN_CLOSED:
        break;
    }
}

static void on_timer(dz_loop *loop, dz_timer *timer)
{
    dz_conn *conn = DZ_CONTAINER(timer, dz_conn, timer);
    if (conn->write_deadline <= loop->now) {
        dz_conn_close(conn); /* the client takes nothing */
        return;
    }
    if (conn->retry_at <= loop->now) {
        conn->retry_at = UINT64_MAX;
        conn->writable = true;
        flush_and_advance(conn);
    }
    if (conn->state != DZ_CONN_CLOSED && conn->held_until > 0 && conn->held_until <= loop->now) {
        conn->held_until = 0;
        dz_conn_advance(conn);
    }
    if (conn->state != DZ_CONN_CLOSED && conn->deadline <= loop->now) {
        conn->deadline = UINT64_MAX;
        on_deadline(conn);
    }
    if (conn->state != DZ_CONN_CLOSED)
        dz_conn_arm(conn); /* for the other deadlines */
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
    dz_deferred_init(&conn->flush, on_flush);
    dz_timer_init(&conn->timer, on_timer);
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
    dz_conn_set_deadline(conn, home->loop->now + options(conn)->header_timeout_ns);
}

static void free_if_unused(dz_conn *conn)
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
    if (conn->req) {
        note_gone(conn->req);
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
        free_if_unused(conn);
        return;
    }
    if (conn->writable && !dz_list_empty(&conn->out) && !dz_conn_flush(conn))
        return;
    dz_conn_advance(conn);
}

/* All is written and no request will follow. */
static void finish(dz_conn *conn)
{
    bool may_have_input = conn->must_linger || conn->readable || conn->in_start < conn->in_end;
    if (!may_have_input || conn->input_ended) {
        dz_conn_close(conn);
        return;
    }
    /* Closing with unread input would reset the connection, and the reset could reach the client
     * before it has read the reply (RFC 9112 9.6). */
    shutdown(conn->watch.fd, SHUT_WR);
    conn->state = DZ_CONN_LINGER;
    conn->linger_left = LINGER_BYTES;
    dz_conn_set_deadline(conn, conn->home->loop->now + LINGER_NS);
}

void dz_conn_refuse(dz_conn *conn, int status)
{
    dz_server *server = conn->home->server;
    atomic_fetch_add_explicit(&server->stats.bad_requests, 1, memory_order_relaxed);
    conn->close_after = conn->must_linger = true;
    dz_conn_drop_input(conn);
    char date[DZ_DATE_LEN], text[320];
    const char *reason = dz_status_reason(status);
    dz_date_format(date, (int64_t)(dz_clock(CLOCK_REALTIME_COARSE) / DZ_SEC));
    int len = snprintf(text, sizeof text,
                       "HTTP/1.1 %d %s\r\nDate: %.*s\r\nContent-Type: text/plain; charset=utf-8\r\n"
                       "Content-Length: %zu\r\nConnection: close\r\n\r\n%s\n",
                       status, reason, DZ_DATE_LEN, date, strlen(reason) + 1, reason);
    dz_out *out = dz_out_copy(dz_slice_make(text, (size_t)len));
    if (out)
        dz_conn_queue(conn, out);
    conn->state = DZ_CONN_IDLE;
    if (server->service.refused)
        server->service.refused(server->service.context, status);
}

/* --- requests --- */

static void begin_request(dz_conn *conn, dz_request *req, uint32_t head_len)
{
    dz_server_loop *home = conn->home;
    conn->in_start += head_len;
    conn->scanned = 0;
    conn->fresh = false;
    conn->deadline = UINT64_MAX;
    conn->req = req;
    conn->state = DZ_CONN_HELD;
    if (!req->head.keep_alive)
        conn->close_after = true;
    req->id = ++home->next_id * home->server->loop_count + home->loop->index;
    req->started = home->loop->now;
    if (conn->peer_ended)
        note_gone(req);
    req->body.limit = options(conn)->body_max;
    if (req->head.chunked) {
        req->body.state = DZ_BODY_STATE_UNREAD;
        dz_chunked_init(&req->body.chunks);
    } else if (req->head.content_length > 0) {
        req->body.state = DZ_BODY_STATE_UNREAD;
        req->body.left = req->head.content_length;
    }
    atomic_store_explicit(&home->requests,
                          atomic_load_explicit(&home->requests, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    home->server->service.start(home->server->service.context, req);
}

/* Parses what is in the buffer. True: something happened, go on. */
static bool parse(dz_conn *conn)
{
    dz_request *req = dz_request_new(conn);
    if (!req) {
        dz_conn_refuse(conn, 503);
        return true;
    }
    int rc = dz_head_parse(&req->head, conn->in + conn->in_start, conn->in_end - conn->in_start,
                           &conn->scanned, &options(conn)->head);
    if (rc > 0) {
        begin_request(conn, req, (uint32_t)rc);
        return true;
    }
    dz_request_free(req);
    if (rc < 0)
        dz_conn_refuse(conn, -rc);
    return rc < 0;
}

/* Drops what is left of a body nobody read. */
static void skip(dz_conn *conn)
{
    uint64_t have = conn->in_end - conn->in_start;
    uint64_t n = have < conn->skip_left ? have : conn->skip_left;
    conn->in_start += (uint32_t)n;
    conn->skip_left -= n;
}

/* True: there is nothing to wait for, go on. */
static bool wait_for_input(dz_conn *conn)
{
    const dz_server_options *o = options(conn);
    if (conn->in_start == conn->in_end && conn->skip_left == 0) {
        dz_conn_drop_input(conn);
        conn->state = DZ_CONN_IDLE;
        if (!conn->fresh && conn->home->draining) {
            conn->close_after = true;
            return true;
        }
        if (!conn->fresh)
            dz_conn_set_deadline(conn, conn->home->loop->now + o->idle_timeout_ns);
        return false;
    }
    /* From the first byte on, later ones do not extend the time. */
    if (conn->state != DZ_CONN_HEAD && !conn->fresh)
        dz_conn_set_deadline(conn, conn->home->loop->now + o->header_timeout_ns);
    conn->state = DZ_CONN_HEAD;
    return false;
}

/* Until the timer lets it go on. It counts as idle meanwhile, whatever is in the socket. */
static bool hold(dz_conn *conn)
{
    if (conn->in_start == conn->in_end) {
        dz_conn_drop_input(conn);
        conn->state = DZ_CONN_IDLE;
    }
    dz_conn_arm(conn);
    return false;
}

/* One step towards the next request; true: try another. */
static bool step_request(dz_conn *conn)
{
    if (conn->close_after) {
        if (dz_list_empty(&conn->out))
            finish(conn);
        return conn->state == DZ_CONN_LINGER; /* what is there already makes no further edge */
    }
    if (conn->out_bytes > PIPELINE_OUT)
        return false; /* flushing goes on here */
    if (conn->held_until > 0)
        return hold(conn);
    if (conn->skip_left > 0)
        skip(conn);
    if (conn->skip_left == 0 && conn->in_start < conn->in_end && parse(conn))
        return true;
    if (conn->input_ended) {
        conn->close_after = true; /* after the replies that are still queued */
        return true;
    }
    if (dz_conn_fill(conn))
        return true;
    if (conn->state == DZ_CONN_CLOSED || conn->input_ended)
        return conn->state != DZ_CONN_CLOSED;
    return wait_for_input(conn);
}

/* Drops input until the client has read the reply and closes. */
static void linger(dz_conn *conn)
{
    char scratch[16 << 10];
    for (size_t dropped = 0; conn->readable;) {
        if (dropped >= LINGER_TICK) {
            dz_conn_later(conn);
            return;
        }
        size_t n = dz_conn_receive(conn, scratch, sizeof scratch);
        if (conn->state == DZ_CONN_CLOSED)
            return;
        dropped += n;
        conn->linger_left -= n < conn->linger_left ? n : conn->linger_left;
        if (conn->input_ended || conn->linger_left == 0) {
            dz_conn_close(conn);
            return;
        }
    }
}

void dz_conn_advance(dz_conn *conn)
{
    bool again = true;
    while (again) {
        switch (conn->state) {
        case DZ_CONN_IDLE:
        case DZ_CONN_HEAD:
            again = step_request(conn);
            break;
        case DZ_CONN_HELD:
            if (conn->body_read)
                dz_conn_read_body(conn);
            again = false;
            break;
        case DZ_CONN_LINGER:
            linger(conn);
            again = false;
            break;
        case DZ_CONN_CLOSED:
            again = false;
            break;
        }
    }
}

/* Writes, and goes on with what waited for that: the next pipelined request or the end. */
static void flush_and_advance(dz_conn *conn)
{
    bool was_full = conn->out_bytes > PIPELINE_OUT;
    if (!dz_conn_flush(conn))
        return;
    bool drained = dz_list_empty(&conn->out);
    if ((conn->close_after && drained) || (was_full && conn->out_bytes <= PIPELINE_OUT))
        dz_conn_advance(conn);
}

void dz_conn_go_on_writing(dz_conn *conn)
{
    conn->fetching = false;
    flush_and_advance(conn);
}

static void on_flush(dz_loop *loop, dz_deferred *deferred)
{
    (void)loop;
    flush_and_advance(DZ_CONTAINER(deferred, dz_conn, flush));
}

void dz_http_reject(dz_request *req, int status)
{
    dz_conn *conn = req->conn;
    conn->req = NULL;
    conn->state = DZ_CONN_IDLE;
    req->handler_done = true;
    dz_request_release(req);
    dz_conn_refuse(conn, status);
}

static uint64_t hold_of(unsigned streak)
{
    unsigned doubled = streak - HOLD_AFTER - 1;
    return doubled < HOLD_DOUBLED ? DZ_MS << doubled : DZ_MS << HOLD_DOUBLED;
}

void dz_http_answer(dz_request *req, dz_buf *body)
{
    if (dz_http_reply_here(req, body) < 0) {
        dz_buf_release(body);
        dz_http_reject(req, 503);
        return;
    }
    dz_conn *conn = req->conn;
    req->handler_done = true;
    conn->req = NULL;
    conn->state = DZ_CONN_IDLE;
    dz_conn_skip_body(conn, req);
    dz_request_release(req);
    /* At once: a refusal need not wait for the handlers of this tick. Whoever parsed the request
     * goes on with the connection. */
    if (conn->in_start == conn->in_end)
        dz_conn_flush(conn);
}

void dz_http_hold_back(dz_request *req)
{
    dz_conn *conn = req->conn;
    uint64_t now = conn->home->loop->now;
    uint64_t last = conn->refused_streak > HOLD_AFTER ? hold_of(conn->refused_streak) : 0;
    bool at_once = now - conn->refused_at <= 2 * last + HOLD_GAP_NS;
    conn->refused_streak = at_once ? conn->refused_streak + 1 : 1;
    conn->refused_at = now;
    if (conn->refused_streak > HOLD_AFTER)
        conn->held_until = now + hold_of(conn->refused_streak);
}

bool dz_http_close_after(dz_request *req)
{
    const dz_conn *conn = req->conn;
    if (conn->in_start < conn->in_end && req->body.state == DZ_BODY_STATE_NONE)
        return false;
    req->res.close_after = true;
    return true;
}

/* Ends the connection so that the client can tell: an ordinary end would complete the body. */
static void break_off(dz_conn *conn)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    if (conn->state == DZ_CONN_CLOSED)
        return;
    setsockopt(conn->watch.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    dz_conn_close(conn);
}

void dz_http_finish(dz_request *req)
{
    dz_conn *conn = req->conn;
    req->handler_done = true;
    if (req->res.broken && !req->res.chunked)
        break_off(conn);
    if (conn->state == DZ_CONN_CLOSED) {
        dz_request_release(req);
        conn->req = NULL;
        free_if_unused(conn);
        return;
    }
    if (req->res.state != DZ_RESPONSE_COMPLETE)
        conn->close_after = true; /* the client can't tell where the response would end */
    conn->req = NULL;
    conn->state = DZ_CONN_IDLE;
    dz_conn_skip_body(conn, req);
    dz_request_release(req);
    dz_conn_advance(conn);
    /* With another request under way the replies go together, at the end of the tick. */
    if (conn->state == DZ_CONN_IDLE || conn->state == DZ_CONN_HEAD)
        flush_and_advance(conn);
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
            note_gone(conn->req);
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
            flush_and_advance(conn);
    }
    dz_conn_advance(conn);
}
