#include "http/conn.h"

#include <sys/socket.h>

/* The end of a connection whose client may still be sending. */

enum {
    LINGER_BYTES = 16 << 20,
    LINGER_TICK = 256 << 10, /* of them in one tick, so that an upload can't hold the loop */
};
static const uint64_t LINGER_NS = 5 * DZ_SEC;

void dz_conn_finish(dz_conn *conn)
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

void dz_conn_linger(dz_conn *conn)
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
