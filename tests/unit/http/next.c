/* From the bytes of a connection to its next request: on a connection whose clock is the test's. */
#include "rig.h"
#include "../alloc.h"

static const uint64_t HEADER_NS = 10 * DZ_SEC, IDLE_NS = 60 * DZ_SEC;

/* --- a head --- */

static void a_request_begins_when_its_head_is_complete(void **state)
{
    (void)state;
    for (const char *at = GET; *at; at++) {
        assert_int_equal(start_count, 0);
        say((const char[]){*at, '\0'});
    }
    assert_int_equal(start_count, 1);
    assert_ptr_equal(conn->req, started);
    assert_slice(started->head.path, "/");
    assert_int_equal(conn->state, DZ_CONN_HELD);
    assert_int_equal(conn->in_start, strlen(GET));
    assert_int_equal(started->started, loop.now);
    assert_int_equal(atomic_load(&home.requests), 1);
}

static void requests_are_told_apart_by_their_ids(void **state)
{
    (void)state;
    server.loop_count = 4; /* this loop is the first of them */
    on_request = answer_and_finish;
    say(GET);
    uint64_t first = home.next_id * 4;
    say(GET GET);
    assert_int_equal(start_count, 3);
    assert_int_equal(started->id, first + (uint64_t)2 * 4);
    assert_int_equal(atomic_load(&home.requests), 3);
}

static void what_is_no_request_is_refused_with_its_status_and_ends_the_connection(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int status;
    } bad[] = {
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {"no request at all\r\n\r\n", 400},
        {"GET / HTTP/3.0\r\nHost: test\r\n\r\n", 505},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        say(bad[i].text);
        char line[32];
        snprintf(line, sizeof line, "HTTP/1.1 %d ", bad[i].status);
        assert_heard(line);
        assert_true(is_at_end);
        assert_int_equal(refused_count, 1);
        assert_int_equal(refused_status, bad[i].status);
        assert_int_equal(start_count, 0);
        rig_close();
        rig_open(false);
    }
}

static void behind_a_request_that_is_refused_none_is_read(void **state)
{
    (void)state;
    say("GET / HTTP/1.1\r\n\r\n" GET);
    assert_int_equal(start_count, 0);
    say(GET);
    assert_int_equal(start_count, 0);
    assert_int_equal(refused_count, 1);
}

static void without_memory_for_a_request_its_connection_ends(void **state)
{
    (void)state;
    assert_int_equal(send(client, GET, strlen(GET), 0), strlen(GET));
    conn->readable = true;
    assert_true(dz_conn_fill(conn));
    allocs_left = 0;
    bool again = dz_conn_step(conn);
    allocs_left = -1;
    assert_true(again);
    assert_int_equal(refused_status, 503);
    assert_int_equal(start_count, 0);
    dz_conn_advance(conn);
    assert_silence(); /* there was no memory for the words, either: at least there is an end */
    assert_true(is_at_end);
}

/* --- which times run --- */

static void a_head_has_its_time_from_the_first_byte_and_more_bytes_do_not_extend_it(void **state)
{
    (void)state;
    on_request = answer_and_finish;
    say(GET);
    assert_heard(OK);
    pass(IDLE_NS - 1);
    say("GET / HTTP/1.1\r\n");
    uint64_t due = conn->deadline;
    assert_int_equal(due, loop.now + HEADER_NS);
    for (int i = 0; i < 9; i++) {
        pass(DZ_SEC);
        say("X: y\r\n");
        assert_int_equal(conn->deadline, due);
    }
    assert_int_equal(conn->state, DZ_CONN_HEAD);
    pass(DZ_SEC);
    assert_heard("HTTP/1.1 408 ");
    assert_true(is_at_end);
}

static void the_first_request_has_its_time_from_the_connection_on(void **state)
{
    (void)state;
    uint64_t due = loop.now + HEADER_NS;
    pass(HEADER_NS / 2);
    say("GET / HTTP/1.1\r\n");
    assert_int_equal(conn->deadline, due);
    pass(HEADER_NS / 2);
    assert_heard("HTTP/1.1 408 ");
}

static void a_request_under_way_has_no_deadline_and_a_rest_has_its_own(void **state)
{
    (void)state;
    say(GET);
    assert_int_equal(conn->deadline, UINT64_MAX);
    pass(1000 * DZ_SEC);
    answer_and_finish(started);
    assert_heard(OK);
    turn(); /* its socket tells that there is room again */
    assert_int_equal(conn->deadline, loop.now + IDLE_NS);
    assert_null(conn->in); /* an idle connection holds no buffer */
    pass(IDLE_NS - 1);
    assert_silence();
    assert_false(is_at_end);
    pass(1);
    assert_silence();
    assert_true(is_at_end);
    assert_true(is_gone());
}

/* --- one after the other --- */

static void pipelined_requests_begin_one_after_the_other(void **state)
{
    (void)state;
    say(GET GET GET);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(start_count, i);
        turn();
        assert_int_equal(start_count, i);
        answer_and_finish(started);
    }
    turn();
    assert_int_equal(start_count, 3);
}

static void a_client_that_does_not_read_its_replies_is_not_asked_for_more(void **state)
{
    (void)state;
    say(GET GET);
    conn->writable = false; /* its socket is full */
    dz_conn_queue(conn, dz_out_copy(dz_slice_make((char[DZ_CONN_PIPELINE_OUT + 1]){0},
                                                  DZ_CONN_PIPELINE_OUT + 1)));
    answer_and_finish(started);
    turn();
    assert_int_equal(start_count, 1);
    conn->writable = true;
    dz_conn_flush_and_advance(conn);
    assert_int_equal(start_count, 2);
}

