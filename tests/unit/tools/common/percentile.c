#include "../../check.h"

#include "common/percentile.h"

#include <math.h>

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed ^ (*seed >> 29);
}

static void sorts_arrays_of_any_size_and_spread(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 2, 100, 4095, 4096, 50000};
    static uint64_t values[50000];
    uint64_t seed = 7;
    for (unsigned shift = 0; shift < 64; shift += 9) {
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            uint64_t sum = 0, sorted_sum = 0;
            for (size_t i = 0; i < counts[c]; i++)
                sum += values[i] = next_random(&seed) >> shift;
            dz_sort_u64(values, counts[c]);
            for (size_t i = 0; i < counts[c]; i++) {
                sorted_sum += values[i];
                if (i > 0)
                    assert_true(values[i - 1] <= values[i]);
            }
            assert_true(sum == sorted_sum);
        }
    }
}

static void percentiles_are_values_of_the_sample_by_nearest_rank(void **state)
{
    (void)state;
    static uint64_t values[1000];
    for (size_t i = 0; i < 1000; i++)
        values[i] = i + 1;
    assert_int_equal(dz_percentile(values, 1000, 0), 1);
    assert_int_equal(dz_percentile(values, 1000, 0.001), 1);
    assert_int_equal(dz_percentile(values, 1000, 0.1), 1);
    assert_int_equal(dz_percentile(values, 1000, 0.11), 2);
    assert_int_equal(dz_percentile(values, 1000, 50), 500);
    assert_int_equal(dz_percentile(values, 1000, 97.5), 975);
    assert_int_equal(dz_percentile(values, 1000, 99.9), 999);
    assert_int_equal(dz_percentile(values, 1000, 99.99), 1000);
    assert_int_equal(dz_percentile(values, 1000, 100), 1000);
    assert_int_equal(dz_percentile(values, 3, 50), 2);
    assert_int_equal(dz_percentile(values, 1, 99.999), 1);
    assert_int_equal(dz_percentile(values, 0, 50), 0);
}

static void summary_of_a_known_sample(void **state)
{
    (void)state;
    const uint64_t values[] = {2, 4, 4, 4, 5, 5, 7, 9};
    dz_summary s = dz_summarise(values, 8);
    assert_int_equal(s.count, 8);
    assert_int_equal(s.min, 2);
    assert_int_equal(s.max, 9);
    assert_true(fabs(s.mean - 5) < 1e-12);
    assert_true(fabs(s.stddev - 2) < 1e-12);
    s = dz_summarise(values, 0);
    assert_true(s.count == 0 && s.max == 0 && s.mean == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorts_arrays_of_any_size_and_spread),
        cmocka_unit_test(percentiles_are_values_of_the_sample_by_nearest_rank),
        cmocka_unit_test(summary_of_a_known_sample)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
