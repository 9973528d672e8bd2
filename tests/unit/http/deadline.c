/* How long a client may take for its response, on a loop whose clock and timer are the test's. */
#include "../check.h"

#include "http/conn.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdarg.h>
#include <sys/ioctl.h>

/* --- the kernel: bytes that are still in the socket --- */

static int in_socket;
static bool cannot_tell;

int __wrap_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...)
{
    (void)fd;
    assert_int_equal(request, SIOCOUTQ);
    if (cannot_tell) {
        errno = ENOTTY;
        return -1;
    }
    va_list list;
    va_start(list, request);
    *va_arg(list, int *) = in_socket;
    va_end(list);
    return 0;
}

/* --- the loop --- */

static dz_loop loop;
static dz_server server;
static dz_server_loop home;
static dz_conn conn;
static bool closed;

void __wrap_dz_timer_start(dz_loop *of, dz_timer *timer, uint64_t due);
void __wrap_dz_timer_start(dz_loop *of, dz_timer *timer, uint64_t due)
{
    (void)of;
    timer->node.key = due;
}

void __wrap_dz_conn_close(dz_conn *it);
void __wrap_dz_conn_close(dz_conn *it)
{
    it->state = DZ_CONN_CLOSED;
    closed = true;
}

enum { TIMEOUT_S = 30 };

static int set_up(void **state)
{
    (void)state;
    memset(&loop, 0, sizeof loop);
    loop.now = 1000 * DZ_SEC;
    server.options.write_timeout_ns = TIMEOUT_S * DZ_SEC;
    home = (dz_server_loop){.loop = &loop, .server = &server};
    conn = (dz_conn){.home = &home,
                     .state = DZ_CONN_HELD,
                     .deadline = UINT64_MAX,
                     .write_deadline = UINT64_MAX,
                     .retry_at = UINT64_MAX};
    dz_conn_init_timer(&conn);
    closed = cannot_tell = false;
    in_socket = 100000;
    conn.written = 100000;
    dz_conn_await_room(&conn);
    return 0;
}

/* A client that takes `rate` bytes a second; how many seconds it was borne, at most `seconds`. */
static unsigned long borne(unsigned long rate, unsigned long seconds)
{
    uint64_t start = loop.now;
    uint64_t begun_with = conn.written - (uint64_t)in_socket;
    while (!closed && loop.now - start < seconds * DZ_SEC) {
        loop.now = conn.timer.node.key;
        uint64_t taken = begun_with + (loop.now - start) / 1000 * rate / 1000000;
        while (conn.written < taken + 50000)
            conn.written += 50000; /* the response has no end */
        in_socket = (int)(conn.written - taken);
        conn.timer.fn(&loop, &conn.timer);
    }
    return (unsigned long)((loop.now - start) / DZ_SEC);
}

static void a_client_that_takes_nothing_is_cut_at_the_limit(void **state)
{
    (void)state;
    assert_int_equal(conn.timer.node.key, loop.now + TIMEOUT_S * DZ_SEC);
    assert_int_equal(borne(0, 10000), TIMEOUT_S);
    assert_true(closed);
}

static void a_byte_a_second_does_not_buy_another_limit(void **state)
{
    (void)state;
    assert_true(borne(1, 10000) <= TIMEOUT_S + 1);
    assert_true(closed);
}

static void what_a_slow_client_took_is_worth_its_time_and_no_more(void **state)
{
    (void)state;
    unsigned long time = borne(250, 10000); /* half of what is asked for */
    assert_true(closed);
    assert_in_range(time, TIMEOUT_S, 3 * TIMEOUT_S);
}

static void a_client_that_is_slow_but_honest_is_never_cut(void **state)
{
    (void)state;
    assert_true(borne(600, 20000) >= 20000);
    assert_false(closed);
}

static void much_taken_at_once_does_not_last_for_ever(void **state)
{
    (void)state;
    loop.now = conn.timer.node.key;
    conn.written += 1 << 30; /* a large window took all of it */
    in_socket = 1000;
    conn.timer.fn(&loop, &conn.timer);
    assert_false(closed);
    assert_true(conn.write_deadline <= loop.now + TIMEOUT_S * DZ_SEC);
    assert_true(borne(0, 10000) <= TIMEOUT_S);
    assert_true(closed);
}

static void waiting_for_our_own_disk_is_not_the_client_s_fault(void **state)
{
    (void)state;
    conn.fetching = true;
    loop.now = conn.timer.node.key;
    conn.timer.fn(&loop, &conn.timer);
    assert_false(closed);
    conn.fetching = false;
    borne(0, 1000);
    assert_true(closed);
}

static void a_socket_that_can_t_tell_counts_what_was_written(void **state)
{
    (void)state;
    cannot_tell = true;
    dz_conn_await_room(&conn);
    loop.now = conn.timer.node.key;
    conn.written += 50000; /* so there was room */
    conn.timer.fn(&loop, &conn.timer);
    assert_false(closed);
    loop.now = conn.timer.node.key;
    conn.timer.fn(&loop, &conn.timer);
    assert_true(closed);
}

static void the_timer_is_set_for_the_first_of_the_deadlines(void **state)
{
    (void)state;
    dz_conn_set_deadline(&conn, loop.now + 5 * DZ_SEC);
    assert_int_equal(conn.timer.node.key, loop.now + 5 * DZ_SEC);
    conn.held_until = loop.now + DZ_SEC;
    dz_conn_arm(&conn);
    assert_int_equal(conn.timer.node.key, loop.now + DZ_SEC);
    conn.retry_at = loop.now + DZ_MS;
    dz_conn_arm(&conn);
    assert_int_equal(conn.timer.node.key, loop.now + DZ_MS);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_client_that_takes_nothing_is_cut_at_the_limit),
        TEST(a_byte_a_second_does_not_buy_another_limit),
        TEST(what_a_slow_client_took_is_worth_its_time_and_no_more),
        TEST(a_client_that_is_slow_but_honest_is_never_cut),
        TEST(much_taken_at_once_does_not_last_for_ever),
        TEST(waiting_for_our_own_disk_is_not_the_client_s_fault),
        TEST(a_socket_that_can_t_tell_counts_what_was_written),
        TEST(the_timer_is_set_for_the_first_of_the_deadlines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
