/* What is counted of requests: by loop, route and status. */
#include "../check.h"
#include "../alloc.h"

#include "app/meter.h"
#include "base/clock.h"

#include <time.h>

/* --- a clock that can be set (--wrap=clock_gettime) --- */

static uint64_t real_time_ns; /* 0: the machine's */
static unsigned asked;

int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);

int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    if (clock != CLOCK_REALTIME || real_time_ns == 0)
        return __real_clock_gettime(clock, out);
    asked++;
    *out = (struct timespec){.tv_sec = (time_t)(real_time_ns / DZ_SEC),
                             .tv_nsec = (long)(real_time_ns % DZ_SEC)};
    return 0;
}

/* --- counts --- */

enum { LOOPS = 3, ROUTES = 4 };

static dz_meter *make(void)
{
    dz_meter *meter = dz_meter_new(LOOPS, ROUTES);
    assert_non_null(meter);
    return meter;
}

static void counts_of_all_loops_are_added_and_routes_kept_apart(void **state)
{
    (void)state;
    dz_meter *meter = make();
    for (unsigned loop = 0; loop < LOOPS; loop++)
        for (unsigned i = 0; i <= loop; i++)
            dz_meter_note(meter, loop, 2, 200, UINT64_C(1000) * (loop + 1));
    dz_meter_note(meter, LOOPS - 1, ROUTES - 1, 200, 5);
    dz_meter_note(meter, 0, 2, 404, 5);
    assert_int_equal(dz_meter_count(meter, 2, 200), 1 + 2 + 3);
    assert_int_equal(dz_meter_count(meter, 2, 404), 1);
    assert_int_equal(dz_meter_count(meter, ROUTES - 1, 200), 1);
    assert_int_equal(dz_meter_count(meter, 0, 200), 0);
    assert_int_equal(dz_meter_count(meter, 1, 200), 0);
    dz_meter_free(meter);
}

static void durations_are_kept_by_loop_and_route(void **state)
{
    (void)state;
    dz_meter *meter = make();
    dz_meter_note(meter, 1, 3, 200, 7000);
    dz_meter_note(meter, 1, 3, 500, 9000);
    const dz_histogram *latency = dz_meter_latency(meter, 1, 3);
    assert_int_equal(dz_histogram_count(latency), 2);
    assert_int_equal(dz_histogram_sum(latency), 16000);
    assert_int_equal(dz_histogram_max(latency), 9000);
    assert_int_equal(dz_histogram_count(dz_meter_latency(meter, 1, 2)), 0);
    assert_int_equal(dz_histogram_count(dz_meter_latency(meter, 0, 3)), 0);
    assert_int_equal(dz_histogram_count(dz_meter_latency(meter, 2, 3)), 0);
    dz_meter_free(meter);
}

static void a_status_beyond_the_table_counts_as_gone_and_touches_nothing_else(void **state)
{
    (void)state;
    dz_meter *meter = make();
    static const int odd[] = {0, -1, 99, 600, 999, INT32_MAX};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        dz_meter_note(meter, 1, 1, odd[i], 1);
    assert_int_equal(dz_meter_count(meter, 1, DZ_STATUS_GONE), sizeof odd / sizeof odd[0]);
    dz_meter_note(meter, 1, 1, DZ_STATUS_FIRST, 1);
    dz_meter_note(meter, 1, 1, DZ_STATUS_FIRST + DZ_STATUS_COUNT - 1, 1);
    uint64_t all = 0;
    for (size_t route = 0; route < ROUTES; route++)
        for (int status = DZ_STATUS_FIRST; status < DZ_STATUS_FIRST + DZ_STATUS_COUNT; status++)
            all += dz_meter_count(meter, route, status);
    assert_int_equal(all, sizeof odd / sizeof odd[0] + 2);
    assert_int_equal(dz_meter_count(meter, 1, 100), 1);
    assert_int_equal(dz_meter_count(meter, 1, 599), 1);
    dz_meter_free(meter);
}

static void without_memory_there_is_no_meter_and_nothing_is_kept(void **state)
{
    (void)state;
    dz_meter *meter;
    int failures = 0;
    with_few_allocations(meter = dz_meter_new(LOOPS, ROUTES), meter != NULL, ++failures > 0);
    assert_int_equal(failures, 3);
    assert_int_equal(dz_meter_count(meter, 0, 200), 0);
    dz_meter_free(meter);
    dz_meter_free(NULL);
}

/* --- the time of day --- */

static void the_clock_is_asked_once_a_second_and_its_steps_are_followed(void **state)
{
    (void)state;
    dz_loop_meter loop = {0};
    real_time_ns = 1000 * DZ_SEC;
    asked = 0;
    uint64_t before = dz_now(), first = dz_meter_wall_clock(&loop, before), after = dz_now();
    assert_in_range(first, 1000 * DZ_SEC - (after - before), 1000 * DZ_SEC);
    assert_int_equal(asked, 1);
    assert_int_equal(dz_meter_wall_clock(&loop, before + DZ_SEC - 1), first + DZ_SEC - 1);
    assert_int_equal(asked, 1);
    real_time_ns = 500 * DZ_SEC; /* someone set the clock back */
    uint64_t later = before + DZ_SEC, then = dz_now();
    uint64_t second = dz_meter_wall_clock(&loop, later);
    assert_int_equal(asked, 2);
    /* What it says now, plus as far as `later` is ahead of now. */
    assert_in_range(second, 500 * DZ_SEC + later - dz_now(), 500 * DZ_SEC + later - then);
    real_time_ns = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_of_all_loops_are_added_and_routes_kept_apart),
        cmocka_unit_test(durations_are_kept_by_loop_and_route),
        cmocka_unit_test(a_status_beyond_the_table_counts_as_gone_and_touches_nothing_else),
        cmocka_unit_test(without_memory_there_is_no_meter_and_nothing_is_kept),
        cmocka_unit_test(the_clock_is_asked_once_a_second_and_its_steps_are_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
