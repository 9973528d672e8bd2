#include "http/conn.h"

#include "http/date.h"

#include <stdio.h>

/* Requests that are answered without a handler. */

enum { HOLD_AFTER = 3, HOLD_DOUBLED = 6 }; /* refusals in a row; from 1 ms to 64 ms */
static const uint64_t HOLD_GAP_NS = 10 * DZ_MS;

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

void dz_http_reject(dz_request *req, int status)
{
    dz_conn *conn = req->conn;
    conn->req = NULL;
    conn->state = DZ_CONN_IDLE;
    req->handler_done = true;
    dz_request_release(req);
    dz_conn_refuse(conn, status);
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

static uint64_t hold_of(unsigned streak)
{
    unsigned doubled = streak - HOLD_AFTER - 1;
    return doubled < HOLD_DOUBLED ? DZ_MS << doubled : DZ_MS << HOLD_DOUBLED;
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
