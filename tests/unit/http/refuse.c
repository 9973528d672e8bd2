/* Requests that are answered without a handler. */
#include "rig.h"
#include "../alloc.h"

/* --- the connection is refused --- */

/* Takes a field's value out of the text, so that the rest can be compared. */
static void cut_date(char *text)
{
    char *at = strstr(text, "Date: ");
    assert_non_null(at);
    char *end = strstr(at, "\r\n");
    assert_non_null(end);
    assert_int_equal(end - at, strlen("Date: Sun, 06 Nov 1994 08:49:37 GMT"));
    memmove(at, end + 2, strlen(end + 2) + 1);
}

static void a_refusal_is_a_whole_response_and_the_last(void **state)
{
    (void)state;
    dz_conn_refuse(conn, 431);
    turn();
    char *text = strdup(heard());
    assert_non_null(text);
    assert_true(is_at_end);
    cut_date(text);
    assert_string_equal(text, "HTTP/1.1 431 Request Header Fields Too Large\r\n"
                              "Content-Type: text/plain; charset=utf-8\r\n"
                              "Content-Length: 32\r\n"
                              "Connection: close\r\n\r\n"
                              "Request Header Fields Too Large\n");
    free(text);
    assert_int_equal(refused_count, 1);
    assert_int_equal(refused_status, 431);
    assert_int_equal(atomic_load(&server.stats.bad_requests), 1);
    say(GET);
    assert_int_equal(start_count, 0);
    assert_int_equal(conn->state, DZ_CONN_LINGER); /* the client may still send */
}

static void each_status_has_a_length_that_is_right(void **state)
{
    (void)state;
    static const int statuses[] = {400, 408, 413, 414, 431, 501, 503, 505};
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        dz_conn_refuse(conn, statuses[i]);
        turn();
        const char *text = heard();
        const char *length = strstr(text, "Content-Length: "), *body = strstr(text, "\r\n\r\n");
        assert_true(length && body);
        assert_int_equal(strtoul(length + strlen("Content-Length: "), NULL, 10), strlen(body + 4));
        rig_close();
        rig_open(false);
    }
}

static void what_was_read_is_given_up(void **state)
{
    (void)state;
    say("GET / HTTP/1.1\r\nHos");
    assert_non_null(conn->in);
    dz_conn_refuse(conn, 408);
    assert_null(conn->in);
    assert_int_equal(conn->in_end, 0);
    assert_int_equal(home.free_buffer_count, 1);
}

static void a_service_that_does_not_want_to_know_is_not_told(void **state)
{
    (void)state;
    server.service.refused = NULL;
    dz_conn_refuse(conn, 400);
    turn();
    assert_heard("HTTP/1.1 400 ");
    assert_int_equal(atomic_load(&server.stats.bad_requests), 1);
}

static void without_memory_for_the_words_the_connection_ends_without_them(void **state)
{
    (void)state;
    allocs_left = 0;
    dz_conn_refuse(conn, 400);
    allocs_left = -1;
    assert_int_equal(refused_status, 400);
    dz_conn_advance(conn);
    turn();
    assert_silence();
    assert_true(is_at_end);
}

/* --- the request is rejected --- */

static void reject(dz_request *req)
{
    dz_http_reject(req, 503);
}

static void a_rejected_request_has_ended_and_its_connection_ends(void **state)
{
    (void)state;
    on_request = reject;
    say(GET GET);
    assert_heard("HTTP/1.1 503 ");
    assert_true(is_at_end);
    assert_int_equal(start_count, 1); /* none behind it */
    assert_int_equal(ended_count, 1);
    assert_int_equal(refused_status, 503);
    assert_null(conn->req);
    assert_int_equal(home.free_request_count, 1);
}

/* --- the request is answered --- */

static void refuse_politely(dz_request *req)
{
    req->res.status = 503;
    dz_buf body = dz_buf_borrow(DZ_LIT("later, please"));
    dz_http_answer(req, &body);
}

static void an_answered_request_has_ended_and_its_connection_goes_on(void **state)
{
    (void)state;
    on_request = refuse_politely;
    say(GET);
    assert_heard("HTTP/1.1 503 ");
    assert_false(is_at_end);
    assert_int_equal(ended_count, 1);
    assert_int_equal(refused_count, 0);
    say(GET GET GET);
    assert_int_equal(start_count, 4);
    assert_int_equal(ended_count, 4);
    assert_int_equal(conn->state, DZ_CONN_IDLE);
}

static void write_in_start(dz_request *req)
{
    refuse_politely(req);
    assert_heard("HTTP/1.1 503 ");
}

static void the_answer_need_not_wait_for_the_end_of_the_tick(void **state)
{
    (void)state;
    on_request = write_in_start;
    say(GET);
    assert_int_equal(ended_count, 1);
}

