/* serve.h: an app served inside the test, and a client that speaks to it in blocking calls. */
#ifndef DZ_TESTS_SERVE_H
#define DZ_TESTS_SERVE_H

#include "check.h"
#include "wait.h"
#include "app/app.h"

#include <donmaz.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>

/* Starts it on any free port of the loopback interface; returns the port. */
static inline unsigned serve(dz_app *app)
{
    unsigned port = 0;
    assert_int_equal(dz_app_set(app, "port", "0"), 0);
    assert_int_equal(dz_app_start(app, &port), 0);
    assert_int_not_equal(port, 0);
    return port;
}

static inline void serve_end(dz_app *app)
{
    dz_app_stop(app);
    assert_int_equal(dz_app_wait(app), 0);
    dz_app_free(app);
}

static inline int connect_small(unsigned port, int receive_buffer)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    struct timeval limit = {.tv_sec = WAIT_SECONDS};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (receive_buffer)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static inline int connect_to(unsigned port)
{
    return connect_small(port, 0);
}

static inline void say(int fd, const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        ssize_t n = send(fd, text, left, MSG_NOSIGNAL);
        assert_true(n > 0);
        text += n;
        left -= (size_t)n;
    }
}

/* Whether all that was said has arrived in the server's socket, read there or not. */
static inline bool arrived(int fd)
{
    int left = 0; /* bytes that the peer's kernel has not acknowledged */
    assert_int_equal(ioctl(fd, SIOCOUTQ, &left), 0);
    return left == 0;
}

/* Reads one more byte at a time, so that pipelined replies are told apart. False: the end. */
static inline bool hear_byte(int fd, char *byte)
{
    ssize_t n = recv(fd, byte, 1, 0);
    assert_true(n >= 0 || errno == ECONNRESET);
    return n == 1;
}

typedef struct reply {
    int status; /* 0: the connection ended instead */
    char head[4096];
    char *body; /* NUL-terminated; free it by reply_free */
    size_t len;
} reply;

static inline void reply_free(reply *it)
{
    free(it->body);
    it->body = NULL;
}

static inline bool reply_has(const reply *it, const char *line)
{
    char wanted[512];
    snprintf(wanted, sizeof wanted, "\r\n%s\r\n", line);
    return strstr(it->head, wanted) != NULL;
}

static inline void hear_bytes(int fd, reply *it, size_t count)
{
    it->body = realloc(it->body, it->len + count + 1);
    assert_non_null(it->body);
    size_t end = it->len + count;
    while (it->len < end) {
        ssize_t n = recv(fd, it->body + it->len, end - it->len, 0);
        assert_true(n > 0);
        it->len += (size_t)n;
    }
    it->body[it->len] = '\0';
}

static inline void hear_chunks(int fd, reply *it)
{
    for (;;) {
        char line[32];
        size_t len = 0;
        do
            assert_true(len < sizeof line - 1 && hear_byte(fd, &line[len]));
        while (line[len++] != '\n');
        line[len] = '\0';
        size_t size = strtoul(line, NULL, 16);
        if (size > 0)
            hear_bytes(fd, it, size);
        char end[2];
        assert_true(hear_byte(fd, &end[0]) && hear_byte(fd, &end[1]));
        assert_memory_equal(end, "\r\n", 2);
        if (size == 0)
            return;
    }
}

/* Reads one reply; `head` for the reply to a HEAD. Status 0 when the connection ends before it. */
static inline reply hear_reply(int fd, bool head)
{
    reply it = {.body = calloc(1, 1)};
    size_t len = 0;
    while (len < 4 || memcmp(it.head + len - 4, "\r\n\r\n", 4) != 0) {
        assert_true(len < sizeof it.head - 1);
        if (!hear_byte(fd, &it.head[len])) {
            assert_int_equal(len, 0); /* never a part of a head */
            return it;
        }
        len++;
    }
    assert_int_equal(sscanf(it.head, "HTTP/1.1 %d ", &it.status), 1);
    const char *length = strstr(it.head, "\r\nContent-Length: ");
    if (head || it.status == 204 || it.status == 304)
        return it;
    if (length)
        hear_bytes(fd, &it, strtoul(length + 18, NULL, 10));
    else if (strstr(it.head, "\r\nTransfer-Encoding: chunked\r\n"))
        hear_chunks(fd, &it);
    return it;
}

static inline reply hear(int fd)
{
    return hear_reply(fd, false);
}

/* One request on a connection of its own. */
static inline reply ask(unsigned port, const char *request)
{
    int fd = connect_to(port);
    say(fd, request);
    reply it = hear_reply(fd, strncmp(request, "HEAD ", 5) == 0);
    close(fd);
    return it;
}

static inline bool ended(int fd)
{
    char byte;
    return !hear_byte(fd, &byte);
}

#define REQUEST(method, path) method " " path " HTTP/1.1\r\nHost: test\r\n\r\n"
#define GET(path)             REQUEST("GET", path)

#define assert_reply(got, code, text)                                                              \
    do {                                                                                           \
        reply got_ = (got);                                                                        \
        assert_int_equal(got_.status, code);                                                       \
        assert_string_equal(got_.body, text);                                                      \
        reply_free(&got_);                                                                         \
    } while (0)

#define assert_status(got, code)                                                                   \
    do {                                                                                           \
        reply got_ = (got);                                                                        \
        assert_int_equal(got_.status, code);                                                       \
        reply_free(&got_);                                                                         \
    } while (0)

static inline void burn_cpu(uint64_t ns)
{
    uint64_t until = dz_thread_cpu() + ns;
    while (dz_thread_cpu() < until)
        ;
}

static inline uint64_t rescues_of(const dz_app *app)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < app->core->runtime->options.loops; i++)
        sum += atomic_load(&app->core->runtime->loops[i].stats.rescues);
    return sum;
}

static inline uint32_t open_connections(const dz_app *app)
{
    return atomic_load(&app->core->server->stats.open);
}

#endif
