/* Who is let in: thresholds, classes, levels; and that what comes in is counted out. */
#include "../check.h"

#include "shed/guard.h"

#include "base/clock.h"

static dz_guard guard;

static void start(const dz_guard_options *options)
{
    dz_guard_options full = *options;
    if (full.limit.max == 0)
        full.limit =
            (dz_limit_options){.start = 256, .min = 1, .max = 100000, .wait_ns = 5 * DZ_MS};
    dz_guard_init(&guard, &full, DZ_SEC);
}

static dz_shed_reason ask(dz_shed_class class, uint64_t ms, uint64_t lag_ms, uint64_t rss)
{
    const dz_guard_load load = {.now = DZ_SEC + ms * DZ_MS, .lag_ns = lag_ms * DZ_MS, .rss = rss};
    return dz_guard_admit(&guard, class, &load);
}

static dz_shed_level level(void)
{
    return (dz_shed_level)atomic_load(&guard.level);
}

static void a_fixed_limit_is_kept(void **state)
{
    (void)state;
    start(&(dz_guard_options){.in_flight_max = 10});
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(ask(DZ_SHED_NORMAL, i, 0, 0), DZ_SHED_ADMITTED);
    assert_int_equal(ask(DZ_SHED_NORMAL, 11, 0, 0), DZ_SHED_BY_IN_FLIGHT);
    dz_guard_leave(&guard, DZ_SEC + 12 * DZ_MS, NULL);
    assert_int_equal(ask(DZ_SHED_NORMAL, 13, 0, 0), DZ_SHED_ADMITTED);
    assert_int_equal(ask(DZ_SHED_NORMAL, 13, 0, 0), DZ_SHED_BY_IN_FLIGHT);
    assert_int_equal(atomic_load(&guard.in_flight), 10);
    assert_int_equal(atomic_load(&guard.admitted), 11);
    assert_int_equal(atomic_load(&guard.refused[DZ_SHED_BY_IN_FLIGHT]), 2);
}

static void low_goes_first_and_high_last(void **state)
{
    (void)state;
    start(&(dz_guard_options){.in_flight_max = 10});
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(ask(DZ_SHED_LOW, i, 0, 0), DZ_SHED_ADMITTED);
    assert_int_equal(ask(DZ_SHED_LOW, 5, 0, 0), DZ_SHED_BY_IN_FLIGHT);
    for (unsigned i = 5; i < 10; i++)
        assert_int_equal(ask(DZ_SHED_NORMAL, i, 0, 0), DZ_SHED_ADMITTED);
    assert_int_equal(ask(DZ_SHED_NORMAL, 10, 0, 0), DZ_SHED_BY_IN_FLIGHT);
    for (unsigned i = 10; i < 15; i++)
        assert_int_equal(ask(DZ_SHED_HIGH, i, 0, 0), DZ_SHED_ADMITTED);
    assert_int_equal(ask(DZ_SHED_HIGH, 15, 0, 0), DZ_SHED_BY_IN_FLIGHT);
    assert_int_equal(atomic_load(&guard.refused_low), 1);
    assert_int_equal(atomic_load(&guard.refused_high), 1);
}

static void never_means_never(void **state)
{
    (void)state;
    start(&(dz_guard_options){.in_flight_max = 1, .lag_max_ns = DZ_MS, .rss_max = 1});
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(ask(DZ_SHED_NEVER, i, 5000, UINT64_MAX), DZ_SHED_ADMITTED);
    assert_int_equal(atomic_load(&guard.in_flight), 0);
}

static void lag_and_memory_refuse_by_class(void **state)
{
    (void)state;
    start(&(dz_guard_options){.lag_max_ns = 100 * DZ_MS, .rss_max = 1000});
    assert_int_equal(ask(DZ_SHED_LOW, 1, 80, 800), DZ_SHED_ADMITTED);
    assert_int_equal(ask(DZ_SHED_LOW, 1, 81, 0), DZ_SHED_BY_LAG);
    assert_int_equal(ask(DZ_SHED_LOW, 1, 0, 801), DZ_SHED_BY_RSS);
    assert_int_equal(ask(DZ_SHED_NORMAL, 1, 100, 1000), DZ_SHED_ADMITTED);
    assert_int_equal(ask(DZ_SHED_NORMAL, 1, 101, 0), DZ_SHED_BY_LAG);
    assert_int_equal(ask(DZ_SHED_NORMAL, 1, 0, 1001), DZ_SHED_BY_RSS);
    assert_int_equal(ask(DZ_SHED_HIGH, 1, 125, 1250), DZ_SHED_ADMITTED);
    assert_int_equal(ask(DZ_SHED_HIGH, 1, 126, 0), DZ_SHED_BY_LAG);
    assert_int_equal(ask(DZ_SHED_HIGH, 1, 0, 1251), DZ_SHED_BY_RSS);
}

static void memory_that_is_not_known_refuses_nobody(void **state)
{
    (void)state;
    start(&(dz_guard_options){.rss_max = 1000});
    assert_int_equal(ask(DZ_SHED_LOW, 1, 0, 0), DZ_SHED_ADMITTED);
}

