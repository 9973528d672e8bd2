/* Connections in states that a client brings about: slow, gone, early, and a server that stops. */
#include "../serve.h"

#include <errno.h>
#include <poll.h>

static void hello(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_text(res, 200, "hello");
}

static char filling[32 << 20]; /* more than the kernel buffers */

static void large(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_borrowed(res, 200, "text/plain", dz_slice_make(filling, sizeof filling));
}

static void body_length(dz_request *req, dz_response *res)
{
    dz_slice body;
    if (dz_req_body(req, &body) == 0)
        dz_send_json(res, 200, "%zu", body.len);
}

static _Atomic bool let_go;
static _Atomic int inside;

static void hold(dz_request *req, dz_response *res)
{
    atomic_fetch_add(&inside, 1);
    while (!atomic_load(&let_go))
        dz_sleep(1);
    dz_send_text(res, 200, dz_req_gone(req) ? "gone" : "held");
    atomic_fetch_sub(&inside, 1);
}

static void sleep_forever(dz_request *req, dz_response *res)
{
    (void)req;
    atomic_fetch_add(&inside, 1);
    int rc = dz_sleep(UINT64_MAX);
    dz_send_error(res, 503, rc);
    atomic_fetch_sub(&inside, 1);
}

static void compute(dz_request *req, dz_response *res)
{
    atomic_fetch_add(&inside, 1);
    while (!atomic_load(&let_go))
        ;
    dz_send_text(res, 200, dz_req_gone(req) ? "gone" : "computed");
    atomic_fetch_sub(&inside, 1);
}

static void address(dz_request *req, dz_response *res)
{
    dz_send_text(res, 200, dz_req_ip(req));
}

static dz_app *make(void)
{
    atomic_store(&let_go, false);
    atomic_store(&inside, 0);
    dz_app *app = dz_app_new();
    dz_get(app, "/", hello);
    dz_get(app, "/large", large);
    dz_post(app, "/length", body_length);
    dz_all(app, "/hold", hold);
    dz_get(app, "/compute", compute);
    dz_get(app, "/forever", sleep_forever);
    dz_get(app, "/ip", address);
    dz_blocking(dz_get(app, "/worker/ip", address));
    assert_non_null(app);
    return app;
}

static void set(dz_app *app, const char *name, const char *value)
{
    assert_int_equal(dz_app_set(app, name, value), 0);
}

/* --- a kernel that is told to refuse (--wrap=dz_send,--wrap=dz_sendmsg) --- */

static _Atomic int send_error;

ssize_t __real_dz_send(int fd, const void *bytes, size_t size);
ssize_t __wrap_dz_send(int fd, const void *bytes, size_t size);
ssize_t __real_dz_sendmsg(int fd, const struct msghdr *message);
ssize_t __wrap_dz_sendmsg(int fd, const struct msghdr *message);

ssize_t __wrap_dz_send(int fd, const void *bytes, size_t size)
{
    errno = atomic_load(&send_error);
    return errno ? -1 : __real_dz_send(fd, bytes, size);
}

ssize_t __wrap_dz_sendmsg(int fd, const struct msghdr *message)
{
    errno = atomic_load(&send_error);
    return errno ? -1 : __real_dz_sendmsg(fd, message);
}

/* --- timers --- */

static void a_reply_that_a_client_takes_slowly_outlives_the_idle_timeout(void **state)
{
    (void)state;
    dz_app *app = make();
    set(app, "idle-timeout", "30ms");
    unsigned port = serve(app);
    int fd = connect_to(port);
    atomic_store(&send_error, ENOBUFS);
    say(fd, GET("/"));
    usleep(150000);
    atomic_store(&send_error, 0);
    assert_reply(hear(fd), 200, "hello");
    assert_true(ended(fd)); /* and from then on it is idle */
    close(fd);
    serve_end(app);
}

static void a_reader_that_takes_nothing_is_cut_though_another_deadline_passed_first(void **state)
{
    (void)state;
    dz_app *app = make();
    set(app, "body-timeout", "50ms");
    set(app, "write-timeout", "200ms");
    unsigned port = serve(app);
    int fd = connect_to(port);
    atomic_store(&send_error, EAGAIN);
    /* A reply that is not taken, behind it a request whose body does not come. */
    say(fd, GET("/") "POST /length HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\n");
    assert_true(ended(fd));
    wait_until(open_connections(app) == 0);
    atomic_store(&send_error, 0);
    close(fd);
    serve_end(app);
}

static void a_send_for_which_the_kernel_had_no_memory_is_tried_again(void **state)
{
    (void)state;
    dz_app *app = make();
    unsigned port = serve(app);
    static const int errors[] = {ENOBUFS, ENOMEM};
    for (int i = 0; i < 2; i++) {
        int fd = connect_to(port);
        atomic_store(&send_error, errors[i]);
        say(fd, GET("/"));
        usleep(50000);
        atomic_store(&send_error, 0);
        assert_reply(hear(fd), 200, "hello");
        say(fd, GET("/"));
        assert_reply(hear(fd), 200, "hello");
        close(fd);
    }
    serve_end(app);
}

