/* Fault injection: a service whose every allocation and system call fails once in turn while it
 * starts and serves. It may answer 5xx or close; it may not crash, hang, lose a request silently,
 * send a wrong body as a right one, leak a descriptor, or stay damaged afterwards.
 *
 *   test-stress-faults KIND   malloc, calloc, realloc, aligned_alloc, mmap64, pthread_create,
 * accept4, epoll_ctl, send, recv
 *
 * Linked with --wrap for each of them. */
#include "app/app.h"
#include "base/io.h"

#include <donmaz.h>

#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

/* --- the faults --- */

enum kind {
    MALLOC,
    CALLOC,
    REALLOC,
    ALIGNED_ALLOC,
    MMAP,
    PTHREAD_CREATE,
    ACCEPT,
    EPOLL_CTL,
    SEND,
    RECV,
    KINDS
};

static const char *const names[KINDS] = {
    "malloc",         "calloc",  "realloc",   "aligned_alloc", "mmap64",
    "pthread_create", "accept4", "epoll_ctl", "send",          "recv"};

static _Atomic int armed = -1; /* the kind that is to fail */
static _Atomic int countdown;  /* how many calls of it still succeed */
static _Atomic bool fired;
static __thread bool exempt; /* the client's own calls */

static bool fails(enum kind kind)
{
    if (exempt || atomic_load(&armed) != (int)kind || atomic_fetch_sub(&countdown, 1) != 0)
        return false;
    atomic_store(&fired, true);
    return true;
}

#define WRAP(type, name, kind, parameters, arguments, error, failed)                               \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        if (!fails(kind))                                                                          \
            return __real_##name arguments;                                                        \
        errno = error;                                                                             \
        return failed;                                                                             \
    }

WRAP(void *, malloc, MALLOC, (size_t size), (size), ENOMEM, NULL)
WRAP(void *, calloc, CALLOC, (size_t count, size_t size), (count, size), ENOMEM, NULL)
WRAP(void *, realloc, REALLOC, (void *old, size_t size), (old, size), ENOMEM, NULL)
WRAP(void *, aligned_alloc, ALIGNED_ALLOC, (size_t align, size_t size), (align, size), ENOMEM, NULL)
WRAP(void *, mmap64, MMAP, (void *at, size_t size, int prot, int flags, int fd, off_t offset),
     (at, size, prot, flags, fd, offset), ENOMEM, MAP_FAILED)
WRAP(int, pthread_create, PTHREAD_CREATE,
     (pthread_t * thread, const pthread_attr_t *attributes, void *(*start)(void *), void *arg),
     (thread, attributes, start, arg), EAGAIN, EAGAIN)
WRAP(int, accept4, ACCEPT, (int fd, struct sockaddr *address, socklen_t *len, int flags),
     (fd, address, len, flags), EMFILE, -1)
WRAP(int, epoll_ctl, EPOLL_CTL, (int epoll, int op, int fd, struct epoll_event *event),
     (epoll, op, fd, event), ENOMEM, -1)
WRAP(ssize_t, dz_send, SEND, (int fd, const void *bytes, size_t size), (fd, bytes, size), ENOBUFS,
     -1)
WRAP(ssize_t, dz_sendmsg, SEND, (int fd, const struct msghdr *message), (fd, message), ENOMEM, -1)
WRAP(ssize_t, dz_recv, RECV, (int fd, void *out, size_t size), (fd, out, size), ENOMEM, -1)

/* --- reports --- */

static enum kind current;
static int current_at;

static void fail(const char *what, const char *detail)
{
    fprintf(stderr, "%s failing at call %d: %s: %s\n", names[current], current_at, what, detail);
    exit(1);
}

/* --- the service --- */

enum { LARGE = 100000 };
static char large_text[LARGE + 1];

static void hello(dz_request *req, dz_response *res)
{
    (void)req;
    dz_res_header(res, "X-One", "1");
    dz_send_text(res, 200, "hello");
}

static void large(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_bytes(res, 200, "text/plain", dz_slice_make(large_text, LARGE));
}

static void stream(dz_request *req, dz_response *res)
{
    (void)req;
    if (dz_stream(res, 200, "text/plain") < 0)
        return;
    for (size_t at = 0; at < LARGE; at += LARGE / 10)
        dz_write(res, dz_slice_make(large_text + at, LARGE / 10)); /* goes on after a failure */
    dz_end(res);
}

static void echo(dz_request *req, dz_response *res)
{
    dz_buf body;
    int rc = dz_req_take_body(req, &body);
    if (rc < 0) {
        dz_send_error(res, 500, rc);
        return;
    }
    dz_send_buf(res, 200, "text/plain", &body);
}

static void count(dz_request *req, dz_response *res)
{
    char piece[1000];
    ssize_t n, total = 0;
    while ((n = dz_req_read(req, piece, sizeof piece)) > 0)
        total += n;
    if (n < 0)
        dz_send_error(res, 500, (int)n);
    else
        dz_send_json(res, 200, "%zd", total);
}

