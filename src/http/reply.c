#include "http/conn.h"
#include "http/date.h"

#include <donmaz/error.h>

#include <stdlib.h>
#include <time.h>

/* A body up to this is copied behind the head, so that both are one piece. */
enum { INLINE_BODY = 16 << 10 };

/* Not inlined: a handler may go on another thread after it parks, and the compiler must not keep
 * the address of a thread-local. */
__attribute__((noinline)) static dz_slice date_line(void)
{
    static __thread dz_date_cache cache __attribute__((tls_model("initial-exec")));
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return dz_date_line(&cache, now.tv_sec);
}

/* --- on the loop --- */

static void queue_reply(dz_request *req)
{
    dz_conn *conn = req->conn;
    if (conn->state == DZ_CONN_CLOSED) {
        req->cut = true;
        dz_buf_release(&req->out_body.owner);
        for (dz_list *link; (link = dz_list_shift(&req->out_more));)
            dz_out_dispose(DZ_CONTAINER(link, dz_out, link));
        return;
    }
    if (req->res.close_after)
        conn->close_after = true;
    dz_conn_queue(conn, &req->out_head);
    if (req->out_body.len > 0)
        dz_conn_queue(conn, &req->out_body);
    else
        dz_buf_release(&req->out_body.owner);
    for (dz_list *link; (link = dz_list_shift(&req->out_more));)
        dz_conn_queue(conn, DZ_CONTAINER(link, dz_out, link));
}

static void on_reply(dz_loop *loop, dz_msg *msg)
{
    (void)loop;
    queue_reply(DZ_CONTAINER(msg, dz_request, msg));
}

/* --- in the handler --- */

static bool is_open(const dz_request *req)
{
    return req->res.state == DZ_RESPONSE_OPEN && dz_http_is_handler(req);
}

static bool is_streaming(const dz_request *req)
{
    return req->res.state == DZ_RESPONSE_STREAMING && dz_http_is_handler(req);
}

/* Whether the connection should go on, as far as the handler can know. */
static dz_persist persistence(dz_request *req)
{
    dz_response *res = &req->res;
    if (!req->head.keep_alive || !dz_http_body_skippable(req) ||
        atomic_load_explicit(&req->conn->home->draining, memory_order_relaxed))
        res->close_after = true;
    if (res->close_after)
        return DZ_PERSIST_CLOSE;
    return req->head.minor == 0 ? DZ_PERSIST_KEEP_ALIVE : DZ_PERSIST_DEFAULT;
}

/* Writes the head into the request's arena, with room for `extra` bytes after it. */
static int write_head(dz_request *req, dz_body_kind kind, uint64_t length, size_t extra,
                      char **text, size_t *len)
{
    dz_response *res = &req->res;
    const dz_response_head head = {
        .status = res->status,
        .body = kind,
        .persist = persistence(req),
        .content_length = length,
        .date = date_line(),
        .content_type = res->content_type,
        .headers = res->headers,
        .header_count = res->header_count,
    };
    size_t bound = dz_response_head_bound(&head);
    *text = dz_arena_alloc(&req->arena, bound + extra);
    if (!*text)
        return DZ_E_NOMEM;
    int rc = dz_response_head_write(*text, bound, &head);
    if (rc < 0)
        return rc;
    *len = (size_t)rc;
    return 0;
}

/* Gives what is ready in the request to the connection. */
static void hand_over(dz_request *req)
{
    req->res.state = DZ_RESPONSE_COMPLETE;
    if (dz_loop_pin(req->loop)) {
        queue_reply(req);
        dz_loop_unpin(req->loop);
    } else {
        req->msg.fn = on_reply;
        dz_loop_post(req->loop, &req->msg);
    }
}

/* Lets the layer above have its say, once. As dz_http_prepare. */
static int prepare(dz_request *req, dz_buf *body, bool stream)
{
    dz_http_prepare *fn = req->res.prepare;
    req->res.prepare = NULL;
    return fn ? fn(req, body, stream) : 0;
}

