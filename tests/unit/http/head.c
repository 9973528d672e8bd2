#include <stdio.h>

#include "parse.h"

static void a_plain_request_is_split(void **state)
{
    (void)state;
    parsed p = {0};
    dz_slice text = DZ_LIT("POST /a%20b/c?x=1&y HTTP/1.1\r\nHost: example.org:80\r\nX-Empty:\r\n"
                           "X-Blank: \t two words \t\r\nContent-Length: 12\r\n\r\nbody");
    parse_limited(&p, text, &default_limits);
    assert_int_equal(p.rc, text.len - 4);
    assert_int_equal(p.head.method, DZ_POST);
    assert_slice(p.head.method_text, "POST");
    assert_slice(p.head.target, "/a%20b/c?x=1&y");
    assert_slice(p.head.path, "/a%20b/c");
    assert_slice(p.head.query, "x=1&y");
    assert_slice(p.head.host, "example.org:80");
    assert_int_equal(p.head.minor, 1);
    assert_true(p.head.keep_alive && p.head.has_length && !p.head.chunked);
    assert_int_equal(p.head.content_length, 12);
    assert_int_equal(p.head.header_count, 4);
    assert_slice(p.head.headers[1].name, "X-Empty");
    assert_slice(p.head.headers[1].value, "");
    assert_slice(p.head.headers[2].value, "two words");
    assert_int_equal(p.scanned, 0);
    free(p.bytes);
}

static void every_split_point_gives_the_same_head(void **state)
{
    (void)state;
    dz_slice text = DZ_LIT("\r\nGET /x HTTP/1.1\r\nHost: a\r\nCookie: GET /y HTTP/1.1\r\n"
                           "Accept: */*, text/plain;q=0.5\r\nConnection: close\r\n\r\n");
    for (size_t cut = 0; cut < text.len; cut++) {
        parsed p = {0};
        parse_limited(&p, dz_slice_make(text.ptr, cut), &default_limits);
        assert_int_equal(p.rc, DZ_HEAD_MORE);
        parse_limited(&p, text, &default_limits);
        assert_int_equal(p.rc, text.len);
        assert_int_equal(p.head.header_count, 4);
        assert_slice(p.head.headers[1].value, "GET /y HTTP/1.1");
        assert_false(p.head.keep_alive);
        assert_int_equal(p.scanned, 0);
        free(p.bytes);
    }
}

static void byte_by_byte_no_byte_is_scanned_twice(void **state)
{
    (void)state;
    dz_slice text = DZ_LIT("GET /x HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n");
    parsed p = {0};
    for (size_t len = 1; len < text.len; len++) {
        parse_limited(&p, dz_slice_make(text.ptr, len), &default_limits);
        assert_int_equal(p.rc, DZ_HEAD_MORE);
        assert_true(p.scanned >= len - 1); /* only a CR without its LF is looked at again */
    }
    parse_limited(&p, text, &default_limits);
    assert_int_equal(p.rc, text.len);
    free(p.bytes);
}

static void pipelined_heads_are_taken_one_at_a_time(void **state)
{
    (void)state;
    parsed p = {0};
    dz_slice text = DZ_LIT("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    for (size_t i = 1; i <= 2; i++) {
        parse_limited(&p, text, &default_limits);
        assert_int_equal(p.rc, 28);
        assert_int_equal(p.head.path.ptr[1], '0' + (int)i);
        text = dz_slice_make(text.ptr + p.rc, text.len - (size_t)p.rc);
    }
    free(p.bytes);
}

/* A slice in a static table, where DZ_LIT is no constant to gcc. */
#define TEXT(literal)                                                                              \
    {                                                                                              \
        (literal), sizeof(literal) - 1                                                             \
    }

