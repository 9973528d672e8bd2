#include "../check.h"

#include "app/pattern.h"

#include <donmaz/error.h>

#include <stdio.h>

static dz_pattern pattern;

static void parse(const char *text)
{
    assert_int_equal(dz_pattern_parse(&pattern, text), 0);
}

static void refused(const char *text)
{
    if (dz_pattern_parse(&pattern, text) != DZ_E_INVALID)
        fail_msg("taken as a pattern: %s", text);
}

static void assert_segment(size_t i, dz_segment_kind kind, const char *shape)
{
    assert_true(i < pattern.segment_count);
    assert_int_equal(pattern.segments[i].kind, kind);
    assert_slice(pattern.segments[i].shape, shape);
}

static void a_pattern_is_taken_apart_into_segments(void **state)
{
    (void)state;
    parse("/users/:id/:from-:to.x/*rest");
    assert_int_equal(pattern.segment_count, 4);
    assert_segment(0, DZ_SEGMENT_LITERAL, "users");
    assert_segment(1, DZ_SEGMENT_PARAM, "/");
    assert_segment(2, DZ_SEGMENT_MIXED, "/-/.x");
    assert_segment(3, DZ_SEGMENT_WILDCARD, "");
    static const char *const names[] = {"id", "from", "to", "rest"};
    assert_int_equal(pattern.param_count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_slice(pattern.names[i], names[i]);
}

static void the_root_has_no_segment_and_a_trailing_slash_makes_none(void **state)
{
    (void)state;
    parse("/");
    assert_int_equal(pattern.segment_count, 0);
    parse("/a/");
    assert_int_equal(pattern.segment_count, 1);
    assert_segment(0, DZ_SEGMENT_LITERAL, "a");
    /* Nothing of one pattern is left in the next. */
    parse("/:x/:y");
    parse("/b");
    assert_int_equal(pattern.param_count, 0);
    assert_segment(0, DZ_SEGMENT_LITERAL, "b");
}

static void a_backslash_takes_the_next_character_literally(void **state)
{
    (void)state;
    parse("/a\\:b/\\*c/\\(\\)\\[\\]\\{\\}\\+\\!\\?\\\\");
    assert_segment(0, DZ_SEGMENT_LITERAL, "a:b");
    assert_segment(1, DZ_SEGMENT_LITERAL, "*c");
    assert_segment(2, DZ_SEGMENT_LITERAL, "()[]{}+!?\\");
    parse("/\xc3\xbc/%20"); /* UTF-8, and text that is encoded */
    assert_segment(0, DZ_SEGMENT_LITERAL, "\xc3\xbc");
    assert_segment(1, DZ_SEGMENT_LITERAL, "%20");
}

static void what_other_routers_give_a_meaning_is_refused(void **state)
{
    (void)state;
    for (const char *c = "()[]{}+!?*"; *c; c++) {
        char text[8];
        snprintf(text, sizeof text, "/a%cb", *c);
        refused(text);
    }
    refused("/:id?");
    refused("/:id(\\d+)");
}

static void what_is_no_path_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",     "users", "//",    "/a//b", "/a b", "/a#b", "/a\tb",
                                      "/a\n", "/\x7f", "/a\\/", "/a\\",  "/\\",  "*"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refused(bad[i]);
    assert_int_equal(dz_pattern_parse(&pattern, NULL), DZ_E_INVALID);
}

