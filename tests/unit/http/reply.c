/* Responses on their way from the handler to the connection: their pieces, and what becomes of them
 * without memory or client. */
#include "../serve.h"
#include "../alloc.h"

#include "http/conn.h"

enum { INSIDE = 16 << 10 }; /* a body up to this goes out in one piece with its head */

static dz_app *app;
static unsigned port;
static char filling[1 << 20];
static _Atomic int results[4];
static _Atomic bool over;

static size_t number(dz_request *req, const char *name)
{
    char text[24] = {0};
    dz_slice value = dz_req_param(req, name);
    memcpy(text, value.ptr, value.len < sizeof text - 1 ? value.len : sizeof text - 1);
    return strtoul(text, NULL, 10);
}

/* --- handlers --- */

static void send_bytes(dz_request *req, dz_response *res)
{
    size_t len = number(req, "n");
    dz_send_bytes(res, 200, "text/plain", dz_slice_make(filling, len));
    dz_res_header(res, "X-Late", "1");
}

static void send_status(dz_request *req, dz_response *res)
{
    dz_send_text(res, (int)number(req, "code"), "a body");
}

/* Nothing of what this thread's allocator is asked for while it is off. */
#define without_memory(call) (allocs_left = 0, results_of = (call), allocs_left = -1, results_of)

/* Headers that leave no room in the request's first block. */
static void fill_arena(dz_request *req)
{
    while (req->arena.end - req->arena.next >= 64)
        assert_non_null(dz_arena_alloc(&req->arena, 64));
}

static void no_memory_for_the_head(dz_request *req, dz_response *res)
{
    int results_of;
    fill_arena(req);
    atomic_store(&results[0], without_memory(dz_send_text(res, 200, "lost")));
    atomic_store(&results[1], dz_res_sent(res));
    dz_send_text(res, 201, "sent");
}

static void no_memory_for_a_stream(dz_request *req, dz_response *res)
{
    (void)req;
    int results_of;
    atomic_store(&results[0], without_memory(dz_stream(res, 200, "text/plain")));
    dz_send_text(res, 201, "sent");
}

static void no_memory_in_a_stream(dz_request *req, dz_response *res)
{
    (void)req;
    int results_of;
    dz_stream(res, 200, "text/plain");
    dz_write(res, DZ_LIT("first"));
    atomic_store(&results[0], without_memory(dz_write(res, DZ_LIT("lost"))));
    atomic_store(&results[1], dz_write(res, DZ_LIT("third"))); /* or it would look whole */
    atomic_store(&results[2], dz_end(res));
    atomic_store(&over, true);
}

static void stream_until_it_fails(dz_request *req, dz_response *res)
{
    (void)req;
    int rc = dz_stream(res, 200, "text/plain");
    while (rc == 0)
        rc = dz_write(res, dz_slice_make(filling, sizeof filling));
    atomic_store(&results[0], rc);
    atomic_store(&results[1], dz_write(res, DZ_LIT("more")));
    atomic_store(&over, true);
}

static void in_the_wrong_order(dz_request *req, dz_response *res)
{
    dz_list pieces;
    dz_list_init(&pieces);
    dz_stream(res, 200, "text/plain");
    atomic_store(&results[0], dz_http_reply(req, NULL));
    atomic_store(&results[1], dz_http_reply_here(req, NULL));
    atomic_store(&results[2], dz_http_reply_pieces(req, 0, &pieces));
    dz_write(res, DZ_LIT("x"));
    dz_end(res);
    atomic_store(&results[3], dz_http_write(req, DZ_LIT("y")));
}

static int set_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof filling; i++)
        filling[i] = (char)('a' + i % 26);
    app = dz_app_new();
    dz_app_set(app, "rescue-after", "0"); /* so that a handler stays on one thread */
    dz_app_set(app, "write-timeout", "1h");
    dz_get(app, "/bytes/:n", send_bytes);
    dz_get(app, "/status/:code", send_status);
    dz_get(app, "/no-memory/head", no_memory_for_the_head);
    dz_get(app, "/no-memory/stream", no_memory_for_a_stream);
    dz_get(app, "/no-memory/write", no_memory_in_a_stream);
    dz_get(app, "/endless", stream_until_it_fails);
    dz_get(app, "/wrong", in_the_wrong_order);
    port = serve(app);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    serve_end(app);
    return 0;
}

static int reset(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++)
        atomic_store(&results[i], 1);
    atomic_store(&over, false);
    return 0;
}

/* --- tests --- */

static void a_body_is_whole_whether_it_goes_with_its_head_or_behind_it(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, INSIDE - 1, INSIDE, INSIDE + 1, 300000, sizeof filling};
    int fd = connect_to(port);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char request[100];
        snprintf(request, sizeof request, GET("/bytes/%zu"), sizes[i]);
        say(fd, request);
        reply got = hear(fd);
        assert_int_equal(got.status, 200);
        assert_int_equal(got.len, sizes[i]);
        assert_memory_equal(got.body, filling, sizes[i]);
        assert_null(strstr(got.head, "X-Late"));
        reply_free(&got);
    }
    close(fd);
}

static void pipelined_small_and_large_bodies_keep_their_order(void **state)
{
    (void)state;
    int fd = connect_to(port);
    say(fd, GET("/bytes/40000") GET("/bytes/3") GET("/bytes/16384") GET("/bytes/0")
                GET("/bytes/16385"));
    static const size_t sizes[] = {40000, 3, 16384, 0, 16385};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        reply got = hear(fd);
        assert_int_equal(got.len, sizes[i]);
        assert_memory_equal(got.body, filling, sizes[i]);
        reply_free(&got);
    }
    close(fd);
}

