/* What becomes of a connection when its handler is done. */
#include "rig.h"

/* --- it goes on --- */

static void a_reply_alone_is_written_at_once_and_the_connection_waits_for_more(void **state)
{
    (void)state;
    say(GET);
    assert_int_equal(conn->state, DZ_CONN_HELD);
    answer_and_finish(started);
    assert_heard(OK); /* before the tick ends */
    assert_false(is_at_end);
    assert_int_equal(ended_count, 1);
    assert_null(conn->req);
    assert_int_equal(conn->state, DZ_CONN_IDLE);
    say(GET);
    assert_int_equal(start_count, 2);
    answer_and_finish(started);
    assert_heard(OK);
}

static void with_another_request_under_way_the_replies_go_together(void **state)
{
    (void)state;
    say(GET GET);
    assert_int_equal(start_count, 1); /* one handler at a time */
    answer_and_finish(started);
    assert_int_equal(start_count, 2);
    assert_int_equal(conn->state, DZ_CONN_HELD);
    assert_silence();
    turn();
    assert_heard(OK);
    answer_and_finish(started);
    assert_heard(OK);
    assert_int_equal(ended_count, 2);
}

static void a_body_nobody_read_is_dropped_before_the_next_request(void **state)
{
    (void)state;
    say("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nab");
    answer_and_finish(started);
    assert_heard(OK);
    say("cde" GET);
    assert_int_equal(start_count, 2);
    assert_int_equal(started->head.method, DZ_GET);
    assert_int_equal(refused_count, 0);
    answer_and_finish(started);
    assert_heard(OK);
}

/* --- it ends --- */

static void after_the_last_reply_the_client_has_its_end(void **state)
{
    (void)state;
    say("GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    answer_and_finish(started);
    const char *text = heard();
    assert_non_null(strstr(text, "\r\nConnection: close\r\n"));
    assert_non_null(strstr(text, "\r\n\r\nhello"));
    assert_true(is_at_end);
}

static void a_body_of_unknown_length_that_nobody_read_ends_the_connection(void **state)
{
    (void)state;
    say("POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    answer_and_finish(started);
    assert_heard(OK);
    assert_true(is_at_end);
    assert_int_equal(conn->state, DZ_CONN_LINGER); /* the rest of it may be on its way */
}

/* The response lacks its end, and nothing after it could be told from it. */
static void an_unfinished_response_is_the_last(void **state)
{
    (void)state;
    say(GET GET);
    started->res.state = DZ_RESPONSE_STREAMING;
    started->res.chunked = true;
    started->res.broken = true;
    dz_conn_queue(conn, dz_out_copy(DZ_LIT("HTTP/1.1 200 OK\r\n\r\n3\r\nabc\r\n")));
    dz_http_finish(started);
    turn();
    assert_string_equal(heard(), "HTTP/1.1 200 OK\r\n\r\n3\r\nabc\r\n");
    assert_true(is_at_end);
    assert_int_equal(start_count, 1);
}

/* Its end would be the connection's: an ordinary one would say that this was all. */
static void a_body_that_ends_with_the_connection_and_lost_a_piece_is_reset(void **state)
{
    (void)state;
    assert_int_equal(send(client, GET, strlen(GET), 0), strlen(GET));
    wait_until((turn(), start_count == 1));
    started->res.state = DZ_RESPONSE_STREAMING;
    started->res.broken = true;
    dz_http_finish(started);
    assert_int_equal(ended_count, 1);
    char byte;
    assert_int_equal(recv(client, &byte, 1, 0), -1);
    assert_int_equal(errno, ECONNRESET);
    assert_true(is_gone());
}

static void a_client_that_left_meanwhile_costs_nothing_more(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        say(GET);
        dz_request *req = started;
        assert_false(atomic_load(&req->gone));
        hang_up();
        assert_true(atomic_load(&req->gone));
        turn();
        assert_int_equal(home.conn_count, 1); /* the handler still has its request */
        if (way == 0)
            answer(req, "nobody reads this");
        dz_http_finish(req);
        assert_int_equal(ended_count, 1);
        assert_true(way > 0 || was_cut);
        assert_true(is_gone());
        if (way == 0) {
            rig_close();
            rig_open(false);
        }
    }
}

static void a_connection_closed_under_a_broken_response_is_not_closed_twice(void **state)
{
    (void)state;
    say(GET);
    started->res.state = DZ_RESPONSE_STREAMING;
    started->res.broken = true;
    dz_conn_close(conn);
    turn();
    assert_int_equal(home.conn_count, 1);
    dz_http_finish(started);
    assert_int_equal(ended_count, 1);
    assert_int_equal(home.conn_count, 0);
}

/* --- asked to end it --- */

static void a_connection_is_ended_with_its_response_when_that_is_wanted(void **state)
{
    (void)state;
    say(GET);
    assert_true(dz_http_close_after(started));
    answer_and_finish(started);
    assert_non_null(strstr(heard(), "\r\nConnection: close\r\n"));
    assert_true(is_at_end);
    assert_true(is_gone());
}

static void not_when_the_client_has_asked_for_more_already(void **state)
{
    (void)state;
    say(GET GET);
    assert_false(dz_http_close_after(started));
    answer_and_finish(started);
    assert_int_equal(start_count, 2);
    turn();
    assert_null(strstr(heard(), "Connection: close"));
}

static void what_follows_may_be_its_own_body(void **state)
{
    (void)state;
    say("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nhello");
    assert_true(dz_http_close_after(started));
    answer_and_finish(started);
    assert_non_null(strstr(heard(), "\r\nConnection: close\r\n"));
    assert_true(is_at_end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_reply_alone_is_written_at_once_and_the_connection_waits_for_more),
        TEST(with_another_request_under_way_the_replies_go_together),
        TEST(a_body_nobody_read_is_dropped_before_the_next_request),
        TEST(after_the_last_reply_the_client_has_its_end),
        TEST(a_body_of_unknown_length_that_nobody_read_ends_the_connection),
        TEST(an_unfinished_response_is_the_last),
        cmocka_unit_test_setup_teardown(
            a_body_that_ends_with_the_connection_and_lost_a_piece_is_reset, set_up_tcp, tear_down),
        TEST(a_client_that_left_meanwhile_costs_nothing_more),
        TEST(a_connection_closed_under_a_broken_response_is_not_closed_twice),
        TEST(a_connection_is_ended_with_its_response_when_that_is_wanted),
        TEST(not_when_the_client_has_asked_for_more_already),
        TEST(what_follows_may_be_its_own_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
