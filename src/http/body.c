#include "http/conn.h"

#include <donmaz/error.h>

#include <stdlib.h>

/* Bodies are read only when a handler asks. With Content-Length the bytes go from the socket
 * straight to where they are wanted; chunked ones pass through the input buffer. */

enum {
    FIRST_CHUNKED = 16 << 10, /* of a buffer whose final size is unknown */
    MIN_RATE = 500,           /* bytes a second below which a client is too slow */
    SKIP_MAX = 64 << 10,      /* an unread body up to this is dropped to keep the connection */
};

static void complete(dz_conn *conn, ssize_t result)
{
    dz_body_read *reader = conn->body_read;
    reader->req->body.waited_ns += conn->home->loop->now - reader->started;
    conn->body_read = NULL;
    conn->deadline = UINT64_MAX;
    reader->result = result;
    dz_fiber_ready(reader->req->fiber);
}

static void fail(dz_conn *conn, int error, int status)
{
    dz_body *body = &conn->body_read->req->body;
    body->state = DZ_BODY_STATE_FAILED;
    body->error = error;
    body->status = status;
    conn->close_after = conn->must_linger = true;
    complete(conn, error);
}

void dz_conn_fail_body(dz_conn *conn, int error, int status)
{
    if (conn->body_read)
        fail(conn, error, status);
}

/* The end of input in the middle of a body. */
static void fail_if_ended(dz_conn *conn)
{
    if (conn->body_read && conn->input_ended)
        fail(conn, DZ_E_CLOSED, 0);
}

/* Bytes that came along with the head. */
static dz_slice buffered(const dz_conn *conn)
{
    return dz_slice_make(conn->in ? conn->in + conn->in_start : NULL,
                         conn->in_end - conn->in_start);
}

static size_t least(uint64_t a, uint64_t b)
{
    return (size_t)(a < b ? a : b);
}

/* The handler waits for the client at most body_timeout, and a second more for each MIN_RATE bytes
 * that came, over the whole body: a byte now and then does not buy another body_timeout. */
static void set_deadline(dz_conn *conn, const dz_body *body)
{
    uint64_t allowed =
        conn->home->server->options.body_timeout_ns + body->taken * (DZ_SEC / MIN_RATE);
    uint64_t left = allowed > body->waited_ns ? allowed - body->waited_ns : 0;
    dz_conn_set_deadline(conn, conn->body_read->started + left);
}

static void note_payload(dz_conn *conn, dz_body *body, size_t n)
{
    body->taken += n;
    dz_turn_count(conn->home, n);
    set_deadline(conn, body);
}

/* Content-Length: moves up to `room` bytes to `out`. */
static size_t take_sized(dz_conn *conn, dz_body *body, char *out, size_t room)
{
    dz_slice have = buffered(conn);
    size_t n = least(body->left, room);
    if (have.ptr && have.len > 0) {
        n = least(n, have.len);
        memcpy(out, have.ptr, n);
        conn->in_start += (uint32_t)n;
    } else {
        n = conn->readable && n > 0 ? dz_conn_receive(conn, out, n) : 0;
    }
    body->left -= n;
    if (n > 0)
        note_payload(conn, body, n);
    if (body->left == 0)
        body->state = DZ_BODY_STATE_DONE;
    return n;
}

/* Chunked: the next payload, of at most `room` bytes, in the input buffer. Empty: none now. */
static dz_slice take_chunked(dz_conn *conn, dz_body *body, size_t room)
{
    while (conn->body_read && body->state != DZ_BODY_STATE_DONE) {
        dz_slice have = buffered(conn), payload = {0};
        if (have.len == 0) {
            if (!dz_conn_fill(conn))
                return (dz_slice){0};
            continue;
        }
        /* What is decoded must be taken, so no more than fits is shown to the decoder. */
        size_t used, show = least(have.len, room);
        int rc = dz_chunked_next(&body->chunks, have.ptr, show, &used, &payload);
        conn->in_start += (uint32_t)used;
        if (rc < 0) {
            fail(conn, rc == -431 ? DZ_E_TOO_LARGE : DZ_E_PROTOCOL, -rc);
            return (dz_slice){0};
        }
        if (rc == DZ_CHUNKED_END)
            body->state = DZ_BODY_STATE_DONE;
        if (payload.len > 0) {
            note_payload(conn, body, payload.len);
            return payload;
        }
    }
    return (dz_slice){0};
}

static bool over_limit(dz_conn *conn, const dz_body *body, uint64_t total)
{
    if (total <= body->limit)
        return false;
    fail(conn, DZ_E_TOO_LARGE, 413);
    return true;
}

/* Ordinary memory is better than none when there is none of the wanted kind. */
static int make_room(dz_buf *whole, const dz_body *body, uint64_t more)
{
    if (more > SIZE_MAX - whole->len)
        return DZ_E_NOMEM;
    size_t cap = whole->len + (size_t)more;
    if (body->reserve && body->reserve(whole, cap) == 0)
        return 0;
    return dz_buf_reserve(whole, cap);
}

static void read_whole_sized(dz_conn *conn, dz_request *req, size_t budget)
{
    dz_body *body = &req->body;
    while (conn->body_read && body->left > 0 && budget > 0) {
        dz_buf *whole = &body->whole;
        size_t n = take_sized(conn, body, whole->data + whole->len,
                              least(whole->cap - whole->len, budget));
        whole->len += n;
        budget -= n;
        if (n == 0 && !conn->readable)
            break;
    }
    if (!conn->body_read)
        return;
    if (body->left == 0)
        complete(conn, (ssize_t)body->whole.len);
    else if (budget == 0)
        dz_turn_wait(conn);
    else
        fail_if_ended(conn);
}

