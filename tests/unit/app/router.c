#include "../check.h"

#include "app/router.h"

#include <stdio.h>

enum { GET = 0, POST = 2, PUT = 3, DELETE = 5 };

/* Routes are told apart by their pattern. */
static void add(dz_router *router, unsigned method, const char *pattern)
{
    assert_int_equal(dz_router_add(router, method, pattern, (void *)(uintptr_t)pattern), 0);
}

static dz_route_match match;

static const char *find(const dz_router *router, unsigned method, const char *path)
{
    return dz_router_find(router, method, dz_slice_of(path), &match) == 0 ? match.route : NULL;
}

static void assert_param(size_t i, const char *name, const char *value)
{
    assert_true(i < match.param_count);
    assert_slice(match.params[i].name, name);
    assert_slice(match.params[i].value, value);
}

static void literal_text_goes_before_parameters_before_wildcards(void **state)
{
    (void)state;
    dz_router *router = dz_router_new();
    add(router, GET, "/files/*path");
    add(router, GET, "/files/:name");
    add(router, GET, "/files/v:version");
    add(router, GET, "/files/latest");
    assert_string_equal(find(router, GET, "/files/latest"), "/files/latest");
    assert_int_equal(match.param_count, 0);
    assert_string_equal(find(router, GET, "/files/v7"), "/files/v:version");
    assert_param(0, "version", "7");
    assert_string_equal(find(router, GET, "/files/v"), "/files/:name");
    assert_param(0, "name", "v");
    assert_string_equal(find(router, GET, "/files/a/b%20c"), "/files/*path");
    assert_param(0, "path", "a/b%20c");
    assert_null(find(router, GET, "/files"));
    assert_null(find(router, GET, "/files/"));
    dz_router_free(router);
}

static void a_dead_end_falls_back_to_the_next_best(void **state)
{
    (void)state;
    dz_router *router = dz_router_new();
    add(router, GET, "/a/b/c");
    add(router, GET, "/a/:x/d");
    add(router, GET, "/:y/b/:z/e");
    add(router, GET, "/*rest");
    assert_string_equal(find(router, GET, "/a/b/d"), "/a/:x/d");
    assert_param(0, "x", "b");
    assert_string_equal(find(router, GET, "/a/b/q/e"), "/:y/b/:z/e");
    assert_int_equal(match.param_count, 2);
    assert_param(0, "y", "a");
    assert_param(1, "z", "q");
    assert_string_equal(find(router, GET, "/a/b/q/f"), "/*rest");
    assert_int_equal(match.param_count, 1);
    assert_param(0, "rest", "a/b/q/f");
    dz_router_free(router);
}

static void a_pattern_without_the_method_is_passed_over(void **state)
{
    (void)state;
    dz_router *router = dz_router_new();
    add(router, POST, "/users/me");
    add(router, GET, "/users/:id");
    add(router, DELETE, "/users/:name");
    assert_string_equal(find(router, GET, "/users/me"), "/users/:id");
    assert_string_equal(find(router, POST, "/users/me"), "/users/me");
    assert_string_equal(find(router, DELETE, "/users/7"), "/users/:name");
    assert_param(0, "name", "7");
    assert_null(find(router, PUT, "/users/me"));
    assert_int_equal(match.allowed, 1u << POST | 1u << GET | 1u << DELETE);
    assert_null(find(router, POST, "/users/7"));
    assert_int_equal(match.allowed, 1u << GET | 1u << DELETE);
    assert_null(find(router, GET, "/nobody"));
    assert_int_equal(match.allowed, 0);
    dz_router_free(router);
}

static void any_serves_methods_without_a_route_of_their_own(void **state)
{
    (void)state;
    dz_router *router = dz_router_new();
    add(router, DZ_ANY, "/echo/*any");
    add(router, GET, "/echo/*get");
    assert_string_equal(find(router, GET, "/echo/x"), "/echo/*get");
    assert_string_equal(find(router, PUT, "/echo/x"), "/echo/*any");
    assert_param(0, "any", "x");
    dz_router_free(router);
}

