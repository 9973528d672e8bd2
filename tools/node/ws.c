#include "ws.h"

#include <base/clock.h>
#include <donmaz/error.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>
#include <wslay/wslay.h>

struct dz_ws {
    int fd;
    bool dead;
    wslay_event_context_ptr ctx;
    dz_ws_on_message *on_message;
    void *arg;
    char early[4096]; /* frames that came along with the upgrade response */
    size_t early_len, early_at;
};

static ssize_t recv_cb(wslay_event_context_ptr ctx, uint8_t *buf, size_t len, int flags, void *arg)
{
    (void)flags;
    dz_ws *ws = arg;
    if (ws->early_at < ws->early_len) {
        size_t n = ws->early_len - ws->early_at;
        n = n < len ? n : len;
        memcpy(buf, ws->early + ws->early_at, n);
        ws->early_at += n;
        return (ssize_t)n;
    }
    ssize_t n;
    do
        n = recv(ws->fd, buf, len, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        return n;
    bool later = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    ws->dead |= !later;
    wslay_event_set_error(ctx, later ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

static ssize_t send_cb(wslay_event_context_ptr ctx, const uint8_t *data, size_t len, int flags,
                       void *arg)
{
    (void)flags;
    dz_ws *ws = arg;
    ssize_t n;
    do
        n = send(ws->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n >= 0)
        return n;
    bool later = errno == EAGAIN || errno == EWOULDBLOCK;
    ws->dead |= !later;
    wslay_event_set_error(ctx, later ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

/* RFC 6455 10.3: unpredictable masks protect proxies from hostile pages; there is neither here. */
static int mask_cb(wslay_event_context_ptr ctx, uint8_t *buf, size_t len, void *arg)
{
    (void)ctx;
    (void)arg;
    return getrandom(buf, len, 0) == (ssize_t)len ? 0 : -1;
}

static void message_cb(wslay_event_context_ptr ctx, const struct wslay_event_on_msg_recv_arg *m,
                       void *arg)
{
    (void)ctx;
    dz_ws *ws = arg;
    if (m->opcode == WSLAY_TEXT_FRAME)
        ws->on_message(ws->arg, dz_slice_make(m->msg, m->msg_length));
    else if (m->opcode == WSLAY_CONNECTION_CLOSE)
        ws->dead = true;
}

/* Waits for readiness until the deadline. */
static int await(int fd, short events, uint64_t deadline)
{
    for (;;) {
        uint64_t now = dz_now();
        if (now >= deadline)
            return DZ_E_TIMEOUT;
        struct pollfd p = {.fd = fd, .events = events};
        int n = poll(&p, 1, (int)((deadline - now) / DZ_MS + 1));
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
    }
}

static int connect_loopback(unsigned port, bool six, uint64_t deadline)
{
    struct sockaddr_in a4 = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 a6 = {.sin6_family = AF_INET6,
                              .sin6_port = htons((uint16_t)port),
                              .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    const struct sockaddr *to = six ? (void *)&a6 : (void *)&a4;
    int rc = connect(fd, to, six ? sizeof a6 : sizeof a4) == 0 ? 0 : -errno;
    if (rc == -EINPROGRESS) {
        rc = await(fd, POLLOUT, deadline);
        int error = 0;
        socklen_t len = sizeof error;
        if (rc == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0)
            rc = -error;
    }
    if (rc < 0) {
        close(fd);
        return rc;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return fd;
}

/* Sends a short request; the socket's buffer is empty, so it goes in one piece. */
static int send_request(int fd, const char *request, size_t len)
{
    ssize_t n = send(fd, request, len, MSG_NOSIGNAL);
    return n == (ssize_t)len ? 0 : n < 0 ? -errno : DZ_E_PROTOCOL;
}

/* Reads until the end of the headers. Returns where the body begins; *len is all that was read. */
static int read_head(int fd, char *buf, size_t cap, size_t *len, uint64_t deadline)
{
    *len = 0;
    for (;;) {
        buf[*len] = 0;
        const char *end = strstr(buf, "\r\n\r\n");
        if (end)
            return (int)(end + 4 - buf);
        if (*len == cap - 1)
            return DZ_E_PROTOCOL;
        int rc = await(fd, POLLIN, deadline);
        if (rc < 0)
            return rc;
        ssize_t n = recv(fd, buf + *len, cap - 1 - *len, 0);
        if (n == 0)
            return DZ_E_CLOSED;
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return -errno;
        *len += n > 0 ? (size_t)n : 0;
    }
}

static bool parse_url(const char *url, unsigned *port, bool *six, const char **path)
{
    static const struct {
        const char *prefix;
        bool six;
    } hosts[] = {{"ws://127.0.0.1:", false}, {"ws://localhost:", false}, {"ws://[::1]:", true}};
    for (size_t i = 0; i < 3; i++) {
        size_t len = strlen(hosts[i].prefix);
        if (strncmp(url, hosts[i].prefix, len) != 0)
            continue;
        char *end;
        unsigned long n = strtoul(url + len, &end, 10);
        if (n == 0 || n > 65535 || *end != '/')
            return false;
        *port = (unsigned)n;
        *six = hosts[i].six;
        *path = end;
        return strlen(end) < 200;
    }
    return false;
}

static int upgrade(dz_ws *ws, unsigned port, const char *path, uint64_t deadline)
{
    /* The key only proves to caches that the answer is fresh (RFC 6455 1.3); loopback has none. */
    char request[512];
    int n = snprintf(request, sizeof request,
                     "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nUpgrade: websocket\r\n"
                     "Connection: Upgrade\r\nSec-WebSocket-Key: ZG9ubWF6LWluc3BlY3Q==\r\n"
                     "Sec-WebSocket-Version: 13\r\n\r\n",
                     path, port);
    int rc = send_request(ws->fd, request, (size_t)n);
    if (rc < 0)
        return rc;
    size_t len;
    int body = read_head(ws->fd, ws->early, sizeof ws->early, &len, deadline);
    if (body < 0)
        return body;
    if (strncmp(ws->early, "HTTP/1.1 101", 12) != 0)
        return DZ_E_PROTOCOL;
    ws->early_at = (size_t)body;
    ws->early_len = len;
    return 0;
}

int dz_ws_open(dz_ws **out, const char *url, unsigned timeout_ms, dz_ws_on_message *on_message,
               void *arg)
{
    static const struct wslay_event_callbacks callbacks = {.recv_callback = recv_cb,
                                                           .send_callback = send_cb,
                                                           .genmask_callback = mask_cb,
                                                           .on_msg_recv_callback = message_cb};
    unsigned port;
    bool six;
    const char *path;
    if (!parse_url(url, &port, &six, &path))
        return DZ_E_INVALID;
    dz_ws *ws = calloc(1, sizeof *ws);
    if (!ws)
        return DZ_E_NOMEM;
    ws->on_message = on_message;
    ws->arg = arg;
    uint64_t deadline = dz_now() + timeout_ms * DZ_MS;
    int rc = ws->fd = connect_loopback(port, six, deadline);
    if (rc >= 0)
        rc = upgrade(ws, port, path, deadline);
    if (rc >= 0 && wslay_event_context_client_init(&ws->ctx, &callbacks, ws) != 0)
        rc = DZ_E_NOMEM;
    if (rc < 0) {
        dz_ws_close(ws);
        return rc;
    }
    *out = ws;
    return 0;
}

void dz_ws_close(dz_ws *ws)
{
    if (!ws)
        return;
    if (ws->ctx && !ws->dead) {
        wslay_event_queue_close(ws->ctx, WSLAY_CODE_NORMAL_CLOSURE, NULL, 0);
        wslay_event_send(ws->ctx);
    }
    if (ws->ctx)
        wslay_event_context_free(ws->ctx);
    if (ws->fd >= 0)
        close(ws->fd);
    free(ws);
}

int dz_ws_fd(const dz_ws *ws)
{
    return ws->fd;
}

bool dz_ws_wants_write(const dz_ws *ws)
{
    return wslay_event_want_write(ws->ctx) != 0;
}

int dz_ws_send(dz_ws *ws, dz_slice text)
{
    if (ws->dead)
        return DZ_E_CLOSED;
    struct wslay_event_msg m = {
        .opcode = WSLAY_TEXT_FRAME, .msg = (const uint8_t *)text.ptr, .msg_length = text.len};
    int rc = wslay_event_queue_msg(ws->ctx, &m);
    return rc == 0 ? 0 : rc == WSLAY_ERR_NOMEM ? DZ_E_NOMEM : DZ_E_CLOSED;
}

int dz_ws_pump(dz_ws *ws)
{
    if (ws->dead)
        return DZ_E_CLOSED;
    int rc = wslay_event_send(ws->ctx);
    if (rc == 0)
        rc = wslay_event_recv(ws->ctx);
    if (ws->dead)
        return DZ_E_CLOSED;
    return rc == 0 ? 0 : DZ_E_PROTOCOL;
}

int dz_ws_http_get(unsigned port, bool six, const char *path, unsigned timeout_ms, char **body)
{
    uint64_t deadline = dz_now() + timeout_ms * DZ_MS;
    int fd = connect_loopback(port, six, deadline);
    if (fd < 0)
        return fd;
    enum { CAP = 65536 };
    char *buf = malloc(CAP), request[256];
    size_t len = 0;
    int rc = buf ? 0 : DZ_E_NOMEM, at = 0;
    int n =
        snprintf(request, sizeof request,
                 "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nConnection: close\r\n\r\n", path, port);
    if (rc == 0)
        rc = send_request(fd, request, (size_t)n);
    if (rc == 0)
        rc = at = read_head(fd, buf, CAP, &len, deadline);
    /* Node's inspector keeps the connection open: the length tells where the body ends. */
    const char *field = rc >= 0 ? strcasestr(buf, "\r\nContent-Length:") : NULL;
    size_t want = field ? (size_t)at + strtoul(field + 17, NULL, 10) : CAP - 1;
    want = want < CAP - 1 ? want : CAP - 1;
    while (rc >= 0 && len < want) {
        rc = await(fd, POLLIN, deadline);
        ssize_t got = rc < 0 ? 0 : recv(fd, buf + len, want - len, 0);
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    close(fd);
    if (rc < 0) {
        free(buf);
        return rc;
    }
    buf[len] = 0;
    memmove(buf, buf + at, len - (size_t)at + 1);
    *body = buf;
    return 0;
}
