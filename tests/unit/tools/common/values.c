#include "../../check.h"

#include "common/values.h"

#include <donmaz/error.h>

static uint64_t duration(const char *text)
{
    uint64_t ns = 1;
    assert_int_equal(dz_read_duration(dz_slice_of(text), &ns), 0);
    return ns;
}

static uint64_t bytes(const char *text)
{
    uint64_t n = 1;
    assert_int_equal(dz_read_bytes(dz_slice_of(text), &n), 0);
    return n;
}

static void reads_durations_in_any_unit(void **state)
{
    (void)state;
    assert_int_equal(duration("10"), UINT64_C(10000000000));
    assert_int_equal(duration("1.5s"), 1500000000);
    assert_int_equal(duration("500ms"), 500000000);
    assert_int_equal(duration("20us"), 20000);
    assert_int_equal(duration("7ns"), 7);
    assert_int_equal(duration("2m"), UINT64_C(120000000000));
    assert_int_equal(duration("1h"), UINT64_C(3600000000000));
    assert_int_equal(duration("0"), 0);
}

static void reads_sizes_in_powers_of_1024(void **state)
{
    (void)state;
    assert_int_equal(bytes("4096"), 4096);
    assert_int_equal(bytes("64k"), 65536);
    assert_int_equal(bytes("64KiB"), 65536);
    assert_int_equal(bytes("1.5M"), 1572864);
    assert_int_equal(bytes("2G"), UINT64_C(2147483648));
}

static void refuses_what_is_no_value(void **state)
{
    (void)state;
    static const char *const bad[] = {"",    "x",   "-1",   "1 s", " 1", "1ss",
                                      "inf", "nan", "0x10", "s",   "1e"};
    uint64_t n;
    double d;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(dz_read_duration(dz_slice_of(bad[i]), &n), DZ_E_FORMAT);
        assert_int_equal(dz_read_bytes(dz_slice_of(bad[i]), &n), DZ_E_FORMAT);
        assert_int_equal(dz_read_count(dz_slice_of(bad[i]), &n), DZ_E_FORMAT);
    }
    assert_int_equal(dz_read_number(dz_slice_of("1x"), &d), DZ_E_FORMAT);
    assert_int_equal(dz_read_number(dz_slice_of("-1.5e3"), &d), 0);
    assert_true(d == -1500);
    assert_int_equal(dz_read_number(dz_slice_of("1e999"), &d), DZ_E_TOO_LARGE);
    assert_int_equal(dz_read_duration(dz_slice_of("1e30"), &n), DZ_E_TOO_LARGE);
    assert_int_equal(dz_read_count(dz_slice_of("18446744073709551616"), &n), DZ_E_TOO_LARGE);
    assert_int_equal(dz_read_count(dz_slice_of("18446744073709551615"), &n), 0);
    assert_true(n == UINT64_MAX);
}

static const char *nearest(const char *name)
{
    static const char *const names[] = {"connections", "duration", "json", "warmup", "url"};
    const char *found = dz_nearest_name(dz_slice_of(name), names, 5);
    return found ? found : "none";
}

static void names_what_was_probably_meant(void **state)
{
    (void)state;
    assert_string_equal(nearest("conections"), "connections");
    assert_string_equal(nearest("duraiton"), "duration");
    assert_string_equal(nearest("conn"), "connections");
    assert_string_equal(nearest("josn"), "json");
    assert_string_equal(nearest("ulr"), "url");
    assert_string_equal(nearest("xyzzy"), "none");
    assert_string_equal(nearest(""), "none");
    assert_string_equal(
        nearest("a-name-that-is-much-longer-than-anything-that-was-ever-a-name-in-a-table"),
        "none");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads_durations_in_any_unit),
                                       cmocka_unit_test(reads_sizes_in_powers_of_1024),
                                       cmocka_unit_test(refuses_what_is_no_value),
                                       cmocka_unit_test(names_what_was_probably_meant)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