int dz_http_reply_pieces(dz_request *req, uint64_t length, dz_list *pieces)
{
    dz_response *res = &req->res;
    if (!is_open(req))
        return DZ_E_STATE;
    char *text;
    size_t len;
    bool never = dz_status_bodiless(res->status);
    int rc = write_head(req, never ? DZ_BODY_NONE : DZ_BODY_LENGTH, length, 0, &text, &len);
    if (rc < 0)
        return rc;
    req->out_head = (dz_out){.ptr = text, .len = len, .req = req};
    req->out_body = (dz_out){.req = req};
    for (dz_list *link; (link = dz_list_shift(pieces));) {
        dz_list_push(&req->out_more, link);
        res->sent += DZ_CONTAINER(link, dz_out, link)->len;
    }
    hand_over(req);
    return 0;
}

/* Makes the pieces of a whole response. */
static int make_reply(dz_request *req, dz_buf *body)
{
    dz_response *res = &req->res;
    dz_slice bytes = body ? dz_buf_slice(body) : (dz_slice){0};
    bool never = dz_status_bodiless(res->status);
    bool dropped = never || req->head.method == DZ_HEAD;
    size_t inside = !dropped && bytes.len <= INLINE_BODY ? bytes.len : 0;
    char *text;
    size_t len;
    bool length = !never && !res->no_length;
    int rc =
        write_head(req, length ? DZ_BODY_LENGTH : DZ_BODY_NONE, bytes.len, inside, &text, &len);
    if (rc < 0)
        return rc;
    if (inside > 0)
        memcpy(text + len, bytes.ptr, inside);
    req->out_head = (dz_out){.ptr = text, .len = len + inside, .req = req};
    req->out_body = (dz_out){.req = req};
    if (!dropped && inside == 0 && bytes.len > 0) {
        req->out_body.ptr = bytes.ptr;
        req->out_body.len = bytes.len;
        req->body.lent = !body->block;
        req->out_body.owner = *body;
        *body = (dz_buf){0};
    }
    res->sent = dropped ? 0 : bytes.len;
    return 0;
}

int dz_http_reply_here(dz_request *req, dz_buf *body)
{
    if (req->res.state != DZ_RESPONSE_OPEN)
        return DZ_E_STATE;
    int rc = make_reply(req, body);
    if (rc < 0)
        return rc;
    req->res.state = DZ_RESPONSE_COMPLETE;
    queue_reply(req);
    return 0;
}

int dz_http_reply(dz_request *req, dz_buf *body)
{
    if (!is_open(req))
        return DZ_E_STATE;
    int rc = prepare(req, body, false);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    rc = make_reply(req, body);
    if (rc < 0)
        return rc;
    hand_over(req);
    return 0;
}

/* --- streams --- */

static void on_write(dz_loop *loop, dz_fiber *fiber)
{
    (void)loop;
    dz_body_write *writer = fiber->after_arg;
    dz_conn *conn = writer->req->conn;
    if (conn->state == DZ_CONN_CLOSED) {
        dz_out_release(writer->piece);
        writer->req->cut = true;
        writer->result = DZ_E_CLOSED;
        dz_fiber_ready(fiber);
        return;
    }
    dz_conn_queue(conn, writer->piece);
    if (conn->out_bytes > conn->home->server->options.write_buffer) {
        conn->body_write = writer; /* dz_conn_flush wakes it */
        return;
    }
    writer->result = 0;
    dz_fiber_ready(fiber);
}

/* Gives a piece to the connection; parks while too much waits for the client. */
static int send_piece(dz_request *req, dz_out *piece)
{
    if (!piece) {
        req->res.broken = true;
        return DZ_E_NOMEM;
    }
    if (dz_loop_pin(req->loop)) {
        dz_conn *conn = req->conn;
        bool room = conn->state != DZ_CONN_CLOSED &&
                    conn->out_bytes + piece->len <= conn->home->server->options.write_buffer;
        if (room)
            dz_conn_queue(conn, piece);
        dz_loop_unpin(req->loop);
        if (room)
            return 0;
    }
    dz_body_write writer = {.req = req, .piece = piece};
    dz_fiber_park(on_write, &writer);
    return writer.result;
}

