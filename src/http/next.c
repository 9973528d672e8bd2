#include "http/conn.h"

/* From the bytes of a connection to its next request. */

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
        dz_request_note_gone(req);
    req->body.limit = dz_conn_options(conn)->body_max;
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
                           &conn->scanned, &dz_conn_options(conn)->head);
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
    const dz_server_options *o = dz_conn_options(conn);
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

bool dz_conn_step(dz_conn *conn)
{
    if (conn->close_after) {
        if (dz_list_empty(&conn->out))
            dz_conn_finish(conn);
        return conn->state == DZ_CONN_LINGER; /* what is there already makes no further edge */
    }
    if (conn->out_bytes > DZ_CONN_PIPELINE_OUT)
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
