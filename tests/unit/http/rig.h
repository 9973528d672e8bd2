/* rig.h: one connection on a loop that the test turns by hand. The clock is the test's, the client
 * is the other end of a socket, and the service only notes what it is told. */
#ifndef DZ_TESTS_HTTP_RIG_H
#define DZ_TESTS_HTTP_RIG_H

#include "../check.h"
#include "../wait.h"

#include "http/conn.h"
#include "loop/turn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

static dz_loop loop;
static dz_server server;
static dz_server_loop home;
static dz_conn *conn; /* stays as a pointer when the connection is gone: see is_gone */
static int client;

static dz_request *started; /* the last request begun */
static int start_count, refused_count, refused_status, ended_count;
static bool was_cut;                        /* the last that ended */
static void (*on_request)(dz_request *req); /* from service->start; NULL: only noted */

static inline void rig_start(void *context, dz_request *req)
{
    (void)context;
    started = req;
    start_count++;
    if (on_request)
        on_request(req);
}

static inline void rig_refused(void *context, int status)
{
    (void)context;
    refused_count++;
    refused_status = status;
}

static inline void rig_ended(void *context, dz_request *req)
{
    (void)context;
    ended_count++;
    was_cut = req->cut;
}

/* A unix socket passes on at once what is written; TCP also tells a reset from an end. */
static inline void rig_pair(bool tcp, int fds[2])
{
    if (!tcp) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        return;
    }
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fds[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0 && fds[1] >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    assert_int_equal(connect(fds[1], (struct sockaddr *)&at, sizeof at), 0);
    fds[0] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fds[0] >= 0);
    close(listener);
}

static inline void rig_open(bool tcp)
{
    int fds[2];
    memset(&server, 0, sizeof server);
    memset(&home, 0, sizeof home);
    started = NULL;
    start_count = refused_count = refused_status = ended_count = 0;
    on_request = NULL;
    assert_int_equal(dz_loop_init(&loop, NULL, 0, 64 << 10), 0);
    dz_server_options_init(&server.options);
    server.service = (dz_service){.start = rig_start, .refused = rig_refused, .ended = rig_ended};
    server.loops = &home;
    server.loop_count = 1;
    home.server = &server;
    home.loop = &loop;
    dz_list_init(&home.conns);
    dz_list_init(&home.free_requests);
    dz_turn_init(&home);
    atomic_store(&home.open, 1);
    atomic_store(&server.stats.open, 1);
    rig_pair(tcp, fds);
    client = fds[1];
    assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    dz_conn_open(&home, fds[0]);
    assert_int_equal(home.conn_count, 1);
    conn = DZ_CONTAINER(home.conns.next, dz_conn, link);
}

/* One turn of the loop, as dz_loop_carry makes it: but nothing waits, and time stands still. */
static inline void turn(void)
{
    atomic_fetch_add(&loop.stats.ticks, 1);
    dz_loop_run_inbox(&loop);
    dz_loop_run_timers(&loop);
    int count = epoll_wait(loop.epoll_fd, loop.events, DZ_LOOP_BATCH, 0);
    loop.event_count = count > 0 ? count : 0;
    for (loop.event_next = 0; loop.event_next < loop.event_count;) {
        const struct epoll_event *event = &loop.events[loop.event_next++];
        dz_watch *watch = event->data.ptr;
        if (watch)
            watch->fn(&loop, watch, event->events);
    }
    dz_loop_run_deferred(&loop);
}

static inline void pass(uint64_t ns)
{
    loop.now += ns;
    turn();
}

static inline bool is_gone(void)
{
    turn(); /* a closed one is freed in the next turn */
    return home.conn_count == 0;
}

static inline void rig_close(void)
{
    if (!is_gone()) {
        dz_conn_close(conn);
        if (conn->req) { /* a handler that the test left running */
            conn->req->handler_done = true;
            dz_request_free(conn->req);
            conn->req = NULL;
        }
        assert_true(is_gone());
    }
    assert_int_equal(atomic_load(&server.stats.open), 0);
    assert_int_equal(loop.timers_reserved, 0);
    for (dz_list *link; (link = dz_list_shift(&home.free_requests));)
        free(DZ_CONTAINER(link, dz_request, link));
    while (home.free_buffer_count > 0)
        free(home.free_buffers[--home.free_buffer_count]);
    if (client >= 0)
        close(client);
    dz_loop_close(&loop);
}

static inline int set_up(void **state)
{
    (void)state;
    rig_open(false);
    return 0;
}

static inline int set_up_tcp(void **state)
{
    (void)state;
    rig_open(true);
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    rig_close();
    return 0;
}

/* --- the client --- */

static inline void say(const char *text)
{
    size_t len = strlen(text);
    assert_int_equal(send(client, text, len, MSG_NOSIGNAL), len);
    turn();
}

static inline void hang_up(void)
{
    close(client);
    client = -1;
    turn();
}

/* What has come up to now; is_at_end, if there is no more. */
static bool is_at_end;

static inline const char *heard(void)
{
    static char text[256 << 10];
    size_t len = 0;
    ssize_t n;
    while ((n = recv(client, text + len, sizeof text - 1 - len, MSG_DONTWAIT)) > 0)
        len += (size_t)n;
    is_at_end = n == 0;
    assert_true(n == 0 || errno == EAGAIN);
    text[len] = '\0';
    return text;
}

#define assert_heard(expected)                                                                     \
    do {                                                                                           \
        const char *heard_ = heard();                                                              \
        if (strncmp(heard_, expected, strlen(expected)) != 0)                                      \
            fail_msg("heard \"%s\" instead of \"%s\"", heard_, expected);                          \
    } while (0)

#define assert_silence() assert_string_equal(heard(), "")

/* --- the handler --- */

/* What a handler did that answered this request with `text`. */
static inline void answer(dz_request *req, const char *text)
{
    req->res.status = 200;
    dz_buf body = dz_buf_borrow(dz_slice_of(text));
    assert_int_equal(dz_http_reply_here(req, &body), 0);
}

static inline void answer_and_finish(dz_request *req)
{
    answer(req, "hello");
    dz_http_finish(req);
}

#define GET "GET / HTTP/1.1\r\nHost: test\r\n\r\n"
#define OK  "HTTP/1.1 200 OK\r\n"

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