static int reverse(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task;
    for (size_t i = 0; i < in->len / 2; i++) {
        char c = in->data[i];
        in->data[i] = in->data[in->len - 1 - i];
        in->data[in->len - 1 - i] = c;
    }
    return dz_buf_transfer(out, in);
}

static dz_pool *pool;

static void pooled(dz_request *req, dz_response *res)
{
    (void)req;
    dz_buf in, out;
    int rc = dz_buf_copy(&in, DZ_LIT("dezinamod"));
    if (rc == 0)
        rc = dz_pool_run(pool, "reverse", &in, &out);
    if (rc < 0) {
        dz_buf_release(&in);
        dz_send_error(res, 503, rc);
        return;
    }
    dz_send_buf(res, 200, "text/plain", &out);
}

static void nap(dz_request *req, dz_response *res)
{
    (void)req;
    int rc = dz_sleep(1);
    if (rc < 0)
        dz_send_error(res, 503, rc);
    else
        dz_send_text(res, 200, "slept");
}

/* All that is measured is registered when it is first asked for. */
static void metrics(dz_request *req, dz_response *res)
{
    dz_buf text = {0};
    int rc = dz_metrics_write(dz_req_metrics(req), &text);
    bool whole = rc == 0 && memmem(text.data, text.len, "\ndonmaz_route_class{", 20);
    dz_buf_release(&text);
    if (rc < 0)
        dz_send_error(res, 503, rc);
    else
        dz_send_text(res, 200, whole ? "whole" : "not whole");
}

static dz_app *make(void)
{
    dz_app *app = dz_app_new();
    if (!app)
        return NULL;
    dz_get(app, "/", hello);
    dz_get(app, "/large", large);
    dz_get(app, "/stream", stream);
    dz_post(app, "/echo", echo);
    dz_post(app, "/count", count);
    dz_get(app, "/pooled", pooled);
    dz_get(dz_group(app, "/nap"), "/", nap);
    dz_blocking(dz_get(app, "/worker/:id", hello));
    dz_get(app, "/metrics", metrics);
    dz_app_set(app, "port", "0");
    dz_app_set(app, "workers", "1");
    dz_app_set(app, "loops", "2");
    return app;
}

/* --- the client: static memory only --- */

static unsigned port;
static int client = -1;

static void open_client(void)
{
    client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval limit = {.tv_sec = 30};
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    int one = 1;
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(client, (struct sockaddr *)&address, sizeof address) < 0)
        fail("can't connect", strerror(errno));
}

static void close_client(void)
{
    if (client >= 0)
        close(client);
    client = -1;
}

static char got[4 * LARGE];
static size_t got_len;

/* More bytes; false: the connection ended. */
static bool more(void)
{
    ssize_t n = recv(client, got + got_len, sizeof got - 1 - got_len, 0);
    if (n < 0 && errno == EAGAIN)
        fail("a request is lost: no answer and no end", got);
    if (n <= 0)
        return false;
    got_len += (size_t)n;
    got[got_len] = '\0';
    return true;
}

static size_t decode_chunks(char *from, char *out)
{
    size_t total = 0;
    for (;;) {
        char *end;
        size_t size = strtoul(from, &end, 16);
        if (size == 0)
            break;
        memmove(out + total, end + 2, size);
        total += size;
        from = end + 2 + size + 2;
    }
    out[total] = '\0';
    return total;
}

static size_t body_at, body_len, reply_len;

/* Reads one reply into got; its status, or 0 when the connection ended before it was complete. */
static int hear(void)
{
    char *end;
    while (!(end = strstr(got, "\r\n\r\n")))
        if (!more())
            return 0;
    body_at = (size_t)(end + 4 - got);
    int status = 0;
    if (sscanf(got, "HTTP/1.1 %d ", &status) != 1)
        fail("not a reply", got);
    const char *length = strstr(got, "\r\nContent-Length: ");
    if (length && length < end) {
        body_len = strtoul(length + 18, NULL, 10);
        reply_len = body_at + body_len;
        while (got_len < reply_len)
            if (!more())
                return 0;
        return status;
    }
    while (got_len < body_at + 5 || memcmp(got + got_len - 5, "0\r\n\r\n", 5) != 0)
        if (!more())
            return 0;
    reply_len = got_len; /* streams are asked for one at a time */
    body_len = decode_chunks(got + body_at, got + body_at);
    return status;
}

static void forget_reply(void)
{
    memmove(got, got + reply_len, got_len - reply_len + 1);
    got_len -= reply_len;
}

static unsigned long answered, refused, closed;

