#include "../check.h"

#include "content/range.h"

static int parse(const char *field, uint64_t size, dz_range *ranges)
{
    return dz_range_parse(dz_slice_of(field), size, ranges);
}

static void assert_one(const char *field, uint64_t size, uint64_t start, uint64_t len)
{
    dz_range ranges[DZ_RANGES_MAX];
    assert_int_equal(parse(field, size, ranges), 1);
    assert_int_equal(ranges[0].start, start);
    assert_int_equal(ranges[0].len, len);
}

static void a_range_is_cut_to_what_there_is(void **state)
{
    (void)state;
    assert_one("bytes=0-0", 10, 0, 1);
    assert_one("bytes=0-9", 10, 0, 10);
    assert_one("bytes=3-", 10, 3, 7);
    assert_one("bytes=3-99", 10, 3, 7);
    assert_one("bytes=-4", 10, 6, 4);
    assert_one("bytes=-99", 10, 0, 10);
    assert_one("bytes=9-18446744073709551615", 10, 9, 1);
    assert_one("bytes=9-99999999999999999999999999", 10, 9, 1);
    assert_one("bytes=-99999999999999999999999999", 10, 0, 10);
    assert_one("bytes=0-0", UINT64_MAX, 0, 1);
    assert_one("bytes=0-", UINT64_MAX, 0, UINT64_MAX);
    assert_one("bytes=18446744073709551614-", UINT64_MAX, UINT64_MAX - 1, 1);
    assert_one("bytes=, 1-2 ,,", 10, 1, 2);
    assert_one("bytes=20-30, 1-2, 10-", 10, 1, 2);
}

static void what_lies_outside_can_t_be_satisfied(void **state)
{
    (void)state;
    dz_range ranges[DZ_RANGES_MAX];
    assert_int_equal(parse("bytes=10-", 10, ranges), DZ_RANGE_UNSATISFIABLE);
    assert_int_equal(parse("bytes=-0", 10, ranges), DZ_RANGE_UNSATISFIABLE);
    assert_int_equal(parse("bytes=10-11,20-,-0", 10, ranges), DZ_RANGE_UNSATISFIABLE);
    assert_int_equal(parse("bytes=99999999999999999999-", 10, ranges), DZ_RANGE_UNSATISFIABLE);
}

static void what_is_malformed_or_too_much_is_ignored(void **state)
{
    (void)state;
    static const char *const fields[] = {
        "",
        "bytes",
        "bytes=",
        "bytes=,",
        "bytes=x",
        "bytes=1",
        "bytes=-",
        "bytes=2-1",
        "bytes=1-x",
        "bytes=1--2",
        "bytes=1 -2",
        "bytes=+1-2",
        "byte=0-1",
        "bytes =0-1",
        "bytes=0-1;2-3",
        "bytes=0x1-2",
        "bytes=0-5,5-9",
        "bytes=0-9,x",
        "bytes=0-6,0-6",
        "bytes=0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0"};
    dz_range ranges[DZ_RANGES_MAX];
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (parse(fields[i], 10, ranges) != 0)
            fail_msg("%s was taken", fields[i]);
    assert_int_equal(parse("bytes=0-", 0, ranges), 0);
    assert_int_equal(parse("bytes=-1", 0, ranges), 0);
}

static void several_keep_their_order(void **state)
{
    (void)state;
    dz_range ranges[DZ_RANGES_MAX];
    assert_int_equal(parse("bytes=-1,2-3,50-,0-0", 10, ranges), 3);
    assert_int_equal(ranges[0].start, 9);
    assert_int_equal(ranges[1].start, 2);
    assert_int_equal(ranges[1].len, 2);
    assert_int_equal(ranges[2].start, 0);
    /* 16: as many as are allowed. */
    assert_int_equal(
        parse("bytes=0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0", 100, ranges),
        DZ_RANGES_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_is_cut_to_what_there_is),
        cmocka_unit_test(what_lies_outside_can_t_be_satisfied),
        cmocka_unit_test(what_is_malformed_or_too_much_is_ignored),
        cmocka_unit_test(several_keep_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