static void connections_are_closed_before_requests_are_refused(void **state)
{
    (void)state;
    start(&(dz_guard_options){.in_flight_max = 10, .close_every = 2});
    unsigned closed = 0;
    for (unsigned i = 0; i < 8; i++) {
        ask(DZ_SHED_NORMAL, i, 0, 0);
        closed += dz_guard_wants_close(&guard);
    }
    assert_int_equal(level(), DZ_SHED_CALM);
    assert_int_equal(closed, 0);
    for (unsigned i = 8; i < 10; i++) {
        assert_int_equal(ask(DZ_SHED_NORMAL, i, 0, 0), DZ_SHED_ADMITTED);
        closed += dz_guard_wants_close(&guard);
    }
    assert_int_equal(level(), DZ_SHED_PRESSURE);
    assert_int_equal(closed, 1);
    assert_false(dz_guard_overloaded(&guard, DZ_SEC + 10 * DZ_MS));
    assert_int_equal(ask(DZ_SHED_NORMAL, 10, 0, 0), DZ_SHED_BY_IN_FLIGHT);
    assert_int_equal(level(), DZ_SHED_REFUSING);
    assert_true(dz_guard_overloaded(&guard, DZ_SEC + 10 * DZ_MS));
}

static void a_refusal_is_forgotten_after_a_second(void **state)
{
    (void)state;
    start(&(dz_guard_options){.lag_max_ns = 100 * DZ_MS});
    ask(DZ_SHED_NORMAL, 0, 200, 0);
    assert_true(dz_guard_overloaded(&guard, DZ_SEC + 1000 * DZ_MS));
    assert_false(dz_guard_overloaded(&guard, DZ_SEC + 1001 * DZ_MS));
    ask(DZ_SHED_NORMAL, 1002, 0, 0);
    assert_int_equal(level(), DZ_SHED_CALM);
}

static void refusing_what_may_be_refused_is_no_overload(void **state)
{
    (void)state;
    start(&(dz_guard_options){.lag_max_ns = 100 * DZ_MS});
    assert_int_equal(ask(DZ_SHED_LOW, 0, 90, 0), DZ_SHED_BY_LAG);
    assert_false(dz_guard_overloaded(&guard, DZ_SEC));
}

static void close_every_0_closes_nothing(void **state)
{
    (void)state;
    start(&(dz_guard_options){.in_flight_max = 1});
    for (unsigned i = 0; i < 100; i++) {
        ask(DZ_SHED_NORMAL, i, 0, 0);
        assert_false(dz_guard_wants_close(&guard));
    }
}

static void a_wait_is_too_long_only_beyond_its_limit(void **state)
{
    (void)state;
    start(&(dz_guard_options){.wait_max_ns = 50 * DZ_MS});
    assert_false(dz_guard_is_late(&guard, 50 * DZ_MS));
    assert_true(dz_guard_is_late(&guard, 50 * DZ_MS + 1));
    start(&(dz_guard_options){.in_flight_max = 5});
    assert_false(dz_guard_is_late(&guard, UINT64_MAX));
    start(&(dz_guard_options){.adaptive = true});
    assert_false(dz_guard_is_late(&guard, 20 * DZ_MS));
    assert_true(dz_guard_is_late(&guard, 21 * DZ_MS));
}

static void what_came_too_late_is_refused_and_counted_out(void **state)
{
    (void)state;
    start(&(dz_guard_options){.in_flight_max = 5});
    ask(DZ_SHED_NORMAL, 0, 0, 0);
    dz_guard_late(&guard, DZ_SHED_NORMAL, DZ_SEC + DZ_MS);
    assert_int_equal(atomic_load(&guard.in_flight), 0);
    assert_int_equal(atomic_load(&guard.refused[DZ_SHED_BY_WAIT]), 1);
    assert_int_equal(atomic_load(&guard.late), 1);
    assert_true(dz_guard_overloaded(&guard, DZ_SEC + DZ_MS));
}

static void the_wait_worth_serving_grows_with_the_requests(void **state)
{
    (void)state;
    start(&(dz_guard_options){.adaptive = true});
    dz_limit_route route = {0};
    for (uint64_t ms = 0; ms < 5000; ms += 100) {
        assert_int_equal(ask(DZ_SHED_NORMAL, ms, 0, 0), DZ_SHED_ADMITTED);
        uint64_t now = DZ_SEC + (ms + 90) * DZ_MS;
        const dz_limit_sample sample = {
            .route = &route, .admitted = now - 90 * DZ_MS, .served = 90 * DZ_MS};
        dz_guard_leave(&guard, now, &sample);
    }
    assert_false(dz_guard_is_late(&guard, 200 * DZ_MS));
    assert_true(dz_guard_is_late(&guard, 201 * DZ_MS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fixed_limit_is_kept),
        cmocka_unit_test(low_goes_first_and_high_last),
        cmocka_unit_test(never_means_never),
        cmocka_unit_test(lag_and_memory_refuse_by_class),
        cmocka_unit_test(memory_that_is_not_known_refuses_nobody),
        cmocka_unit_test(connections_are_closed_before_requests_are_refused),
        cmocka_unit_test(a_refusal_is_forgotten_after_a_second),
        cmocka_unit_test(refusing_what_may_be_refused_is_no_overload),
        cmocka_unit_test(close_every_0_closes_nothing),
        cmocka_unit_test(a_wait_is_too_long_only_beyond_its_limit),
        cmocka_unit_test(what_came_too_late_is_refused_and_counted_out),
        cmocka_unit_test(the_wait_worth_serving_grows_with_the_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
