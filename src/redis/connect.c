/* Getting a connection: names, addresses, sockets, TLS. */
#include "redis/conn.h"
#include "redis/tls.h"

#include <donmaz/error.h>

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <unistd.h>

/* --- names */

static void on_resolved(void *user, int rc, const dz_redis_addresses *found)
{
    dz_redis_conn *conn = user;
    conn->lookup = NULL;
    conn->addresses = *found;
    conn->next_address = 0;
    if (conn->state != DZ_REDIS_RESOLVING)
        return; /* it took too long; whoever connects next asks again */
    if (rc == 0) {
        rc = dz_redis_connect_next(conn);
    } else {
        dz_redis_conn_why(conn, "the name does not resolve: %s", gai_strerror(rc));
        rc = DZ_E_UNAVAILABLE;
    }
    if (rc < 0)
        dz_redis_conn_fail(conn, rc);
}

int dz_redis_connect(dz_redis_conn *conn)
{
    int rc = 0;
    conn->next_address = 0;
    if (dz_redis_resolve_now(&conn->addresses, conn->endpoint))
        return dz_redis_connect_next(conn);
    conn->state = DZ_REDIS_RESOLVING;
    if (!conn->lookup) /* else the one before is still at it */
        conn->lookup = dz_redis_lookup_start(conn->loop, conn->endpoint, on_resolved, conn, &rc);
    return rc;
}

/* --- sockets */

static int open_socket(dz_redis_conn *conn, const dz_redis_address *address)
{
    int fd = socket(address->to.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (address->to.any.sa_family != AF_UNIX) {
        const int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    }
    int rc = 0;
    if (connect(fd, &address->to.any, address->len) < 0 && errno != EINPROGRESS)
        rc = -errno; /* EAGAIN too: a unix socket whose backlog is full */
    if (rc == 0)
        rc = dz_watch_start(conn->loop, &conn->watch, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                            conn->watch.fn);
    if (rc < 0) {
        close(fd);
        return rc;
    }
    conn->fd = fd;
    conn->wants_output = true; /* as just registered */
    return 0;
}

int dz_redis_connect_next(dz_redis_conn *conn)
{
    int rc = DZ_E_UNAVAILABLE;
    conn->state = DZ_REDIS_CONNECTING;
    while (conn->next_address < conn->addresses.count) {
        size_t at = (conn->turn + conn->next_address++) % conn->addresses.count;
        rc = open_socket(conn, &conn->addresses.list[at]);
        if (rc == 0)
            break;
    }
    return rc;
}

int dz_redis_connected(dz_redis_conn *conn)
{
    int error = 0;
    socklen_t len = sizeof error;
    if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        return -errno;
    return -error;
}

/* --- events */

/* False when the connection ended, or has not got that far yet. */
static bool go_on_securing(dz_redis_conn *conn)
{
    int rc = dz_redis_tls_handshake(conn);
    if (rc == 1)
        return dz_redis_conn_opened(conn);
    if (rc < 0)
        dz_redis_conn_fail(conn, rc);
    return false;
}

static bool go_on_connecting(dz_redis_conn *conn, uint32_t events)
{
    int rc = dz_redis_connected(conn);
    if (rc == 0 && !(events & (EPOLLOUT | EPOLLIN)))
        return false;
    if (rc == 0 && conn->config->tls) {
        conn->state = DZ_REDIS_SECURING;
        rc = dz_redis_tls_begin(conn);
    } else if (rc == 0) {
        return dz_redis_conn_opened(conn);
    }
    if (rc == 0)
        return true;
    dz_redis_conn_fail(conn, rc);
    return false;
}

void dz_redis_watch(dz_loop *loop, dz_watch *watch, uint32_t events)
{
    (void)loop;
    dz_redis_conn *conn = DZ_CONTAINER(watch, dz_redis_conn, watch);
    if (conn->state == DZ_REDIS_CONNECTING && !go_on_connecting(conn, events))
        return;
    if (conn->state == DZ_REDIS_SECURING && !go_on_securing(conn))
        return;
    if (conn->tls) { /* either direction may have waited for either event */
        if (dz_redis_write(conn))
            dz_redis_read(conn, true);
        return;
    }
    if ((events & EPOLLOUT) && !dz_redis_write(conn))
        return;
    if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
        dz_redis_read(conn, (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
}