static void read_whole_chunked(dz_conn *conn, dz_request *req, size_t budget)
{
    dz_body *body = &req->body;
    while (budget > 0) {
        dz_slice payload = take_chunked(conn, body, budget);
        if (!conn->body_read || payload.len == 0)
            break;
        if (over_limit(conn, body, body->taken))
            return;
        if (make_room(&body->whole, body, payload.len) < 0 ||
            dz_buf_append(&body->whole, payload) < 0) {
            fail(conn, DZ_E_NOMEM, 503);
            return;
        }
        budget -= payload.len;
    }
    if (!conn->body_read)
        return;
    if (body->state == DZ_BODY_STATE_DONE)
        complete(conn, (ssize_t)body->whole.len);
    else if (budget == 0)
        dz_turn_wait(conn);
    else
        fail_if_ended(conn);
}

/* dz_http_read: some bytes are enough. */
static void read_some(dz_conn *conn, dz_request *req, size_t budget)
{
    dz_body_read *reader = conn->body_read;
    dz_body *body = &req->body;
    size_t n, room = least(reader->cap, budget);
    if (req->head.chunked) {
        dz_slice payload = take_chunked(conn, body, room);
        n = payload.len;
        if (n > 0)
            memcpy(reader->out, payload.ptr, n);
    } else {
        n = take_sized(conn, body, reader->out, room);
    }
    if (!conn->body_read)
        return;
    if (over_limit(conn, body, body->taken))
        return;
    if (n > 0 || body->state == DZ_BODY_STATE_DONE)
        complete(conn, (ssize_t)n);
    else
        fail_if_ended(conn);
}

void dz_conn_read_piece(dz_conn *conn)
{
    dz_body_read *reader = conn->body_read;
    dz_request *req = reader->req;
    size_t budget = dz_turn_room(conn->home);
    if (reader->out)
        read_some(conn, req, budget);
    else if (req->head.chunked)
        read_whole_chunked(conn, req, budget);
    else
        read_whole_sized(conn, req, budget);
}

void dz_conn_read_body(dz_conn *conn)
{
    if (dz_turn_is_free(conn->home))
        dz_conn_read_piece(conn);
    else
        dz_turn_wait(conn);
}

/* On the loop, with the handler parked. */
static void start_read(dz_loop *loop, dz_fiber *fiber)
{
    dz_body_read *reader = fiber->after_arg;
    dz_request *req = reader->req;
    dz_conn *conn = req->conn;
    dz_body *body = &req->body;
    conn->body_read = reader;
    reader->started = loop->now;
    if (conn->state == DZ_CONN_CLOSED) {
        fail(conn, DZ_E_CLOSED, 0);
        return;
    }
    if (body->state == DZ_BODY_STATE_UNREAD) {
        if (req->head.has_length && over_limit(conn, body, body->left))
            return;
        if (!reader->out &&
            make_room(&body->whole, body, req->head.chunked ? FIRST_CHUNKED : body->left) < 0) {
            fail(conn, DZ_E_NOMEM, 503);
            return;
        }
        body->state = DZ_BODY_STATE_READING;
        if (req->head.expect_continue && buffered(conn).len == 0) {
            dz_out *out = dz_out_copy(DZ_LIT("HTTP/1.1 100 Continue\r\n\r\n"));
            if (out)
                dz_conn_queue(conn, out);
        }
    }
    set_deadline(conn, body);
    dz_conn_read_body(conn);
}

int dz_http_body(dz_request *req)
{
    dz_body *body = &req->body;
    if (!dz_http_is_handler(req))
        return DZ_E_STATE;
    switch (body->state) {
    case DZ_BODY_STATE_NONE:
        return 0;
    case DZ_BODY_STATE_DONE:
        return body->taken == body->whole.len ? 0 : DZ_E_STATE;
    case DZ_BODY_STATE_FAILED:
        return body->error;
    case DZ_BODY_STATE_READING:
        return DZ_E_STATE;
    case DZ_BODY_STATE_UNREAD:
        break;
    }
    dz_body_read reader = {.req = req};
    dz_fiber_park(start_read, &reader);
    return reader.result < 0 ? (int)reader.result : 0;
}

ssize_t dz_http_read(dz_request *req, void *out, size_t cap)
{
    dz_body *body = &req->body;
    if (cap == 0 || body->whole.data || !dz_http_is_handler(req))
        return DZ_E_STATE;
    if (body->state == DZ_BODY_STATE_NONE || body->state == DZ_BODY_STATE_DONE)
        return 0;
    if (body->state == DZ_BODY_STATE_FAILED)
        return body->error;
    dz_body_read reader = {.req = req, .out = out, .cap = cap};
    dz_fiber_park(start_read, &reader);
    return reader.result;
}

bool dz_http_body_skippable(const dz_request *req)
{
    const dz_body *body = &req->body;
    switch (body->state) {
    case DZ_BODY_STATE_NONE:
    case DZ_BODY_STATE_DONE:
        return true;
    case DZ_BODY_STATE_FAILED:
        return false;
    case DZ_BODY_STATE_UNREAD:
        /* A client that waits for 100 may send the body or not: nobody can tell (RFC 9110
         * 10.1.1). */
        if (req->head.expect_continue)
            return false;
        break;
    case DZ_BODY_STATE_READING:
        break;
    }
    return !req->head.chunked && body->left <= SKIP_MAX;
}

void dz_conn_skip_body(dz_conn *conn, dz_request *req)
{
    const dz_body *body = &req->body;
    if (body->state == DZ_BODY_STATE_NONE || body->state == DZ_BODY_STATE_DONE)
        return;
    if (dz_http_body_skippable(req))
        conn->skip_left = body->left;
    else
        conn->close_after = conn->must_linger = true;
}
