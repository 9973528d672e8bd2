#include "http/conn.h"

#include <sys/socket.h>

/* What becomes of a connection when a handler is done with its request. */

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
        dz_conn_free_if_unused(conn);
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
        dz_conn_flush_and_advance(conn);
}
