#include "../check.h"

#include "http/negotiate.h"

static int weight(const char *field, const char *coding)
{
    return dz_accept_encoding(dz_slice_of(field), dz_slice_of(coding));
}

static void weights_follow_the_most_exact_entry(void **state)
{
    (void)state;
    assert_int_equal(weight("gzip", "gzip"), 1000);
    assert_int_equal(weight("GZIP;Q=0.5, br", "gzip"), 500);
    assert_int_equal(weight("br ; q=0.125 , *;q=0.2", "br"), 125);
    assert_int_equal(weight("br, *;q=0.2", "gzip"), 200);
    assert_int_equal(weight("*;q=0.2, gzip;q=0", "gzip"), 0);
    assert_int_equal(weight("br", "gzip"), 0);
    assert_int_equal(weight("xgzip, gzipx", "gzip"), 0);
    assert_int_equal(weight("gzip;level=1;q=0.3", "gzip"), 300);
    assert_int_equal(weight("", "gzip"), 0);
    assert_int_equal(weight(NULL, "gzip"), 0);
}

static void identity_is_taken_unless_refused(void **state)
{
    (void)state;
    assert_int_equal(weight(NULL, "identity"), 1000);
    assert_int_equal(weight("gzip", "identity"), 1000);
    assert_int_equal(weight("gzip, *;q=0.5", "identity"), 1000);
    assert_int_equal(weight("gzip, *;q=0", "identity"), 0);
    assert_int_equal(weight("identity;q=0", "identity"), 0);
    assert_int_equal(weight("*;q=0, identity;q=0.1", "identity"), 100);
}

static void malformed_weights_refuse(void **state)
{
    (void)state;
    static const char *const bad[] = {"gzip;q=",      "gzip;q=2",      "gzip;q=1.1", "gzip;q=-1",
                                      "gzip;q=.5",    "gzip;q=0.1234", "gzip;q=x",   "gzip;q=0,5",
                                      "gzip;q=1.001", "gzip;q=00"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(weight(bad[i], "gzip"), 0);
    assert_int_equal(weight("gzip;q=1.000", "gzip"), 1000);
    assert_int_equal(weight("gzip;q=0.", "gzip"), 0);
    assert_int_equal(weight("gzip;q=1.", "gzip"), 1000);
}

static bool match(const char *field, const char *etag, bool weak)
{
    return dz_etag_match(dz_slice_of(field), dz_slice_of(etag), weak);
}

static void etags_match_weakly_or_strongly(void **state)
{
    (void)state;
    assert_true(match("\"a\"", "\"a\"", false));
    assert_true(match("W/\"a\"", "\"a\"", true));
    assert_true(match("\"a\"", "W/\"a\"", true));
    assert_false(match("W/\"a\"", "W/\"a\"", false));
    assert_false(match("W/\"a\"", "\"a\"", false));
    assert_true(match("\"x,y\" , W/\"z\",\t\"a\"", "\"a\"", true));
    assert_true(match("\"x,y\"", "\"x,y\"", true));
    assert_true(match(" * ", "\"a\"", false));
    assert_true(match(",, \"a\"", "\"a\"", false));
}

static void malformed_lists_match_nothing_more(void **state)
{
    (void)state;
    static const char *const bad[] = {"",         "a",           "\"b\"", "\"a",      "w/\"a\"",
                                      "x, \"a\"", "\"b\" \"a\"", "\"A\"", "*, \"a\"", "\"a\"x"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(match(bad[i], "\"a\"", true));
    assert_false(match(NULL, "\"a\"", true));
    assert_false(match("*", "", true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_follow_the_most_exact_entry),
        cmocka_unit_test(identity_is_taken_unless_refused),
        cmocka_unit_test(malformed_weights_refuse),
        cmocka_unit_test(etags_match_weakly_or_strongly),
        cmocka_unit_test(malformed_lists_match_nothing_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
