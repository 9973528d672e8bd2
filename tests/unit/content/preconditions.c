#include "../check.h"

#include "content/preconditions.h"

#define F(text) DZ_LIT(text)
static const dz_validators current = {
    .exists = true, .etag = {"\"x\"", 3}, .has_modified = true, .modified = 784111777};
static const dz_validators nothing = {.exists = false};
static const dz_validators bare = {.exists = true};
static const char *const now = "Sun, 06 Nov 1994 08:49:37 GMT";

static int check(dz_conditions c, dz_method method, const dz_validators *v)
{
    return dz_preconditions_check(&c, method, v, 784111800);
}

static void no_condition_lets_everything_through(void **state)
{
    (void)state;
    assert_int_equal(check((dz_conditions){0}, DZ_GET, &current), 0);
    assert_int_equal(check((dz_conditions){0}, DZ_PUT, &nothing), 0);
}

static void methods_that_do_not_read_are_refused_instead_of_304(void **state)
{
    (void)state;
    const dz_conditions c = {.if_none_match = F("\"x\"")};
    assert_int_equal(check(c, DZ_GET, &current), 304);
    assert_int_equal(check(c, DZ_HEAD, &current), 304);
    assert_int_equal(check(c, DZ_PUT, &current), 412);
    assert_int_equal(check(c, DZ_DELETE, &current), 412);
    const dz_conditions date = {.if_modified_since = dz_slice_of(now)};
    assert_int_equal(check(date, DZ_GET, &current), 304);
    assert_int_equal(check(date, DZ_PUT, &current), 0); /* defined for GET and HEAD only */
}

static void a_star_asks_whether_there_is_anything(void **state)
{
    (void)state;
    assert_int_equal(check((dz_conditions){.if_match = F("*")}, DZ_PUT, &current), 0);
    assert_int_equal(check((dz_conditions){.if_match = F(" * ")}, DZ_PUT, &bare), 0);
    assert_int_equal(check((dz_conditions){.if_match = F("*")}, DZ_PUT, &nothing), 412);
    assert_int_equal(check((dz_conditions){.if_none_match = F("*")}, DZ_PUT, &bare), 412);
    assert_int_equal(check((dz_conditions){.if_none_match = F("*")}, DZ_PUT, &nothing), 0);
    assert_int_equal(check((dz_conditions){.if_match = F("\"x\"")}, DZ_PUT, &nothing), 412);
}

static void dates_need_a_date_to_compare_with(void **state)
{
    (void)state;
    const dz_conditions c = {.if_modified_since = dz_slice_of(now),
                             .if_unmodified_since = dz_slice_of("Sat, 05 Nov 1994 08:49:37 GMT")};
    assert_int_equal(check(c, DZ_GET, &bare), 0);
    assert_int_equal(check(c, DZ_GET, &current), 412);
}

static bool holds(const char *value, dz_validators v)
{
    return dz_if_range_holds(dz_slice_of(value), &v, 784111800);
}

static void if_range_compares_strongly(void **state)
{
    (void)state;
    dz_validators v = current;
    assert_true(holds(NULL, v));
    assert_true(holds("\"x\"", v));
    assert_false(holds("W/\"x\"", v));
    assert_false(holds("\"x\", \"y\"", v));
    assert_false(holds("", v));
    assert_false(holds(now, v)); /* the date may hide a change within its second */
    v.strong_date = true;
    assert_true(holds(now, v));
    assert_false(holds("Sun, 06 Nov 1994 08:49:38 GMT", v));
    v.etag = F("W/\"x\"");
    assert_false(holds("W/\"x\"", v));
    assert_false(holds("\"x\"", v));
}

static void a_tag_is_made_of_visible_bytes(void **state)
{
    (void)state;
    assert_true(dz_etag_valid(F("")));
    assert_true(dz_etag_valid(F("a,b!\\\xc3\xa9")));
    assert_false(dz_etag_valid(F("a b")));
    assert_false(dz_etag_valid(F("a\"b")));
    assert_false(dz_etag_valid(F("a\r\nb")));
    assert_false(dz_etag_valid(F("a\x7f")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_condition_lets_everything_through),
        cmocka_unit_test(methods_that_do_not_read_are_refused_instead_of_304),
        cmocka_unit_test(a_star_asks_whether_there_is_anything),
        cmocka_unit_test(dates_need_a_date_to_compare_with),
        cmocka_unit_test(if_range_compares_strongly),
        cmocka_unit_test(a_tag_is_made_of_visible_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