/* A connection on which `text` was answered with `status`. Anew, when on a slow machine the
 * header's time had passed before all of it came. */
static int connect_and_ask(unsigned port, const char *text, int status)
{
    for (;;) {
        int fd = connect_to(port);
        if (send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text)) {
            reply got = hear(fd);
            bool in_time = got.status == status;
            assert_true(in_time || got.status == 0 || got.status == 408);
            reply_free(&got);
            if (in_time)
                return fd;
        }
        close(fd);
    }
}

static void a_connection_that_says_nothing_is_closed(void **state)
{
    (void)state;
    dz_app *app = make();
    set(app, "header-timeout", "50ms");
    set(app, "idle-timeout", "50ms");
    unsigned port = serve(app);
    int silent = connect_to(port), once = connect_and_ask(port, GET("/"), 200),
        half = connect_and_ask(port, "GET / HTTP/1.1\r\n", 408);
    assert_true(ended(silent) && ended(once) && ended(half));
    close(silent);
    close(once);
    close(half);
    wait_until(open_connections(app) == 0);
    serve_end(app);
}

/* --- early answers --- */

/* Sends until nothing more goes in for a while; returns how much. */
static size_t fill(int fd)
{
    static const char piece[64 << 10];
    size_t sent = 0;
    struct pollfd writable = {.fd = fd, .events = POLLOUT};
    while (poll(&writable, 1, 200) > 0) {
        ssize_t n = send(fd, piece, sizeof piece, MSG_NOSIGNAL | MSG_DONTWAIT);
        assert_true(n > 0);
        sent += (size_t)n;
    }
    return sent;
}

/* The answer comes when the client has filled every buffer: nothing that it sends later tells the
 * server that there is something to drop. */
static void a_client_that_is_refused_in_mid_upload_can_finish_and_read_the_refusal(void **state)
{
    (void)state;
    dz_app *app = make();
    unsigned port = serve(app);
    enum { SIZE = 15 << 20 };
    int fd = connect_to(port), small = 64 << 10;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    char head[128];
    snprintf(head, sizeof head, "POST /hold HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n",
             SIZE);
    say(fd, head);
    size_t sent = fill(fd);
    assert_true(sent < SIZE);
    atomic_store(&let_go, true);
    static const char rest[SIZE];
    while (sent < SIZE) {
        ssize_t n = send(fd, rest, SIZE - sent, MSG_NOSIGNAL);
        assert_true(n > 0);
        sent += (size_t)n;
    }
    reply got = hear(fd);
    assert_int_equal(got.status, 200);
    assert_true(reply_has(&got, "Connection: close"));
    reply_free(&got);
    assert_true(ended(fd));
    close(fd);
    serve_end(app);
}

/* --- vanishing --- */

static void reset(int fd)
{
    struct linger now = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

static void a_client_gone_in_mid_request_is_noticed_and_nothing_is_left(void **state)
{
    (void)state;
    dz_app *app = make();
    unsigned port = serve(app);
    const char *const paths[] = {GET("/hold"), GET("/compute")};
    for (int way = 0; way < 4; way++) {
        atomic_store(&let_go, false);
        int fd = connect_to(port);
        say(fd, paths[way % 2]);
        wait_until(atomic_load(&inside) == 1);
        if (way < 2)
            close(fd);
        else
            reset(fd);
        /* The loop goes on meanwhile, also when the handler has its thread. */
        assert_reply(ask(port, GET("/")), 200, "hello");
        atomic_store(&let_go, true);
        wait_until(atomic_load(&inside) == 0);
        wait_until(open_connections(app) == 0);
    }
    serve_end(app);
}

/* --- stopping --- */

static void a_drain_answers_what_runs_and_closes_what_rests(void **state)
{
    (void)state;
    dz_app *app = make();
    unsigned port = serve(app);
    int busy = connect_to(port), computing = connect_to(port), idle = connect_to(port),
        half = connect_to(port), fresh = connect_to(port);
    say(idle, GET("/"));
    assert_reply(hear(idle), 200, "hello");
    say(busy, GET("/hold"));
    say(computing, GET("/compute"));
    say(half, "GET / HTTP/1.1\r\n");
    wait_until(atomic_load(&inside) == 2);
    wait_until(open_connections(app) == 5);
    dz_app_stop(app);
    assert_true(ended(idle));
    say(half, "Host: test\r\n\r\n");
    say(fresh, GET("/"));
    const int late[] = {half, fresh};
    for (int i = 0; i < 2; i++) {
        reply got = hear(late[i]);
        assert_int_equal(got.status, 200);
        assert_true(reply_has(&got, "Connection: close"));
        assert_true(ended(late[i]));
        reply_free(&got);
    }
    atomic_store(&let_go, true);
    const int held[] = {busy, computing};
    for (int i = 0; i < 2; i++) {
        reply got = hear(held[i]);
        assert_int_equal(got.status, 200);
        assert_true(reply_has(&got, "Connection: close"));
        assert_true(ended(held[i]));
        reply_free(&got);
    }
    assert_int_equal(dz_app_wait(app), 0);
    for (int i = 0; i < 2; i++) {
        close(late[i]);
        close(held[i]);
    }
    close(idle);
    dz_app_free(app);
}

static void a_request_that_has_arrived_when_the_drain_begins_is_answered(void **state)
{
    (void)state;
    dz_app *app = make();
    set(app, "rescue-after", "0");
    unsigned port = serve(app);
    int busy = connect_to(port), idle = connect_to(port);
    say(idle, GET("/"));
    assert_reply(hear(idle), 200, "hello");
    /* While the only thread computes, first the request arrives and then the order to stop. */
    say(busy, GET("/compute"));
    wait_until(atomic_load(&inside) == 1);
    say(idle, GET("/"));
    wait_until(arrived(idle));
    dz_app_stop(app);
    atomic_store(&let_go, true);
    assert_reply(hear(busy), 200, "computed");
    reply got = hear(idle);
    assert_int_equal(got.status, 200);
    assert_true(reply_has(&got, "Connection: close"));
    reply_free(&got);
    assert_true(ended(idle));
    close(busy);
    close(idle);
    assert_int_equal(dz_app_wait(app), 0);
    dz_app_free(app);
}

static void stopping_twice_is_stopping_once(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        dz_app *app = make();
        set(app, "loops", "3");
        (void)serve(app);
        for (int j = 0; j < 5; j++)
            dz_app_stop(app);
        assert_int_equal(dz_app_wait(app), 0);
        assert_int_equal(dz_app_wait(app), 0);
        dz_app_free(app);
    }
}