static void a_parameter_needs_a_name_of_its_own_and_text_between(void **state)
{
    (void)state;
    static const char *const bad[] = {"/:",     "/:1a", "/:-", "/:a:b", "/:a/:a", "/:a-:a",
                                      "/:a/*a", "/*",   "/*1", "/*a/b", "/*a-b",  "/:\xc3\xbc"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refused(bad[i]);
    parse("/:a/:A/:_/:a1");
    assert_int_equal(pattern.param_count, 4);
}

/* "/" and `count` times `each`, with a number in its place when it has one. */
static const char *repeat(const char *each, unsigned count)
{
    static char text[8192];
    size_t len = 0;
    for (unsigned i = 0; i < count; i++) {
        char piece[32];
        snprintf(piece, sizeof piece, "%s%u", each, i);
        len += (size_t)snprintf(text + len, sizeof text - len, "%s", piece);
    }
    return text;
}

static void the_limits_are_kept_to_the_last_byte(void **state)
{
    (void)state;
    parse(repeat("/s", DZ_PATTERN_SEGMENTS));
    assert_int_equal(pattern.segment_count, DZ_PATTERN_SEGMENTS);
    refused(repeat("/s", DZ_PATTERN_SEGMENTS + 1));
    parse(repeat("/:p", DZ_PATTERN_PARAMS));
    assert_int_equal(pattern.param_count, DZ_PATTERN_PARAMS);
    refused(repeat("/:p", DZ_PATTERN_PARAMS + 1));
    char text[DZ_PATTERN_BYTES + 3];
    text[0] = '/';
    memset(text + 1, 'a', DZ_PATTERN_BYTES + 1);
    text[DZ_PATTERN_BYTES + 2] = '\0';
    refused(text);
    text[DZ_PATTERN_BYTES + 1] = '\0';
    parse(text);
    assert_int_equal(pattern.segments[0].shape.len, DZ_PATTERN_BYTES);
}

/* --- matching inside a segment --- */

static dz_slice values[DZ_PATTERN_PARAMS];

static size_t match(const char *shape, const char *segment)
{
    return dz_shape_match(dz_slice_of(shape), dz_slice_of(segment), values);
}

static void a_segment_is_matched_from_the_left_and_must_end_as_the_shape(void **state)
{
    (void)state;
    assert_int_equal(match("/-/", "IST-BER-X"), 2);
    assert_slice(values[0], "IST");
    assert_slice(values[1], "BER-X");
    assert_int_equal(match("v/.json", "v1.2.json"), 1);
    assert_slice(values[0], "1.2");
    assert_int_equal(match("v/.json", "v1.2.jso"), 0);
    assert_int_equal(match("v/.json", "x1.json"), 0);
    assert_int_equal(match("v/.json", "v"), 0);
    assert_int_equal(match("/--/-/", "a--b--c"), 3);
    assert_slice(values[1], "b");
    assert_slice(values[2], "-c");
}

static void a_parameter_holds_at_least_one_byte(void **state)
{
    (void)state;
    static const char *const segments[] = {"", "-", "-b", "a-"};
    for (size_t i = 0; i < sizeof segments / sizeof segments[0]; i++)
        assert_int_equal(match("/-/", segments[i]), 0);
    assert_int_equal(match("/-/", "--b"), 2); /* the first is "-" */
    assert_slice(values[0], "-");
    assert_int_equal(match("x/x", "xx"), 0);
    assert_int_equal(match("x/x", "xxx"), 1);
}

/* What makes a backtracking matcher take for ever: this one needs one pass a literal. */
static void a_hostile_segment_takes_no_longer_than_its_length(void **state)
{
    (void)state;
    enum { LEN = 1 << 20 };
    char *segment = malloc(LEN);
    assert_non_null(segment);
    memset(segment, 'a', LEN);
    const char *shape = "/a/a/a/a/a/a/a/a/a/a/a/a/a/a/b";
    assert_int_equal(dz_shape_match(dz_slice_of(shape), dz_slice_make(segment, LEN), values), 0);
    segment[LEN - 1] = 'b';
    assert_int_equal(dz_shape_match(dz_slice_of(shape), dz_slice_make(segment, LEN), values), 15);
    free(segment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pattern_is_taken_apart_into_segments),
        cmocka_unit_test(the_root_has_no_segment_and_a_trailing_slash_makes_none),
        cmocka_unit_test(a_backslash_takes_the_next_character_literally),
        cmocka_unit_test(what_other_routers_give_a_meaning_is_refused),
        cmocka_unit_test(what_is_no_path_is_refused),
        cmocka_unit_test(a_parameter_needs_a_name_of_its_own_and_text_between),
        cmocka_unit_test(the_limits_are_kept_to_the_last_byte),
        cmocka_unit_test(a_segment_is_matched_from_the_left_and_must_end_as_the_shape),
        cmocka_unit_test(a_parameter_holds_at_least_one_byte),
        cmocka_unit_test(a_hostile_segment_takes_no_longer_than_its_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
