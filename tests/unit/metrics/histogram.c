#include "../check.h"

#include "metrics/histogram.h"

#include <math.h>
#include <pthread.h>

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 20;
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void assert_within_one_percent(uint64_t got, uint64_t exact)
{
    double off = fabs((double)got - (double)exact);
    if (off > (double)exact * 0.01)
        fail_msg("%llu is not within 1 %% of %llu", (unsigned long long)got,
                 (unsigned long long)exact);
}

static void an_empty_histogram_says_zero(void **state)
{
    (void)state;
    dz_histogram *h = dz_histogram_new();
    assert_non_null(h);
    assert_int_equal(dz_histogram_count(h), 0);
    assert_int_equal(dz_histogram_percentile(h, 99), 0);
    assert_int_equal(dz_histogram_percentile(h, 100), 0);
    assert_int_equal(dz_histogram_max(h), 0);
    assert_true(dz_histogram_mean(h) == 0);
    dz_histogram_free(h);
    dz_histogram_free(NULL);
}

static void steps_follow_each_other_without_gap_or_overlap(void **state)
{
    (void)state;
    size_t last = 0;
    for (uint64_t v = 1; v < 1 << 20; v++) {
        size_t step = dz_histogram_step(v);
        assert_true(step == last || step == last + 1);
        last = step;
    }
    for (int bit = 7; bit < DZ_HISTOGRAM_MAX_BITS; bit++) {
        uint64_t edge = UINT64_C(1) << bit;
        assert_int_equal(dz_histogram_step(edge), dz_histogram_step(edge - 1) + 1);
    }
    assert_int_equal(dz_histogram_step(UINT64_MAX), DZ_HISTOGRAM_STEPS - 1);
}

static void small_values_are_exact(void **state)
{
    (void)state;
    dz_histogram *h = dz_histogram_new();
    for (uint64_t v = 0; v < 128; v++) {
        dz_histogram_reset(h);
        dz_histogram_record(h, v);
        dz_histogram_record(h, 1000);
        assert_int_equal(dz_histogram_percentile(h, 50), v);
        assert_int_equal(dz_histogram_percentile(h, 0), v);
    }
    dz_histogram_free(h);
}

static void percentiles_are_within_one_percent_of_the_exact_ones(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    static uint64_t values[COUNT];
    dz_histogram *h = dz_histogram_new();
    uint64_t seed = 7, sum = 0;
    for (size_t i = 0; i < COUNT; i++) { /* spread over the whole range of magnitudes */
        values[i] = next_random(&seed) >> (next_random(&seed) % 40);
        dz_histogram_record(h, values[i]);
        sum += values[i];
    }
    qsort(values, COUNT, sizeof *values, ascending);
    const double percents[] = {0.1, 1, 10, 25, 50, 75, 90, 97.5, 99, 99.9, 99.99};
    for (size_t i = 0; i < sizeof percents / sizeof *percents; i++) {
        size_t rank = (size_t)ceil(percents[i] / 100 * COUNT);
        assert_within_one_percent(dz_histogram_percentile(h, percents[i]), values[rank - 1]);
    }
    assert_int_equal(dz_histogram_percentile(h, 100), values[COUNT - 1]);
    assert_int_equal(dz_histogram_max(h), values[COUNT - 1]);
    assert_int_equal(dz_histogram_sum(h), sum);
    assert_int_equal(dz_histogram_count(h), COUNT);
    dz_histogram_free(h);
}

static void odd_percentages_are_clamped(void **state)
{
    (void)state;
    dz_histogram *h = dz_histogram_new();
    dz_histogram_record(h, 10);
    dz_histogram_record(h, 20);
    assert_int_equal(dz_histogram_percentile(h, -5), 10);
    assert_int_equal(dz_histogram_percentile(h, 500), 20);
    assert_int_equal(dz_histogram_percentile(h, NAN), 20);
    dz_histogram_free(h);
}

static void values_beyond_the_range_keep_the_maximum_exact(void **state)
{
    (void)state;
    dz_histogram *h = dz_histogram_new();
    dz_histogram_record(h, UINT64_MAX);
    assert_int_equal(dz_histogram_max(h), UINT64_MAX);
    assert_int_equal(dz_histogram_percentile(h, 100), UINT64_MAX);
    assert_int_equal(dz_histogram_count(h), 1);
    dz_histogram_free(h);
}

static void merging_adds_counts_sum_and_maximum(void **state)
{
    (void)state;
    dz_histogram *a = dz_histogram_new(), *b = dz_histogram_new();
    dz_histogram_record(a, 5);
    dz_histogram_record(b, 5);
    dz_histogram_record(b, 70);
    dz_histogram_merge(a, b);
    assert_int_equal(dz_histogram_count(a), 3);
    assert_int_equal(dz_histogram_sum(a), 80);
    assert_int_equal(dz_histogram_max(a), 70);
    assert_int_equal(dz_histogram_count(b), 2);
    dz_histogram_free(a);
    dz_histogram_free(b);
}

static void counts_up_to_a_limit(void **state)
{
    (void)state;
    dz_histogram *h = dz_histogram_new();
    for (uint64_t v = 1; v <= 100; v++)
        dz_histogram_record(h, v);
    assert_int_equal(dz_histogram_count_at_most(h, 0), 0);
    assert_int_equal(dz_histogram_count_at_most(h, 50), 50);
    assert_int_equal(dz_histogram_count_at_most(h, UINT64_MAX), 100);
    dz_histogram_free(h);
}

enum { THREADS = 4, EACH = 50000 };

static void *record_many(void *arg)
{
    dz_histogram *h = arg;
    for (uint64_t i = 0; i < EACH; i++)
        dz_histogram_record_shared(h, i % 1000);
    return NULL;
}

static void shared_recording_loses_nothing(void **state)
{
    (void)state;
    dz_histogram *h = dz_histogram_new();
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, record_many, h), 0);
    while (dz_histogram_count(h) < EACH) /* a reader beside the writers */
        assert_true(dz_histogram_percentile(h, 100) < 1000);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(dz_histogram_count(h), THREADS * EACH);
    assert_int_equal(dz_histogram_sum(h), (uint64_t)THREADS * EACH / 1000 * 499500);
    assert_int_equal(dz_histogram_max(h), 999);
    dz_histogram_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_histogram_says_zero),
        cmocka_unit_test(steps_follow_each_other_without_gap_or_overlap),
        cmocka_unit_test(small_values_are_exact),
        cmocka_unit_test(percentiles_are_within_one_percent_of_the_exact_ones),
        cmocka_unit_test(odd_percentages_are_clamped),
        cmocka_unit_test(values_beyond_the_range_keep_the_maximum_exact),
        cmocka_unit_test(merging_adds_counts_sum_and_maximum),
        cmocka_unit_test(counts_up_to_a_limit),
        cmocka_unit_test(shared_recording_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
