#include "../check.h"

#include "http/date.h"

#include <time.h>

enum { NOW = 1785542400 }; /* 2026-08-01 */

static void formats_like_the_c_library(void **state)
{
    (void)state;
    for (int64_t t = INT64_C(-62167219200); t < INT64_C(253402300799); t += INT64_C(86399) * 997) {
        char got[DZ_DATE_LEN], want[64];
        struct tm tm;
        time_t seconds = (time_t)t;
        assert_non_null(gmtime_r(&seconds, &tm));
        dz_date_format(got, t);
        if (tm.tm_year + 1900 < 1000) /* strftime does not pad these */
            continue;
        assert_int_equal(strftime(want, sizeof want, "%a, %d %b %Y %H:%M:%S GMT", &tm),
                         DZ_DATE_LEN);
        assert_slice(dz_slice_make(got, DZ_DATE_LEN), want);
    }
}

static void out_of_range_is_clamped(void **state)
{
    (void)state;
    char text[DZ_DATE_LEN];
    dz_date_format(text, INT64_MAX);
    assert_slice(dz_slice_make(text, sizeof text), "Fri, 31 Dec 9999 23:59:59 GMT");
    dz_date_format(text, INT64_MIN);
    assert_slice(dz_slice_make(text, sizeof text), "Sat, 01 Jan 0000 00:00:00 GMT");
}

static void the_three_forms_name_one_time(void **state)
{
    (void)state;
    static const char *const forms[] = {"Sun, 06 Nov 1994 08:49:37 GMT",
                                        "Sunday, 06-Nov-94 08:49:37 GMT",
                                        "Sun Nov  6 08:49:37 1994"};
    for (size_t i = 0; i < 3; i++) {
        int64_t t = 0;
        assert_true(dz_date_parse(dz_slice_of(forms[i]), NOW, &t));
        assert_int_equal(t, 784111777);
    }
}

static void what_is_formatted_parses_back(void **state)
{
    (void)state;
    for (int64_t t = 0; t < INT64_C(253402300799); t += INT64_C(86399) * 997) {
        char text[DZ_DATE_LEN];
        int64_t back = -1;
        dz_date_format(text, t);
        assert_true(dz_date_parse(dz_slice_make(text, sizeof text), NOW, &back));
        assert_int_equal(back, t);
    }
}

static void two_digit_years_are_at_most_fifty_ahead(void **state)
{
    (void)state;
    int64_t t;
    assert_true(dz_date_parse(DZ_LIT("Sunday, 01-Nov-76 00:00:00 GMT"), NOW, &t));
    assert_true(t > NOW);
    assert_true(dz_date_parse(DZ_LIT("Sunday, 01-Nov-77 00:00:00 GMT"), NOW, &t));
    assert_true(t < NOW);
}

static void no_real_time_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "Sun",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        "Sun, 31 Jun 1994 08:49:37 GMT",
        "Sun, 29 Feb 1900 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov -994 08:49:37 GMT",
        "Som, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06-Nov-94 08:49:37 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sun Nov  6 08:49:37 94",
        "Sun Nov    08:49:37 1994",
        "784111777",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t t;
        assert_false(dz_date_parse(dz_slice_of(bad[i]), NOW, &t));
    }
    int64_t t;
    assert_true(dz_date_parse(DZ_LIT("Tue, 29 Feb 2000 23:59:60 GMT"), NOW, &t));
}

static void the_date_line_changes_with_the_second(void **state)
{
    (void)state;
    dz_date_cache cache = {0};
    assert_slice(dz_date_line(&cache, 0), "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n");
    assert_slice(dz_date_line(&cache, 784111777), "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    assert_slice(dz_date_line(&cache, 784111777), "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    assert_slice(dz_date_line(&cache, 784111778), "Date: Sun, 06 Nov 1994 08:49:38 GMT\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_like_the_c_library),
        cmocka_unit_test(out_of_range_is_clamped),
        cmocka_unit_test(the_three_forms_name_one_time),
        cmocka_unit_test(what_is_formatted_parses_back),
        cmocka_unit_test(two_digit_years_are_at_most_fifty_ahead),
        cmocka_unit_test(no_real_time_is_refused),
        cmocka_unit_test(the_date_line_changes_with_the_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
