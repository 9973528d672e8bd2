/* The end of a connection whose client may still be sending. */
#include "rig.h"

#include "base/io.h"

enum { LINGER_S = 5, TICK = 256 << 10, MOST = 16 << 20 };

/* --- a client that never stops (--wrap=dz_recv) --- */

static bool floods;
static int recv_error;
static size_t flooded;

ssize_t __real_dz_recv(int fd, void *out, size_t size);
ssize_t __wrap_dz_recv(int fd, void *out, size_t size);
ssize_t __wrap_dz_recv(int fd, void *out, size_t size)
{
    if (recv_error) {
        errno = recv_error;
        return -1;
    }
    if (!floods)
        return __real_dz_recv(fd, out, size);
    memset(out, 'x', size);
    flooded += size;
    return (ssize_t)size;
}

static int set_up_calm(void **state)
{
    floods = false;
    recv_error = 0;
    flooded = 0;
    return set_up(state);
}

/* A connection whose last reply is written, and whose client may not have read it. */
static void finish_last(void)
{
    conn->close_after = conn->must_linger = true;
    dz_conn_queue(conn, dz_out_copy(DZ_LIT("the last word")));
    turn();
    turn(); /* nor does an event wait */
}

static void a_client_that_has_said_all_is_closed_at_once(void **state)
{
    (void)state;
    turn(); /* nothing to read */
    dz_conn_finish(conn);
    assert_silence();
    assert_true(is_at_end);
    assert_true(is_gone());
}

static void so_is_one_whose_input_has_ended(void **state)
{
    (void)state;
    say(GET);
    shutdown(client, SHUT_WR);
    conn->must_linger = true;
    answer_and_finish(started);
    assert_heard(OK);
    turn();
    assert_heard("");
    assert_true(is_at_end);
    assert_true(is_gone());
}

static void each_sign_of_more_input_is_one_to_linger_for(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        turn();
        if (way == 0)
            conn->must_linger = true;
        else if (way == 1)
            conn->readable = true;
        else
            conn->in_end = 1;
        dz_conn_finish(conn);
        assert_int_equal(conn->state, DZ_CONN_LINGER);
        assert_silence();
        assert_true(is_at_end); /* it is told that no more comes */
        conn->in_end = 0;
        rig_close();
        rig_open(false);
    }
}

static void a_client_that_still_sends_can_read_the_reply_and_is_closed_when_it_closes(void **state)
{
    (void)state;
    finish_last();
    assert_int_equal(conn->state, DZ_CONN_LINGER);
    say("more of its upload"); /* closing with this unread would be a reset */
    say("and more");
    assert_string_equal(heard(), "the last word");
    assert_true(is_at_end);
    assert_int_equal(start_count + refused_count, 0);
    assert_false(is_gone());
    hang_up();
    assert_true(is_gone());
}

static void what_it_sends_buys_it_no_time(void **state)
{
    (void)state;
    finish_last();
    for (int i = 0; i < LINGER_S - 1; i++) {
        pass(DZ_SEC);
        say("x");
    }
    assert_false(is_gone());
    pass(DZ_SEC);
    assert_true(is_gone());
}

static void a_fast_upload_has_its_turn_like_the_others(void **state)
{
    (void)state;
    finish_last();
    floods = true;
    conn->readable = true;
    dz_conn_linger(conn);
    assert_int_equal(flooded, TICK);
    assert_true(conn->again_posted);
    turn();
    assert_int_equal(flooded, 2 * TICK);
}

static void an_upload_without_end_is_cut(void **state)
{
    (void)state;
    finish_last();
    floods = true;
    conn->readable = true;
    dz_conn_linger(conn);
    for (int i = 0; i < MOST / TICK + 2 && home.conn_count > 0; i++)
        turn();
    assert_int_equal(home.conn_count, 0);
    assert_int_equal(flooded, MOST);
}

static void a_connection_that_fails_meanwhile_is_closed(void **state)
{
    (void)state;
    finish_last();
    recv_error = ECONNRESET;
    say("x");
    assert_true(is_gone());
}

static void nothing_there_is_no_end(void **state)
{
    (void)state;
    finish_last();
    conn->readable = true;
    dz_conn_linger(conn);
    assert_false(conn->readable);
    assert_false(is_gone());
}

#define TEST_CALM(name) cmocka_unit_test_setup_teardown(name, set_up_calm, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_CALM(a_client_that_has_said_all_is_closed_at_once),
        TEST_CALM(so_is_one_whose_input_has_ended),
        TEST_CALM(each_sign_of_more_input_is_one_to_linger_for),
        TEST_CALM(a_client_that_still_sends_can_read_the_reply_and_is_closed_when_it_closes),
        TEST_CALM(what_it_sends_buys_it_no_time),
        TEST_CALM(a_fast_upload_has_its_turn_like_the_others),
        TEST_CALM(an_upload_without_end_is_cut),
        TEST_CALM(a_connection_that_fails_meanwhile_is_closed),
        TEST_CALM(nothing_there_is_no_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