static void the_body_of_an_answered_request_is_dropped(void **state)
{
    (void)state;
    on_request = refuse_politely;
    say("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nab");
    say("cde" GET);
    assert_int_equal(start_count, 2);
    assert_int_equal(refused_count, 0);
}

static void answer_and_close(dz_request *req)
{
    req->res.close_after = true;
    refuse_politely(req);
}

static void an_answer_that_says_close_is_the_last(void **state)
{
    (void)state;
    on_request = answer_and_close;
    say(GET GET);
    assert_non_null(strstr(heard(), "\r\nConnection: close\r\n"));
    assert_true(is_at_end);
    assert_int_equal(start_count, 1);
}

static void answer_what_can_t_be_sent(dz_request *req)
{
    static dz_header bad = {.name = {"X-Bad", 5}, .value = {"a\nb", 3}};
    req->res.status = 503;
    req->res.headers = &bad;
    req->res.header_count = 1;
    dz_buf body = {0};
    assert_int_equal(dz_buf_append(&body, DZ_LIT("a body of its own")), 0);
    dz_http_answer(req, &body);
    assert_null(body.data);
}

static void an_answer_that_can_t_be_made_is_a_refusal(void **state)
{
    (void)state;
    on_request = answer_what_can_t_be_sent;
    say(GET);
    assert_heard("HTTP/1.1 503 Service Unavailable\r\nDate: ");
    assert_true(is_at_end);
    assert_int_equal(refused_status, 503);
    assert_int_equal(ended_count, 1);
}

static void leave_and_answer(dz_request *req)
{
    refuse_politely(req);
    assert_int_equal(conn->state, DZ_CONN_CLOSED);
}

static void a_client_that_left_before_its_answer_is_closed(void **state)
{
    (void)state;
    on_request = leave_and_answer;
    assert_int_equal(send(client, GET, strlen(GET), 0), strlen(GET));
    conn->readable = true;
    assert_true(dz_conn_fill(conn));
    close(client);
    client = -1;
    dz_conn_advance(conn);
    assert_int_equal(ended_count, 1);
    assert_true(was_cut);
    assert_true(is_gone());
}

/* --- a client that asks again and again --- */

/* Refuses one; how long the connection is held back. */
static uint64_t hold_back(void)
{
    dz_request *req = dz_request_new(conn);
    assert_non_null(req);
    conn->held_until = 0;
    dz_http_hold_back(req);
    dz_request_free(req);
    return conn->held_until ? conn->held_until - loop.now : 0;
}

static void who_asks_again_at_once_is_read_ever_more_slowly(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(hold_back(), 0);
    for (uint64_t ms = 1; ms <= 64; ms *= 2) {
        assert_int_equal(hold_back(), ms * DZ_MS);
        loop.now += ms * DZ_MS;
    }
    for (int i = 0; i < 100; i++) {
        assert_int_equal(hold_back(), 64 * DZ_MS);
        loop.now += 64 * DZ_MS;
    }
}

static void who_waits_between_is_never_held_back(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(hold_back(), 0);
        loop.now += 10 * DZ_MS + 1;
    }
}

static void a_pause_of_more_than_what_was_asked_for_is_forgiven(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++)
        loop.now += hold_back();
    assert_int_equal(hold_back(), 8 * DZ_MS); /* it may take twice as long again, and 10 ms */
    loop.now += 26 * DZ_MS;                   /* that is still at once */
    assert_int_equal(hold_back(), 16 * DZ_MS);
    loop.now += 42 * DZ_MS + 1;
    assert_int_equal(hold_back(), 0);
    assert_int_equal(conn->refused_streak, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_refusal_is_a_whole_response_and_the_last),
        TEST(each_status_has_a_length_that_is_right),
        TEST(what_was_read_is_given_up),
        TEST(a_service_that_does_not_want_to_know_is_not_told),
        TEST(without_memory_for_the_words_the_connection_ends_without_them),
        TEST(a_rejected_request_has_ended_and_its_connection_ends),
        TEST(an_answered_request_has_ended_and_its_connection_goes_on),
        TEST(the_answer_need_not_wait_for_the_end_of_the_tick),
        TEST(the_body_of_an_answered_request_is_dropped),
        TEST(an_answer_that_says_close_is_the_last),
        TEST(an_answer_that_can_t_be_made_is_a_refusal),
        TEST(a_client_that_left_before_its_answer_is_closed),
        TEST(who_asks_again_at_once_is_read_ever_more_slowly),
        TEST(who_waits_between_is_never_held_back),
        TEST(a_pause_of_more_than_what_was_asked_for_is_forgiven),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