static void after_a_request_that_says_close_none_is_read(void **state)
{
    (void)state;
    say("GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n" GET);
    answer_and_finish(started);
    assert_heard(OK);
    assert_true(is_at_end);
    turn();
    assert_int_equal(start_count, 1);
}

static void a_client_that_has_said_all_gets_its_replies_and_then_the_end(void **state)
{
    (void)state;
    assert_int_equal(send(client, GET GET, 2 * strlen(GET), 0), 2 * strlen(GET));
    shutdown(client, SHUT_WR);
    turn();
    assert_true(atomic_load(&started->gone)); /* most that do so are */
    answer_and_finish(started);
    assert_true(atomic_load(&started->gone)); /* the second, too */
    answer_and_finish(started);
    const char *text = heard();
    assert_non_null(strstr(strstr(text, OK) + 1, OK));
    turn();
    assert_silence();
    assert_true(is_at_end);
    assert_true(is_gone());
}

static void a_client_that_ends_in_mid_head_is_closed_unanswered(void **state)
{
    (void)state;
    say("GET / HT");
    shutdown(client, SHUT_WR);
    turn();
    assert_silence();
    assert_true(is_at_end);
    assert_true(is_gone());
    assert_int_equal(start_count + refused_count, 0);
}

/* --- bodies --- */

static void a_body_is_known_from_the_head_and_left_where_it_is(void **state)
{
    (void)state;
    server.options.body_max = 77;
    say("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nab");
    assert_int_equal(started->body.state, DZ_BODY_STATE_UNREAD);
    assert_int_equal(started->body.left, 5);
    assert_int_equal(started->body.limit, 77);
    assert_int_equal(conn->in_end - conn->in_start, 2);
    answer_and_finish(started);
    say("cde"
        "POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_int_equal(start_count, 2);
    assert_int_equal(started->body.state, DZ_BODY_STATE_UNREAD);
    assert_int_equal(started->body.left, 0);
}

static void no_body_is_no_body(void **state)
{
    (void)state;
    say("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n");
    assert_int_equal(started->body.state, DZ_BODY_STATE_NONE);
}

static void the_rest_of_a_body_that_does_not_come_is_waited_for_like_a_head(void **state)
{
    (void)state;
    say("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\n");
    answer_and_finish(started);
    assert_heard(OK);
    assert_int_equal(conn->skip_left, 5);
    assert_int_equal(conn->deadline, loop.now + HEADER_NS);
    say("abc");
    assert_int_equal(conn->skip_left, 2);
    assert_int_equal(conn->deadline, loop.now + HEADER_NS);
    say("de");
    assert_int_equal(conn->skip_left, 0);
    assert_int_equal(conn->state, DZ_CONN_IDLE);
    assert_int_equal(conn->deadline, loop.now + IDLE_NS);
}

/* --- held back, and draining --- */

static void a_client_that_is_held_back_is_read_when_its_time_has_come(void **state)
{
    (void)state;
    on_request = answer_and_finish;
    conn->held_until = loop.now + 8 * DZ_MS;
    say(GET);
    pass(8 * DZ_MS - 1);
    assert_int_equal(start_count, 0);
    assert_int_equal(conn->state, DZ_CONN_IDLE);
    pass(1);
    assert_int_equal(start_count, 1);
    assert_heard(OK);
}

static void what_was_read_already_is_held_back_as_well(void **state)
{
    (void)state;
    say(GET GET);
    conn->held_until = loop.now + DZ_MS;
    answer_and_finish(started);
    turn();
    assert_int_equal(start_count, 1);
    assert_true(conn->in_start < conn->in_end);
    pass(DZ_MS);
    assert_int_equal(start_count, 2);
}

static void a_server_that_drains_closes_a_connection_that_comes_to_rest(void **state)
{
    (void)state;
    say(GET);
    atomic_store(&home.draining, true);
    answer_and_finish(started);
    assert_non_null(strstr(heard(), "\r\nConnection: close\r\n"));
    assert_true(is_at_end);
    assert_true(is_gone());
}

static void but_not_one_whose_first_request_is_still_on_its_way(void **state)
{
    (void)state;
    atomic_store(&home.draining, true);
    turn();
    assert_silence();
    assert_false(is_at_end);
    say(GET);
    assert_int_equal(start_count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_request_begins_when_its_head_is_complete),
        TEST(requests_are_told_apart_by_their_ids),
        TEST(what_is_no_request_is_refused_with_its_status_and_ends_the_connection),
        TEST(behind_a_request_that_is_refused_none_is_read),
        TEST(without_memory_for_a_request_its_connection_ends),
        TEST(a_head_has_its_time_from_the_first_byte_and_more_bytes_do_not_extend_it),
        TEST(the_first_request_has_its_time_from_the_connection_on),
        TEST(a_request_under_way_has_no_deadline_and_a_rest_has_its_own),
        TEST(pipelined_requests_begin_one_after_the_other),
        TEST(a_client_that_does_not_read_its_replies_is_not_asked_for_more),
        TEST(after_a_request_that_says_close_none_is_read),
        TEST(a_client_that_has_said_all_gets_its_replies_and_then_the_end),
        TEST(a_client_that_ends_in_mid_head_is_closed_unanswered),
        TEST(a_body_is_known_from_the_head_and_left_where_it_is),
        TEST(no_body_is_no_body),
        TEST(the_rest_of_a_body_that_does_not_come_is_waited_for_like_a_head),
        TEST(a_client_that_is_held_back_is_read_when_its_time_has_come),
        TEST(what_was_read_already_is_held_back_as_well),
        TEST(a_server_that_drains_closes_a_connection_that_comes_to_rest),
        TEST(but_not_one_whose_first_request_is_still_on_its_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