static void after_the_drain_timeout_what_waits_is_cut(void **state)
{
    (void)state;
    dz_app *app = make();
    set(app, "drain-timeout", "50ms");
    unsigned port = serve(app);
    int half = connect_to(port), slow = connect_small(port, 4096), computing = connect_to(port);
    say(half, "POST /length HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\n12");
    say(slow, GET("/large"));
    say(computing, GET("/compute"));
    wait_until(atomic_load(&inside) == 1);
    wait_until(open_connections(app) == 3);
    dz_app_stop(app);
    assert_int_equal(dz_app_wait(app), DZ_E_TIMEOUT); /* the handler still computes */
    assert_true(ended(computing));
    atomic_store(&let_go, true);
    assert_int_equal(dz_app_wait(app), 0);
    close(half);
    close(slow);
    close(computing);
    dz_app_free(app);
}

static void a_sleeping_handler_comes_back_when_it_is_cut(void **state)
{
    (void)state;
    dz_app *app = make();
    set(app, "drain-timeout", "50ms");
    unsigned port = serve(app);
    int fd = connect_to(port);
    say(fd, GET("/forever"));
    wait_until(atomic_load(&inside) == 1);
    dz_app_stop(app);
    assert_int_equal(dz_app_wait(app), 0);
    close(fd);
    dz_app_free(app);
}

/* --- the peer's address --- */

static void the_clients_address_is_known_wherever_the_handler_runs(void **state)
{
    (void)state;
    dz_app *app = make();
    unsigned port = serve(app);
    assert_reply(ask(port, GET("/ip")), 200, "127.0.0.1");
    assert_reply(ask(port, GET("/worker/ip")), 200, "127.0.0.1");
    /* A client that has said all is still there. */
    int fd = connect_to(port);
    say(fd, GET("/worker/ip"));
    shutdown(fd, SHUT_WR);
    assert_reply(hear(fd), 200, "127.0.0.1");
    close(fd);
    serve_end(app);
}

/* --- workers --- */

static void freeing_an_app_waits_for_the_workers_that_still_hand_back(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        dz_app *app = make();
        unsigned port = serve(app);
        int fd = connect_to(port);
        say(fd, GET("/worker/ip"));
        dz_app_stop(app);
        reply got = hear(fd); /* answered, or closed before it was read */
        reply_free(&got);
        close(fd);
        assert_int_equal(dz_app_wait(app), 0);
        dz_app_free(app);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_that_a_client_takes_slowly_outlives_the_idle_timeout),
        cmocka_unit_test(a_reader_that_takes_nothing_is_cut_though_another_deadline_passed_first),
        cmocka_unit_test(a_send_for_which_the_kernel_had_no_memory_is_tried_again),
        cmocka_unit_test(a_connection_that_says_nothing_is_closed),
        cmocka_unit_test(a_client_that_is_refused_in_mid_upload_can_finish_and_read_the_refusal),
        cmocka_unit_test(a_client_gone_in_mid_request_is_noticed_and_nothing_is_left),
        cmocka_unit_test(a_drain_answers_what_runs_and_closes_what_rests),
        cmocka_unit_test(a_request_that_has_arrived_when_the_drain_begins_is_answered),
        cmocka_unit_test(stopping_twice_is_stopping_once),
        cmocka_unit_test(after_the_drain_timeout_what_waits_is_cut),
        cmocka_unit_test(a_sleeping_handler_comes_back_when_it_is_cut),
        cmocka_unit_test(the_clients_address_is_known_wherever_the_handler_runs),
        cmocka_unit_test(freeing_an_app_waits_for_the_workers_that_still_hand_back),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