/* Sends a request, `times` pipelined; each reply must be right, a 5xx, or the connection's end. */
static void ask(const char *head, const char *body, size_t body_size, int times, const char *wanted)
{
    if (client < 0)
        open_client();
    bool ended = false;
    for (int i = 0; i < times && !ended; i++) {
        ended = send(client, head, strlen(head), MSG_NOSIGNAL) < 0;
        for (size_t sent = 0; sent < body_size && !ended;) {
            ssize_t n = send(client, body + sent, body_size - sent, MSG_NOSIGNAL);
            ended = n <= 0;
            sent += ended ? 0 : (size_t)n;
        }
    }
    got_len = 0;
    got[0] = '\0';
    for (int i = 0; i < times; i++) {
        int status = hear();
        if (status == 0) {
            closed++;
            close_client();
            break;
        }
        if (status == 200) {
            if (body_len != strlen(wanted) || memcmp(got + body_at, wanted, body_len) != 0)
                fail("a wrong body", head);
            answered++;
        } else if (status >= 500) {
            refused++;
        } else {
            fail("a strange status", got);
        }
        got[body_at - 1] = '\0';
        bool last = strstr(got, "Connection: close") != NULL;
        forget_reply();
        if (last) {
            close_client();
            break;
        }
    }
    if (closed + refused > 0 && !atomic_load(&fired))
        fail("refused without a fault", head);
}

#define HEAD(method, path, more) method " " path " HTTP/1.1\r\nHost: t\r\n" more "\r\n"

static void ask_everything(void)
{
    static char long_head[12000];
    if (!long_head[0])
        snprintf(long_head, sizeof long_head, "GET / HTTP/1.1\r\nHost: t\r\nX-Long: %0*d\r\n\r\n",
                 11000, 7);
    ask(HEAD("GET", "/", ""), NULL, 0, 1, "hello");
    ask(HEAD("GET", "/", ""), NULL, 0, 5, "hello");
    ask(long_head, NULL, 0, 1, "hello");
    ask(HEAD("GET", "/large", ""), NULL, 0, 1, large_text);
    ask(HEAD("GET", "/stream", ""), NULL, 0, 1, large_text);
    ask(HEAD("POST", "/echo", "Content-Length: 100000\r\n"), large_text, LARGE, 1, large_text);
    ask(HEAD("POST", "/echo", "Transfer-Encoding: chunked\r\n"), "5\r\nhello\r\n0\r\n\r\n", 15, 2,
        "hello");
    ask(HEAD("POST", "/count", "Content-Length: 100000\r\n"), large_text, LARGE, 1, "100000");
    ask(HEAD("GET", "/pooled", ""), NULL, 0, 1, "domanized");
    ask(HEAD("GET", "/nap", ""), NULL, 0, 2, "slept");
    ask(HEAD("GET", "/worker/1", ""), NULL, 0, 2, "hello");
    ask(HEAD("GET", "/metrics", ""), NULL, 0, 1, "whole");
    close_client();
}

/* --- one round --- */

static size_t open_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    size_t count = 0;
    while (folder && readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static void disarm(void)
{
    atomic_store(&armed, -1);
}

/* The kind's call number `at` fails. False: there are fewer calls than that. */
static bool round_with_fault(enum kind kind, int at)
{
    current = kind;
    current_at = at;
    atomic_store(&fired, false);
    atomic_store(&countdown, at);
    atomic_store(&armed, (int)kind);
    exempt = false;
    dz_pool_options options;
    dz_pool_options_init(&options);
    pool = dz_pool_new(&options);
    int rc = pool ? dz_pool_add_task(pool, "reverse", reverse) : DZ_E_NOMEM;
    dz_app *app = rc == 0 ? make() : NULL;
    rc = app ? dz_app_start(app, &port) : DZ_E_NOMEM;
    exempt = true;
    if (rc < 0 && !atomic_load(&fired))
        fail("could not start without a fault", dz_strerror(rc));
    if (rc == 0) {
        ask_everything();
        disarm();
        unsigned long before = answered;
        closed = refused = 0;
        bool had_fired = atomic_exchange(&fired, false);
        ask_everything(); /* all must be right again */
        atomic_store(&fired, had_fired);
        if (answered - before != 19)
            fail("not everything is answered after the fault", "");
        dz_app_stop(app);
        if ((rc = dz_app_wait(app)) < 0)
            fail("could not stop", dz_strerror(rc));
    }
    disarm();
    dz_pool_free(pool);
    dz_app_free(app);
    return atomic_load(&fired);
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < LARGE; i++)
        large_text[i] = (char)('a' + i * i % 23);
    int kind = 0;
    while (kind < KINDS && (argc < 2 || strcmp(argv[1], names[kind]) != 0))
        kind++;
    if (kind == KINDS) {
        fprintf(stderr, "usage: %s KIND\n", argv[0]);
        return 2;
    }
    exempt = true;
    int rounds = 0;
    size_t fds = 0;
    while (round_with_fault((enum kind)kind, rounds)) {
        if (rounds == 0)
            fds = open_descriptors();
        else if (open_descriptors() != fds)
            fail("a descriptor is left open", "");
        rounds++;
    }
    if (rounds == 0)
        fail("was never called", "");
    printf("%s: failed once in each of %d places; %lu requests answered\n", names[kind], rounds,
           answered);
    return 0;
}
