#include <stdio.h>

#include "parse.h"

static void refuse(const char *const *lines, size_t count, int status)
{
    for (size_t i = 0; i < count; i++) {
        if (status_with(lines[i]) != status)
            print_error("not %d: %s\n", status, lines[i]);
        assert_int_equal(status_with(lines[i]), status);
    }
}

#define REFUSE(status, ...)                                                                        \
    do {                                                                                           \
        static const char *const lines_[] = {__VA_ARGS__};                                         \
        refuse(lines_, sizeof lines_ / sizeof lines_[0], -(status));                               \
    } while (0)

static void a_length_that_two_readers_could_take_differently_is_refused(void **state)
{
    (void)state;
    REFUSE(400, "Content-Length: 18446744073709551615\r\n",
           "Content-Length: 18446744073709551616\r\n", "Content-Length: 9223372036854775808\r\n",
           "Content-Length: +5\r\n", "Content-Length: -5\r\n", "Content-Length: 5,6\r\n",
           "Content-Length: 5, 5\r\n", "Content-Length: 5\r\nContent-Length: 6\r\n",
           "Content-Length: 5\r\ncontent-length: 5\r\n", "Content-Length:\r\n",
           "Content-Length: 0x5\r\n", "Content-Length: 5 5\r\n", "Content-Length: 5.0\r\n",
           "Content-Length: \"5\"\r\n", "Content-Length: 1e3\r\n");
    assert_int_equal(status_with("Content-Length: 9223372036854775807\r\n"), 0);
    assert_int_equal(status_with("Content-Length: 0000000000000000000000000005\r\n"), 0);
}

static void length_and_transfer_encoding_together_are_refused(void **state)
{
    (void)state;
    REFUSE(400, "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
           "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
           "Transfer-Encoding: gzip, chunked\r\nContent-Length: 5\r\n");
    assert_int_equal(STATUS("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"),
                     -400);
}

static void chunked_must_be_the_last_coding_and_the_only_one(void **state)
{
    (void)state;
    REFUSE(400, "Transfer-Encoding: chunked, gzip\r\n", "Transfer-Encoding: chunked, chunked\r\n",
           "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
           "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
           "Transfer-Encoding:\r\n", "Transfer-Encoding: ,chunked\r\n",
           "Transfer-Encoding: chunked,\r\n", "Transfer-Encoding: \"chunked\"\r\n",
           "Transfer-Encoding: chunked;q=1\r\n", "Transfer-Encoding: chun ked\r\n");
    REFUSE(501, "Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: xchunked\r\n",
           "Transfer-Encoding: identity\r\n",
           "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n");
    assert_int_equal(status_with("Transfer-Encoding: CHUNKED\r\n"), 0);
    assert_int_equal(status_with("transfer-encoding: \t chunked \r\n"), 0);
}

static void host_is_one_valid_host(void **state)
{
    (void)state;
    assert_int_equal(STATUS("GET / HTTP/1.1\r\n\r\n"), -400);
    assert_int_equal(STATUS("GET / HTTP/1.1\r\nHost:\r\n\r\n"), -400);
    assert_int_equal(STATUS("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n"), -400);
    assert_int_equal(STATUS("GET / HTTP/1.0\r\nHost: a/b\r\n\r\n"), -400);
    REFUSE(400, "Host: a\r\n", "hOST: b\r\n");
}

static void only_100_continue_is_an_expectation(void **state)
{
    (void)state;
    REFUSE(417, "Expect: tea\r\n", "Expect: 100-continue, tea\r\n", "Expect:\r\n");
    parsed p = {0};
    parse_limited(&p, DZ_LIT("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\n\r\n"),
                  &default_limits);
    assert_true(p.rc > 0 && p.head.expect_continue);
    parse_limited(&p, DZ_LIT("PUT / HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\n\r\n"),
                  &default_limits);
    assert_true(p.rc > 0 && !p.head.expect_continue);
    free(p.bytes);
}

static bool keeps_alive(const char *version, const char *lines)
{
    char text[256];
    int len = snprintf(text, sizeof text, "GET / %s\r\nHost: a\r\n%s\r\n", version, lines);
    parsed p = {0};
    parse_limited(&p, dz_slice_make(text, (size_t)len), &default_limits);
    assert_int_equal(p.rc, len);
    free(p.bytes);
    return p.head.keep_alive;
}

static void persistence_follows_version_and_connection(void **state)
{
    (void)state;
    assert_true(keeps_alive("HTTP/1.1", ""));
    assert_true(keeps_alive("HTTP/1.1", "Connection: keep-alive\r\n"));
    assert_true(keeps_alive("HTTP/1.1", "Connection: closed, not-close\r\n"));
    assert_false(keeps_alive("HTTP/1.1", "Connection: Close\r\n"));
    assert_false(keeps_alive("HTTP/1.1", "Connection: x ,\tclose ,y\r\n"));
    assert_false(keeps_alive("HTTP/1.1", "Connection: keep-alive\r\nConnection: close\r\n"));
    assert_false(keeps_alive("HTTP/1.0", ""));
    assert_true(keeps_alive("HTTP/1.0", "Connection: Keep-Alive\r\n"));
    assert_false(keeps_alive("HTTP/1.0", "Connection: keep-alive, close\r\n"));
}

static void upgrade_needs_both_fields(void **state)
{
    (void)state;
    parsed p = {0};
    parse_limited(&p, DZ_LIT("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n"),
                  &default_limits);
    assert_true(p.rc > 0 && !p.head.upgrade);
    parse_limited(&p,
                  DZ_LIT("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n"
                         "Connection: keep-alive, Upgrade\r\n\r\n"),
                  &default_limits);
    assert_true(p.rc > 0 && p.head.upgrade);
    free(p.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_length_that_two_readers_could_take_differently_is_refused),
        cmocka_unit_test(length_and_transfer_encoding_together_are_refused),
        cmocka_unit_test(chunked_must_be_the_last_coding_and_the_only_one),
        cmocka_unit_test(host_is_one_valid_host),
        cmocka_unit_test(only_100_continue_is_an_expectation),
        cmocka_unit_test(persistence_follows_version_and_connection),
        cmocka_unit_test(upgrade_needs_both_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
