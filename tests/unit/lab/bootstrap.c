#include "lab/bootstrap.h"

#include "../check.h"

#include <math.h>

static void median_of_odd_and_even_counts(void **state)
{
    (void)state;
    double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2};
    assert_true(dz_lab_median(odd, 3) == 2);
    assert_true(dz_lab_median(even, 4) == 2.5);
    assert_true(isnan(dz_lab_median(odd, 0)));
}

static void fewer_than_three_values_have_no_interval(void **state)
{
    (void)state;
    double values[] = {1, 2}, low, high;
    assert_false(dz_lab_median_interval(values, 2, &low, &high));
    assert_false(dz_lab_ratio_interval(values, 2, values, 2, &low, &high));
}

static void the_interval_holds_the_median_and_stays_within_the_values(void **state)
{
    (void)state;
    const double values[] = {10, 12, 11, 14, 9, 10.5, 11.5};
    double low, high;
    assert_true(dz_lab_median_interval(values, 7, &low, &high));
    assert_true(9 <= low && low <= 11 && 11 <= high && high <= 14);
}

static void equal_values_give_an_interval_of_no_width(void **state)
{
    (void)state;
    const double values[] = {5, 5, 5, 5};
    double low, high;
    assert_true(dz_lab_median_interval(values, 4, &low, &high));
    assert_true(low == 5 && high == 5);
}

static void the_same_values_give_the_same_interval(void **state)
{
    (void)state;
    const double values[] = {1, 4, 2, 8, 5, 7};
    double low, high, low_again, high_again;
    assert_true(dz_lab_median_interval(values, 6, &low, &high));
    assert_true(dz_lab_median_interval(values, 6, &low_again, &high_again));
    assert_true(low == low_again && high == high_again);
}

/* For normal values the interval of the median must hold the true one about 95 times in 100. */
static void the_interval_covers_the_truth_about_as_often_as_it_says(void **state)
{
    (void)state;
    unsigned covered = 0;
    uint64_t random = 88172645463325252u;
    for (int trial = 0; trial < 60; trial++) {
        double values[25], low, high;
        for (int i = 0; i < 25; i++) {
            values[i] = 0;
            for (int k = 0; k < 12; k++) { /* the sum of twelve uniforms is close to normal */
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                values[i] += (double)(random >> 11) / 9007199254740992.0;
            }
        }
        assert_true(dz_lab_median_interval(values, 25, &low, &high));
        covered += low <= 6 && 6 <= high;
    }
    assert_in_range(covered, 53, 60);
}

static void a_ratio_that_is_not_one_is_told_from_noise(void **state)
{
    (void)state;
    const double slow[] = {10, 11, 10.5, 10.2}, fast[] = {5, 5.2, 5.1, 4.9};
    double low, high;
    assert_true(dz_lab_ratio_interval(fast, 4, slow, 4, &low, &high));
    assert_true(low > 0.4 && high < 0.6);
    assert_true(dz_lab_ratio_interval(slow, 4, slow, 4, &low, &high));
    assert_true(low <= 1 && high >= 1);
}

static void a_ratio_to_zero_is_not_defined(void **state)
{
    (void)state;
    const double some[] = {1, 2, 3}, zeros[] = {0, 0, 0};
    double low, high;
    assert_false(dz_lab_ratio_interval(some, 3, zeros, 3, &low, &high));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(median_of_odd_and_even_counts),
        cmocka_unit_test(fewer_than_three_values_have_no_interval),
        cmocka_unit_test(the_interval_holds_the_median_and_stays_within_the_values),
        cmocka_unit_test(equal_values_give_an_interval_of_no_width),
        cmocka_unit_test(the_same_values_give_the_same_interval),
        cmocka_unit_test(the_interval_covers_the_truth_about_as_often_as_it_says),
        cmocka_unit_test(a_ratio_that_is_not_one_is_told_from_noise),
        cmocka_unit_test(a_ratio_to_zero_is_not_defined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
