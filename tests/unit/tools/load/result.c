#include "../../check.h"

#include "load/result.h"

#include <errno.h>

static void buckets_are_ordered_and_fine_to_one_in_64(void **state)
{
    (void)state;
    for (uint64_t value = 1; value < UINT64_C(1) << 40; value += value / 97 + 1) {
        size_t bucket = load_bucket(value);
        uint64_t start = load_bucket_start(bucket), end = load_bucket_start(bucket + 1);
        assert_true(bucket < LOAD_BUCKETS);
        assert_true(start <= value && value < end);
        assert_true(end - start <= start / 64 + 1);
    }
    assert_int_equal(load_bucket(0), 0);
    assert_int_equal(load_bucket(UINT64_MAX), LOAD_BUCKETS - 1);
}

static void a_series_keeps_every_value_in_order(void **state)
{
    (void)state;
    load_series series = {0};
    enum { COUNT = 2 * LOAD_CHUNK_VALUES + 3 };
    for (uint64_t i = 0; i < COUNT; i++)
        assert_int_equal(load_series_add(&series, i * i), 0);
    assert_int_equal(series.count, COUNT);
    uint64_t *copy = malloc(COUNT * sizeof *copy);
    assert_non_null(copy);
    load_series_copy(&series, copy);
    for (uint64_t i = 0; i < COUNT; i++)
        assert_int_equal(copy[i], i * i);
    free(copy);
    load_series_free(&series);
}

static void errors_are_counted_by_class_and_by_kind(void **state)
{
    (void)state;
    load_totals a = {0}, b = {0};
    load_totals_error(&a, LOAD_FAIL_ERRNO, ECONNRESET, 2);
    load_totals_error(&a, LOAD_FAIL_ERRNO, EPIPE, 1);
    load_totals_error(&b, LOAD_FAIL_ERRNO, ECONNRESET, 3);
    load_totals_error(&b, LOAD_FAIL_TIMEOUT, 0, 4);
    load_totals_error(&b, LOAD_FAIL_BODY, 0, 5);
    load_totals_error(&b, LOAD_FAIL_STATUS, 503, 6);
    load_totals_add(&a, &b);
    assert_int_equal(a.errors, 10); /* neither bodies nor statuses: there was a response */
    assert_int_equal(a.timeouts, 4);
    assert_int_equal(a.mismatches, 5);
    assert_int_equal(a.unexpected, 6);
    assert_int_equal(a.class_count, 5);
    assert_int_equal(a.classes[0].count, 5);
    assert_string_equal(load_failure_key(LOAD_FAIL_ERRNO, ECONNRESET), "ECONNRESET");
    assert_string_equal(load_failure_key(LOAD_FAIL_TIMEOUT, 0), "TIMEOUT");
}

static void more_kinds_of_error_than_there_is_room_for_are_still_counted(void **state)
{
    (void)state;
    load_totals t = {0};
    for (int i = 0; i < 2 * LOAD_ERRORS; i++)
        load_totals_error(&t, LOAD_FAIL_STATUS, 100 + i, 1);
    uint64_t sum = 0;
    for (size_t i = 0; i < t.class_count; i++)
        sum += t.classes[i].count;
    assert_int_equal(sum, 2 * LOAD_ERRORS);
}

static void statuses_are_summed_by_range(void **state)
{
    (void)state;
    load_totals t = {.completed = 10};
    t.statuses[200] = 4;
    t.statuses[204] = 1;
    t.statuses[302] = 2;
    t.statuses[503] = 3;
    assert_int_equal(load_totals_statuses(&t, 200, 299), 5);
    assert_int_equal(load_totals_non2xx(&t), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_are_ordered_and_fine_to_one_in_64),
        cmocka_unit_test(a_series_keeps_every_value_in_order),
        cmocka_unit_test(errors_are_counted_by_class_and_by_kind),
        cmocka_unit_test(more_kinds_of_error_than_there_is_room_for_are_still_counted),
        cmocka_unit_test(statuses_are_summed_by_range)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
