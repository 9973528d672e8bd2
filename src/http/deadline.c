#include "http/conn.h"

#include <donmaz/error.h>

#include <linux/sockios.h>
#include <sys/ioctl.h>

/* The deadlines of a connection: one timer, set for the first of them or earlier. */

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

/* --- the client takes its response --- */

/* A client that takes less is too slow: a byte now and then does not buy another timeout. */
enum { MIN_RATE = 500 }; /* bytes a second */
static const uint64_t PER_BYTE_NS = DZ_SEC / MIN_RATE;

/* What has left the socket. The kernel tells when there is room again, which for a socket with a
 * large buffer is long after the client began to take bytes out of it. */
static uint64_t taken(const dz_conn *conn)
{
    int left = 0;
    if (ioctl(conn->watch.fd, SIOCOUTQ, &left) < 0 || left < 0)
        left = 0;
    return conn->written > (uint64_t)left ? conn->written - (uint64_t)left : 0;
}

void dz_conn_await_room(dz_conn *conn)
{
    conn->taken = taken(conn);
    conn->write_deadline = conn->home->loop->now + dz_conn_options(conn)->write_timeout_ns;
    dz_conn_arm(conn);
}

/* False: the client has taken nothing since, or too little before. Otherwise it gets as much time
 * as what it took is worth. */
static bool extend_write_deadline(dz_conn *conn)
{
    uint64_t timeout = dz_conn_options(conn)->write_timeout_ns, so_far = taken(conn);
    uint64_t more = so_far > conn->taken ? so_far - conn->taken : 0;
    uint64_t extra = more > timeout / PER_BYTE_NS ? timeout : more * PER_BYTE_NS;
    if (conn->fetching) /* it waits for our disk */
        extra = timeout;
    conn->taken = so_far;
    conn->write_deadline = conn->home->loop->now + extra;
    return extra > 0;
}

/* --- the timer --- */

static void on_deadline(dz_conn *conn)
{
    switch (conn->state) {
    case DZ_CONN_HEAD:
        dz_conn_refuse(conn, 408);
        dz_conn_flush_and_advance(conn);
        break;
    case DZ_CONN_HELD:
        dz_conn_fail_body(conn, DZ_E_TIMEOUT, 408);
        break;
    case DZ_CONN_IDLE:
        if (!dz_list_empty(&conn->out)) { /* not idle: a slow client still takes its reply */
            dz_conn_set_deadline(conn,
                                 conn->home->loop->now + dz_conn_options(conn)->idle_timeout_ns);
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
    if (conn->write_deadline <= loop->now && !extend_write_deadline(conn)) {
        dz_conn_close(conn);
        return;
    }
    if (conn->retry_at <= loop->now) {
        conn->retry_at = UINT64_MAX;
        conn->writable = true;
        dz_conn_flush_and_advance(conn);
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

void dz_conn_init_timer(dz_conn *conn)
{
    dz_timer_init(&conn->timer, on_timer);
}
