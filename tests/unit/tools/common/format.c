#include "../../check.h"

#include "common/format.h"

static void counts_are_grouped_or_shortened(void **state)
{
    (void)state;
    assert_string_equal(dz_format_count(0).text, "0");
    assert_string_equal(dz_format_count(999).text, "999");
    assert_string_equal(dz_format_count(1234567).text, "1,234,567");
    assert_string_equal(dz_format_count(UINT64_MAX).text, "18,446,744,073,709,551,615");
    assert_string_equal(dz_format_short(999).text, "999");
    assert_string_equal(dz_format_short(1200).text, "1.2k");
    assert_string_equal(dz_format_short(251000).text, "251k");
    assert_string_equal(dz_format_short(999999).text, "1.0M");
    assert_string_equal(dz_format_number(25131.2).text, "25,131.2");
    assert_string_equal(dz_format_number(1540.946).text, "1,540.95");
    assert_string_equal(dz_format_number(2.999).text, "3");
}

static void sizes_use_powers_of_1000(void **state)
{
    (void)state;
    assert_string_equal(dz_format_bytes(0).text, "0 B");
    assert_string_equal(dz_format_bytes(999).text, "999 B");
    assert_string_equal(dz_format_bytes(2290000).text, "2.29 MB");
    assert_string_equal(dz_format_bytes(27900000).text, "27.9 MB");
    assert_string_equal(dz_format_bytes(999999).text, "1.00 MB");
}

static void durations_choose_their_unit(void **state)
{
    (void)state;
    assert_string_equal(dz_format_duration(870).text, "870 ns");
    assert_string_equal(dz_format_duration(12340).text, "12.3 us");
    assert_string_equal(dz_format_duration(4560000).text, "4.56 ms");
    assert_string_equal(dz_format_duration(999600000).text, "1.00 s");
    assert_string_equal(dz_format_duration(UINT64_C(3000000000)).text, "3 s");
    assert_string_equal(dz_format_duration(UINT64_C(125000000000)).text, "2m05s");
    assert_string_equal(dz_format_duration(UINT64_C(3900000000000)).text, "1h05m");
    assert_string_equal(dz_format_ms(34000).text, "0.034");
    assert_string_equal(dz_format_ms(12345678).text, "12.35");
    assert_string_equal(dz_format_ms(UINT64_C(1234560000)).text, "1234.6");
}

static void times_are_utc_with_milliseconds(void **state)
{
    (void)state;
    assert_string_equal(dz_format_time(UINT64_C(1700000000123000000)).text,
                        "2023-11-14T22:13:20.123Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(counts_are_grouped_or_shortened),
                                       cmocka_unit_test(sizes_use_powers_of_1000),
                                       cmocka_unit_test(durations_choose_their_unit),
                                       cmocka_unit_test(times_are_utc_with_milliseconds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