static void parameters_stand_inside_a_segment(void **state)
{
    (void)state;
    dz_router *router = dz_router_new();
    add(router, GET, "/flights/:from-:to");
    add(router, GET, "/img/:name.:ext");
    add(router, GET, "/x/:a--:b--c");
    assert_non_null(find(router, GET, "/flights/IST-BER"));
    assert_param(0, "from", "IST");
    assert_param(1, "to", "BER");
    assert_non_null(find(router, GET, "/flights/-a-b"));
    assert_param(0, "from", "-a");
    assert_null(find(router, GET, "/flights/-BER"));
    assert_null(find(router, GET, "/flights/IST-"));
    assert_non_null(find(router, GET, "/img/a.b.png"));
    assert_param(0, "name", "a");
    assert_param(1, "ext", "b.png");
    assert_non_null(find(router, GET, "/x/1--2--c--c"));
    assert_param(1, "b", "2--c");
    assert_null(find(router, GET, "/x/1--c"));
    dz_router_free(router);
}

static void one_trailing_slash_is_ignored(void **state)
{
    (void)state;
    dz_router *router = dz_router_new();
    add(router, GET, "/");
    add(router, GET, "/users/");
    add(router, GET, "/users/:id");
    assert_string_equal(find(router, GET, "/"), "/");
    assert_string_equal(find(router, GET, "/users"), "/users/");
    assert_string_equal(find(router, GET, "/users/"), "/users/");
    assert_string_equal(find(router, GET, "/users/7/"), "/users/:id");
    assert_param(0, "id", "7");
    assert_null(find(router, GET, "/users//"));
    assert_null(find(router, GET, "//users"));
    assert_null(find(router, GET, "/Users"));
    assert_null(find(router, GET, ""));
    assert_null(find(router, GET, "*"));
    assert_null(find(router, GET, "users"));
    dz_router_free(router);
}

static void a_second_pattern_of_the_same_shape_is_refused(void **state)
{
    (void)state;
    dz_router *router = dz_router_new();
    void *route = &match;
    add(router, GET, "/users/:id/posts");
    add(router, GET, "/users/:name/friends"); /* another name at the same place is fine */
    assert_int_equal(dz_router_add(router, GET, "/users/:x/posts", route), DZ_E_EXISTS);
    assert_int_equal(dz_router_add(router, GET, "/users/:x/posts/", route), DZ_E_EXISTS);
    add(router, GET, "/f/:a-:b");
    assert_int_equal(dz_router_add(router, GET, "/f/:c-:d", route), DZ_E_EXISTS);
    add(router, GET, "/w/*a");
    assert_int_equal(dz_router_add(router, GET, "/w/*b", route), DZ_E_EXISTS);
    assert_int_equal(dz_router_add(router, POST, "/users/:x/posts", route), 0);
    assert_non_null(find(router, GET, "/users/1/friends"));
    assert_param(0, "name", "1");
    dz_router_free(router);
}

static void what_is_no_pattern_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",     "users", "//",     "/a//b",    "/:",     "/a/:1x", "/a/:x:y", "/*",
        "/a*b", "/*a/b", "/:a/:a", "/a?",      "/a#b",   "/a b",   "/a\n",    "/a(b)",
        "/{a}", "/a\\",  "/*a/",   "/:a/b/*a", "/x\\/y", "/a\x7f",
    };
    dz_router *router = dz_router_new();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(dz_router_add(router, GET, bad[i], &match), DZ_E_INVALID);
    assert_int_equal(dz_router_add(router, GET, NULL, &match), DZ_E_INVALID);
    assert_int_equal(dz_router_add(router, DZ_ROUTER_METHODS, "/", &match), DZ_E_INVALID);
    assert_int_equal(dz_router_add(router, GET, "/", NULL), DZ_E_INVALID);
    assert_null(find(router, GET, "/"));
    dz_router_free(router);
}