static void a_head_request_gets_the_length_and_no_byte_of_the_body(void **state)
{
    (void)state;
    int fd = connect_to(port);
    say(fd, REQUEST("HEAD", "/bytes/40000") REQUEST("HEAD", "/bytes/3") GET("/bytes/3"));
    reply large = hear_reply(fd, true), small = hear_reply(fd, true);
    assert_true(reply_has(&large, "Content-Length: 40000"));
    assert_true(reply_has(&small, "Content-Length: 3"));
    reply_free(&large);
    reply_free(&small);
    assert_reply(hear(fd), 200, "abc");
    close(fd);
}

static void statuses_without_a_body_have_none_and_the_connection_goes_on(void **state)
{
    (void)state;
    int fd = connect_to(port);
    static const char *const requests[] = {GET("/status/204"), GET("/status/304")};
    for (size_t i = 0; i < 2; i++) {
        say(fd, requests[i]);
        say(fd, GET("/bytes/3"));
        reply got = hear(fd);
        assert_int_equal(got.status, i == 0 ? 204 : 304);
        assert_null(strstr(got.head, "Content-Length"));
        assert_null(strstr(got.head, "Transfer-Encoding"));
        reply_free(&got);
        assert_reply(hear(fd), 200, "abc");
    }
    close(fd);
}

static void
without_memory_for_the_head_nothing_was_sent_and_there_can_be_another_answer(void **state)
{
    (void)state;
    int fd = connect_to(port);
    say(fd, GET("/no-memory/head") GET("/bytes/3"));
    assert_reply(hear(fd), 201, "sent");
    assert_reply(hear(fd), 200, "abc");
    assert_int_equal(atomic_load(&results[0]), DZ_E_NOMEM);
    assert_int_equal(atomic_load(&results[1]), 0);
    say(fd, GET("/no-memory/stream") GET("/bytes/3"));
    assert_reply(hear(fd), 201, "sent");
    assert_reply(hear(fd), 200, "abc");
    assert_int_equal(atomic_load(&results[0]), DZ_E_NOMEM);
    close(fd);
}

static void a_stream_that_lost_a_piece_never_looks_whole(void **state)
{
    (void)state;
    int fd = connect_to(port);
    say(fd, GET("/no-memory/write") GET("/bytes/3"));
    char all[4096];
    size_t len = 0;
    for (ssize_t n; (n = recv(fd, all + len, sizeof all - 1 - len, 0)) > 0;)
        len += (size_t)n;
    all[len] = '\0';
    assert_non_null(strstr(all, "\r\n5\r\nfirst\r\n"));
    assert_null(strstr(all, "lost"));
    assert_null(strstr(all, "third"));
    assert_null(strstr(all, "\r\n0\r\n\r\n")); /* which would end it */
    assert_null(strstr(all, "abc"));           /* nor is anything sent behind it */
    wait_until(atomic_load(&over));
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(atomic_load(&results[i]), DZ_E_NOMEM);
    close(fd);
}

static void a_stream_whose_client_has_gone_tells_its_handler(void **state)
{
    (void)state;
    int fd = connect_small(port, 4096);
    say(fd, GET("/endless"));
    char byte;
    assert_true(hear_byte(fd, &byte)); /* it has begun, and will wait for us */
    close(fd);
    wait_until(atomic_load(&over));
    assert_int_equal(atomic_load(&results[0]), DZ_E_CLOSED);
    assert_int_equal(atomic_load(&results[1]), DZ_E_CLOSED);
    wait_until(open_connections(app) == 0);
}

static void a_response_that_has_begun_can_t_begin_again(void **state)
{
    (void)state;
    assert_reply(ask(port, GET("/wrong")), 200, "x");
    wait_until(atomic_load(&results[3]) != 1); /* the handler goes on after its end */
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(atomic_load(&results[i]), DZ_E_STATE);
}

static void an_old_client_is_told_how_the_body_ends(void **state)
{
    (void)state;
    int fd = connect_to(port);
    say(fd, "GET /bytes/3 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    reply got = hear(fd);
    assert_true(reply_has(&got, "Connection: keep-alive"));
    assert_true(reply_has(&got, "Content-Length: 3"));
    reply_free(&got);
    say(fd, "GET /bytes/3 HTTP/1.0\r\n\r\n");
    got = hear(fd);
    assert_true(reply_has(&got, "Connection: close"));
    reply_free(&got);
    assert_true(ended(fd));
    close(fd);
}

#define TEST(name) cmocka_unit_test_setup(name, reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_body_is_whole_whether_it_goes_with_its_head_or_behind_it),
        TEST(pipelined_small_and_large_bodies_keep_their_order),
        TEST(a_head_request_gets_the_length_and_no_byte_of_the_body),
        TEST(statuses_without_a_body_have_none_and_the_connection_goes_on),
        TEST(without_memory_for_the_head_nothing_was_sent_and_there_can_be_another_answer),
        TEST(a_stream_that_lost_a_piece_never_looks_whole),
        TEST(a_stream_whose_client_has_gone_tells_its_handler),
        TEST(a_response_that_has_begun_can_t_begin_again),
        TEST(an_old_client_is_told_how_the_body_ends),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