int dz_http_stream(dz_request *req, uint64_t length)
{
    dz_response *res = &req->res;
    if (!is_open(req))
        return DZ_E_STATE;
    int rc = prepare(req, NULL, true);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    dz_body_kind kind = DZ_BODY_LENGTH;
    if (dz_status_bodiless(res->status)) {
        kind = DZ_BODY_NONE;
    } else if (length == UINT64_MAX) {
        kind = req->head.minor == 0 ? DZ_BODY_NONE : DZ_BODY_CHUNKED;
        if (kind == DZ_BODY_NONE)
            res->close_after = true; /* HTTP/1.0 knows no other end */
    }
    char *text;
    size_t len;
    rc = write_head(req, kind, length, 0, &text, &len);
    if (rc < 0)
        return rc;
    dz_out *piece = dz_out_copy(dz_slice_make(text, len));
    if (!piece)
        return DZ_E_NOMEM; /* nothing was sent: there can still be another answer */
    res->chunked = kind == DZ_BODY_CHUNKED;
    res->bodiless = dz_status_bodiless(res->status) || req->head.method == DZ_HEAD;
    res->state = DZ_RESPONSE_STREAMING;
    return send_piece(req, piece);
}

int dz_http_write(dz_request *req, dz_slice bytes)
{
    dz_response *res = &req->res;
    if (!is_streaming(req))
        return DZ_E_STATE;
    if (res->broken)
        return DZ_E_NOMEM;
    if (bytes.len == 0 || res->bodiless)
        return 0;
    return res->encoder ? res->encoder->write(res->encoder, req, bytes, false)
                        : dz_http_write_encoded(req, bytes);
}

int dz_http_write_encoded(dz_request *req, dz_slice bytes)
{
    dz_response *res = &req->res;
    if (bytes.len == 0)
        return 0;
    res->sent += bytes.len;
    if (!res->chunked)
        return send_piece(req, dz_out_copy(bytes));
    char header[DZ_CHUNK_HEADER_MAX];
    size_t head = dz_chunk_header(header, bytes.len);
    dz_out *piece = bytes.len > SIZE_MAX - head - 2 - sizeof(dz_out)
                        ? NULL
                        : malloc(sizeof *piece + head + bytes.len + 2);
    if (!piece)
        return send_piece(req, NULL);
    char *text = (char *)(piece + 1);
    memcpy(text, header, head);
    memcpy(text + head, bytes.ptr, bytes.len);
    memcpy(text + head + bytes.len, "\r\n", 2);
    *piece = (dz_out){.ptr = text, .len = head + bytes.len + 2, .on_heap = true};
    return send_piece(req, piece);
}

static void on_end(dz_loop *loop, dz_fiber *fiber)
{
    (void)loop;
    dz_request *req = fiber->after_arg;
    if (req->res.close_after)
        req->conn->close_after = true;
    dz_fiber_ready(fiber);
}

int dz_http_end(dz_request *req)
{
    dz_response *res = &req->res;
    if (!is_streaming(req))
        return DZ_E_STATE;
    int rc = res->broken ? DZ_E_NOMEM : 0;
    if (res->encoder) {
        if (rc == 0 && !res->bodiless)
            rc = res->encoder->write(res->encoder, req, (dz_slice){0}, true);
        res->encoder->release(res->encoder);
        res->encoder = NULL;
    }
    if (rc == 0 && res->chunked && !res->bodiless)
        rc = send_piece(req, dz_out_copy(DZ_LIT(DZ_CHUNK_LAST)));
    if (rc == 0) {
        res->state = DZ_RESPONSE_COMPLETE;
        dz_fiber_park(on_end, req);
    }
    return rc;
}
