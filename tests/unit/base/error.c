#include "../check.h"

#include <donmaz/error.h>

#include <errno.h>

static void every_code_has_its_text_and_name(void **state)
{
    (void)state;
    assert_string_equal(dz_strerror(0), "success");
    assert_string_equal(dz_strerror(DZ_E_TIMEOUT), "timed out");
    assert_string_equal(dz_error_name(DZ_E_TIMEOUT), "DZ_E_TIMEOUT");
    assert_non_null(strstr(dz_strerror(DZ_E_NOT_OWNED), "copy it first"));
}

static void errno_values_keep_their_meaning(void **state)
{
    (void)state;
    assert_string_equal(dz_strerror(-ECONNRESET), "Connection reset by peer");
    assert_string_equal(dz_error_name(-ECONNRESET), "ECONNRESET");
}

static void unknown_codes_are_said_to_be_unknown(void **state)
{
    (void)state;
    assert_string_equal(dz_strerror(-4000), "unknown error");
    assert_string_equal(dz_strerror(7), "unknown error");
    assert_string_equal(dz_error_name(-99999), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_its_text_and_name),
        cmocka_unit_test(errno_values_keep_their_meaning),
        cmocka_unit_test(unknown_codes_are_said_to_be_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