static void patterns_beyond_the_limits_are_refused(void **state)
{
    (void)state;
    dz_router *router = dz_router_new();
    char text[4096] = "";
    size_t len = 0;
    for (int i = 0; i < DZ_PATTERN_PARAMS; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "/:p%d", i);
    assert_int_equal(dz_router_add(router, GET, text, &match), 0);
    assert_non_null(find(router, GET, "/0/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15"));
    assert_param(15, "p15", "15");
    snprintf(text + len, sizeof text - len, "/*more");
    assert_int_equal(dz_router_add(router, GET, text, &match), DZ_E_INVALID);
    memset(text, 'x', sizeof text - 1);
    text[0] = '/';
    assert_int_equal(dz_router_add(router, GET, text, &match), DZ_E_INVALID);
    for (size_t i = 0; i < 2 * (DZ_PATTERN_SEGMENTS + 1); i += 2)
        memcpy(text + i, "/s", 3);
    assert_int_equal(dz_router_add(router, GET, text, &match), DZ_E_INVALID);
    text[2 * DZ_PATTERN_SEGMENTS] = '\0';
    assert_int_equal(dz_router_add(router, GET, text, &match), 0);
    dz_router_free(router);
}

static void a_backslash_makes_the_next_character_literal(void **state)
{
    (void)state;
    dz_router *router = dz_router_new();
    add(router, POST, "/items\\:batch");
    add(router, POST, "/a\\*b/:id\\:undelete");
    assert_non_null(find(router, POST, "/items:batch"));
    assert_int_equal(match.param_count, 0);
    assert_non_null(find(router, POST, "/a*b/7:undelete"));
    assert_param(0, "id", "7");
    dz_router_free(router);
}

static void a_thousand_routes_are_all_found(void **state)
{
    (void)state;
    dz_router *router = dz_router_new();
    static char patterns[1000][32];
    for (int i = 0; i < 1000; i++) {
        snprintf(patterns[i], sizeof patterns[i], "/r%d/:id/sub%d", i % 100, i);
        add(router, GET, patterns[i]);
    }
    for (int i = 0; i < 1000; i++) {
        char path[32];
        snprintf(path, sizeof path, "/r%d/x/sub%d", i % 100, i);
        assert_string_equal(find(router, GET, path), patterns[i]);
        snprintf(path, sizeof path, "/r%d/x/sub%d", (i + 1) % 100, i);
        assert_null(find(router, GET, path));
    }
    dz_router_free(router);
}

/* 2^20 ways lead through these patterns; a search that tried them all would not end in time. */
static void many_dead_ends_do_not_multiply(void **state)
{
    (void)state;
    dz_router *router = dz_router_new();
    char text[256], path[256] = "";
    for (size_t i = 0; i < 16; i++) {
        size_t len = 0;
        for (size_t j = 0; j < 16; j++)
            len += (size_t)snprintf(text + len, sizeof text - len, j == i ? "/:x" : "/a");
        snprintf(text + len, sizeof text - len, "/end");
        assert_int_equal(dz_router_add(router, GET, text, &match), 0);
    }
    for (size_t i = 0; i < 16; i++)
        memcpy(path + 2 * i, "/a", 3);
    for (int i = 0; i < 1000; i++)
        assert_null(find(router, GET, path));
    dz_router_free(router);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(literal_text_goes_before_parameters_before_wildcards),
        cmocka_unit_test(a_dead_end_falls_back_to_the_next_best),
        cmocka_unit_test(a_pattern_without_the_method_is_passed_over),
        cmocka_unit_test(any_serves_methods_without_a_route_of_their_own),
        cmocka_unit_test(parameters_stand_inside_a_segment),
        cmocka_unit_test(one_trailing_slash_is_ignored),
        cmocka_unit_test(a_second_pattern_of_the_same_shape_is_refused),
        cmocka_unit_test(what_is_no_pattern_is_refused),
        cmocka_unit_test(patterns_beyond_the_limits_are_refused),
        cmocka_unit_test(a_backslash_makes_the_next_character_literal),
        cmocka_unit_test(a_thousand_routes_are_all_found),
        cmocka_unit_test(many_dead_ends_do_not_multiply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