static void an_error_shows_at_once_and_at_every_split_point(void **state)
{
    (void)state;
    static const dz_slice bad[] = {
        TEXT("GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n"),
        TEXT("GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n"),
        TEXT("GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n"),
        TEXT("GET / HTTP/1.1\r\nHost: a\r\n\rX: y\r\n\r\n"),
        TEXT("GET / HTTP/1.1\r\nHost: a\r\n\nX: y\r\n\r\n"),
        TEXT("GET / HTTP/1.1\nHost: a\n\n"),
        TEXT("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), /* a TLS client */
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(status_of(bad[i]), -400);
        for (size_t cut = 1; cut < bad[i].len; cut++) {
            parsed p = {0};
            parse_limited(&p, dz_slice_make(bad[i].ptr, cut), &default_limits);
            if (p.rc == DZ_HEAD_MORE)
                parse_limited(&p, bad[i], &default_limits);
            assert_int_equal(p.rc, -400);
            free(p.bytes);
        }
    }
}

static void request_lines_are_strict(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "GET  / HTTP/1.1",
        " GET / HTTP/1.1",
        "GET / HTTP/1.1 ",
        "GET /\tHTTP/1.1",
        "GET /",
        "GET / HTTP/1.1x",
        "GET / http/1.1",
        "GET / HTTP/1",
        "GET / HTTP/11",
        "GET / HTTP/1.",
        "GET / HTTP/1.10",
        "GET / HTTP/01.1",
        "GET  HTTP/1.1",
        "GET HTTP/1.1",
        "G(T / HTTP/1.1",
        "GET / / HTTP/1.1",
        "GET /a b HTTP/1.1",
        "/ HTTP/1.1",
        "GET / ICY/1.1",
        "GET\t/ HTTP/1.1",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[128];
        int len = snprintf(text, sizeof text, "%s\r\nHost: a\r\n\r\n", bad[i]);
        assert_int_equal(status_of(dz_slice_make(text, (size_t)len)), -400);
    }
    assert_int_equal(STATUS("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), -505);
    assert_int_equal(STATUS("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), -505);
    assert_int_equal(STATUS("GET / HTTP/0.9\r\nHost: a\r\n\r\n"), -505);
    assert_true(STATUS("GET / HTTP/1.7\r\nHost: a\r\n\r\n") > 0);
    assert_true(STATUS("GET / HTTP/1.0\r\n\r\n") > 0);
}

static void methods_are_case_sensitive_tokens_of_bounded_length(void **state)
{
    (void)state;
    for (int i = 0; i < DZ_OTHER; i++)
        assert_int_equal(dz_method_of(dz_slice_of(dz_method_name((dz_method)i))), i);
    assert_string_equal(dz_method_name(DZ_OTHER), "");
    parsed p = {0};
    parse_limited(&p, DZ_LIT("get / HTTP/1.1\r\nHost: a\r\n\r\n"), &default_limits);
    assert_true(p.rc > 0);
    assert_int_equal(p.head.method, DZ_OTHER);
    assert_slice(p.head.method_text, "get");
    free(p.bytes);
    assert_true(STATUS("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEF / HTTP/1.1\r\nHost: a\r\n\r\n") > 0);
    assert_int_equal(STATUS("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG / HTTP/1.1\r\nHost: a\r\n\r\n"),
                     -501);
}

static void field_lines_are_strict(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "X : y\r\n",           "X\t: y\r\n",  ": y\r\n",   "X y\r\n",
        "X: y\r\n folded\r\n", " X: y\r\n",   "X(: y\r\n", "X\x80: y\r\n",
        "X: \x01\r\n",         "X: \x7f\r\n", "X\r\n",     "\tX: y\r\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(status_with(bad[i]), -400);
    assert_int_equal(status_with("X: a\tb \x80\xff\r\n!#$%&'*+-.^_`|~9Az: y\r\n"), 0);
    assert_int_equal(STATUS("GET / HTTP/1.1\r\n Host: a\r\n\r\n"), -400);
}

static void a_few_empty_lines_may_come_first(void **state)
{
    (void)state;
    assert_int_equal(STATUS("\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), 8 + 27);
    assert_int_equal(STATUS("\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), -400);
    assert_int_equal(STATUS("\r\n\r\n\r\n\r\n"), DZ_HEAD_MORE);
    assert_int_equal(STATUS("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), -400);
    parsed p = {0};
    for (size_t len = 1; len <= 10; len++)
        parse_limited(&p, dz_slice_make("\r\n\r\n\r\n\r\n\r\n", len), &default_limits);
    assert_int_equal(p.rc, -400);
    free(p.bytes);
}

/* The status for a request line of `line` bytes in all, given whole or `step` bytes at a time. */
static int line_status(size_t line, size_t step, const dz_head_limits *limits)
{
    size_t len = line + sizeof "\r\nHost: a\r\n\r\n" - 1;
    char *text = malloc(len);
    assert_non_null(text);
    memset(text, 'a', line);
    memcpy(text, "GET /", 5);
    memcpy(text + line - 9, " HTTP/1.1", 9);
    memcpy(text + line, "\r\nHost: a\r\n\r\n", len - line);
    parsed p = {0};
    for (size_t got = step; p.rc == 0; got += step) {
        parse_limited(&p, dz_slice_make(text, got < len ? got : len), limits);
        if (got >= len)
            break;
    }
    free(p.bytes);
    free(text);
    return p.rc;
}

static void a_request_line_above_the_limit_is_414_however_it_arrives(void **state)
{
    (void)state;
    const dz_head_limits limits = {.line_max = 100, .head_max = 200, .headers_max = 10};
    static const size_t steps[] = {1, 2, 3, 50, 99, 101, 102, 103, 1000};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        assert_int_equal(line_status(100, steps[i], &limits), 113);
        assert_int_equal(line_status(101, steps[i], &limits), -414);
        assert_int_equal(line_status(5000, steps[i], &limits), -414);
    }
    assert_int_equal(line_status(8192, 8192, &default_limits), 8192 + 13);
    assert_int_equal(line_status(8193, 8192, &default_limits), -414);
    char endless[200];
    memset(endless, 'A', sizeof endless);
    assert_int_equal(status_limited(dz_slice_make(endless, sizeof endless), &limits), -501);
}

static void a_head_above_the_limits_is_431(void **state)
{
    (void)state;
    dz_slice text = DZ_LIT("GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n");
    dz_head_limits limits = {.line_max = 20, .head_max = (uint32_t)text.len, .headers_max = 2};
    assert_int_equal(status_limited(text, &limits), text.len);
    limits.head_max--;
    assert_int_equal(status_limited(text, &limits), -431);
    assert_int_equal(status_limited(dz_slice_make(text.ptr, text.len - 1), &limits), -431);
    limits = (dz_head_limits){.line_max = 20, .head_max = 100, .headers_max = 1};
    assert_int_equal(status_limited(text, &limits), -431);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_request_is_split),
        cmocka_unit_test(every_split_point_gives_the_same_head),
        cmocka_unit_test(byte_by_byte_no_byte_is_scanned_twice),
        cmocka_unit_test(pipelined_heads_are_taken_one_at_a_time),
        cmocka_unit_test(an_error_shows_at_once_and_at_every_split_point),
        cmocka_unit_test(request_lines_are_strict),
        cmocka_unit_test(methods_are_case_sensitive_tokens_of_bounded_length),
        cmocka_unit_test(field_lines_are_strict),
        cmocka_unit_test(a_few_empty_lines_may_come_first),
        cmocka_unit_test(a_request_line_above_the_limit_is_414_however_it_arrives),
        cmocka_unit_test(a_head_above_the_limits_is_431),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
