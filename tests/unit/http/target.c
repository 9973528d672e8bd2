#include <stdio.h>

#include "parse.h"

#include "http/target.h"

static void parse_target(parsed *p, const char *method, const char *target)
{
    char text[512];
    int len = snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: field\r\n\r\n", method, target);
    parse_limited(p, dz_slice_make(text, (size_t)len), &default_limits);
}

static void absolute_form_overrides_host(void **state)
{
    (void)state;
    parsed p = {0};
    parse_target(&p, "GET", "http://example.org:8080/a?b=/c?d");
    assert_true(p.rc > 0);
    assert_slice(p.head.authority, "example.org:8080");
    assert_slice(p.head.host, "example.org:8080");
    assert_slice(p.head.path, "/a");
    assert_slice(p.head.query, "b=/c?d");
    parse_target(&p, "GET", "HTTPS://[::1]?q");
    assert_slice(p.head.host, "[::1]");
    assert_slice(p.head.path, "/");
    assert_slice(p.head.query, "q");
    parse_target(&p, "GET", "http://a");
    assert_slice(p.head.path, "/");
    assert_null(p.head.query.ptr);
    free(p.bytes);
}

static void each_form_belongs_to_its_methods(void **state)
{
    (void)state;
    parsed p = {0};
    parse_target(&p, "OPTIONS", "*");
    assert_true(p.rc > 0);
    assert_slice(p.head.path, "*");
    parse_target(&p, "CONNECT", "example.org:443");
    assert_true(p.rc > 0);
    assert_slice(p.head.authority, "example.org:443");
    assert_int_equal(p.head.path.len, 0);
    static const char *const bad[][2] = {
        {"GET", "*"},      {"GET", "example.org:443"}, {"CONNECT", "/"},  {"CONNECT", "a"},
        {"CONNECT", "a:"}, {"OPTIONS", "**"},          {"OPTIONS", "*/"}, {"CONNECT", "http://a/"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        parse_target(&p, bad[i][0], bad[i][1]);
        assert_int_equal(p.rc, -400);
    }
    free(p.bytes);
}

static void bad_targets_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "a",
        "ftp://a/",
        "http:/a",
        "http://",
        "http:///a",
        "http://a@b/",
        "http://a:b/",
        "http://a b/",
        "/#a",
        "/a\"",
        "/<a>",
        "/a\\b",
        "/\x80",
        "/?\xc3\xa4",
        "/%",
        "/%4",
        "/%zz",
        "/%00",
        "/a%2",
        "/?#",
        "http://a:65536/",
        "http://[::1/",
        "http://[]/",
        "?a",
        "/a%g0?x",
        "http://%/\x01",
    };
    parsed p = {0};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        parse_target(&p, "GET", bad[i]);
        if (p.rc != -400)
            print_error("accepted: %s\n", bad[i]);
        assert_int_equal(p.rc, -400);
    }
    static const char *const good[] = {"//a",           "/a/../b", "/[x]{y}|^`",
                                       "/?a=%zz[]{}\\", "/%2F%ff", "/:@!$&'()*+,;=-._~"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        parse_target(&p, "GET", good[i]);
        assert_true(p.rc > 0);
    }
    free(p.bytes);
}

static void hosts(void **state)
{
    (void)state;
    static const char *const good[] = {"a",        "a:1",  "a:",      "127.0.0.1:65535",
                                       "[::1]:80", "[::]", "a-b_c.d", "[::ffff:1.2.3.4]"};
    static const char *const bad[] = {
        "",     ":80", "a:b", "a:65536", "a b",    "a,b",  "a/b", "a@b", "[::1",
        "::1]", "[g]", "[]",  "a:1:2",   "[::1]x", "a\\b", "a?",  "a#",  "a:99999999999999999999"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(dz_host_valid(dz_slice_of(good[i]), false));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(dz_host_valid(dz_slice_of(bad[i]), false));
    assert_false(dz_host_valid(DZ_LIT("a"), true));
    assert_false(dz_host_valid(DZ_LIT("a:"), true));
    assert_true(dz_host_valid(DZ_LIT("a:1"), true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absolute_form_overrides_host),
        cmocka_unit_test(each_form_belongs_to_its_methods),
        cmocka_unit_test(bad_targets_are_refused),
        cmocka_unit_test(hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
