/* What the library learns of a route from its requests' CPU time. */
#include "../check.h"
#include "app/route.h"

static const uint64_t MS = 1000000;

/* A request that was measured. */
static dz_route_class after(dz_route *route, uint64_t cpu_us, int times)
{
    for (int i = 0; i < times; i++) {
        const dz_fiber fiber = {
            .cpu_ns = cpu_us * 1000, .wall_ns = cpu_us * 1000, .measure_cpu = true};
        dz_route_learn(route, &fiber, true);
    }
    return dz_route_now(route);
}

static dz_route_class after_rescues(dz_route *route, uint64_t cpu_ms, int times)
{
    for (int i = 0; i < times; i++) {
        const dz_fiber fiber = {.cpu_ns = cpu_ms * MS, .wall_ns = cpu_ms * MS, .rescued = true};
        dz_route_learn(route, &fiber, true);
    }
    return dz_route_now(route);
}

static void one_outlier_moves_nothing(void **state)
{
    (void)state;
    dz_route route = {0};
    assert_int_equal(after(&route, 300, 100), DZ_ROUTE_LIGHT);
    assert_int_equal(after(&route, 500000, 1), DZ_ROUTE_LIGHT);
    assert_int_equal(after(&route, 300, 100), DZ_ROUTE_LIGHT);
    assert_int_equal(after(&route, 5000, 3), DZ_ROUTE_LIGHT);
}

static void a_route_whose_requests_compute_moves_up(void **state)
{
    (void)state;
    dz_route medium = {0}, heavy = {0};
    assert_int_equal(after(&medium, 6000, 4), DZ_ROUTE_MEDIUM);
    assert_int_equal(after_rescues(&heavy, 200, 4), DZ_ROUTE_HEAVY);
    assert_int_equal(after(&medium, 40000, 3), DZ_ROUTE_MEDIUM);
    assert_int_equal(after(&medium, 40000, 1), DZ_ROUTE_HEAVY);
}

static void half_of_the_requests_over_is_not_more_over_than_not(void **state)
{
    (void)state;
    dz_route route = {0};
    for (int i = 0; i < 200; i++) {
        (void)after(&route, 3000, 1);
        assert_int_equal(after(&route, 100, 1), DZ_ROUTE_LIGHT);
    }
}

static void a_route_moves_down_only_when_clearly_below_and_not_at_once(void **state)
{
    (void)state;
    dz_route route = {0};
    assert_int_equal(after(&route, 50000, 4), DZ_ROUTE_HEAVY);
    assert_int_equal(after(&route, 20000, 200), DZ_ROUTE_HEAVY); /* between 18 and 25 ms */
    assert_int_equal(after(&route, 5000, 15), DZ_ROUTE_HEAVY);
    assert_int_equal(after(&route, 5000, 1), DZ_ROUTE_MEDIUM);
    assert_int_equal(after(&route, 800, 200), DZ_ROUTE_MEDIUM); /* between 0.7 and 1 ms */
    assert_int_equal(after(&route, 100, 15), DZ_ROUTE_MEDIUM);
    assert_int_equal(after(&route, 100, 1), DZ_ROUTE_LIGHT);
}

static void a_long_past_is_forgotten_soon(void **state)
{
    (void)state;
    dz_route route = {0};
    assert_int_equal(after(&route, 5000, 1000), DZ_ROUTE_MEDIUM);
    assert_int_equal(after(&route, 100, 64), DZ_ROUTE_LIGHT);
}

static void a_declared_route_stays_within_what_was_declared(void **state)
{
    (void)state;
    dz_route blocking = {0}, on_loop = {0};
    dz_blocking(&blocking);
    dz_inline(&on_loop);
    assert_int_equal(dz_route_now(&blocking), DZ_ROUTE_HEAVY);
    assert_int_equal(after(&blocking, 100, 1000), DZ_ROUTE_MEDIUM); /* never light */
    assert_int_equal(after(&blocking, 60000, 4), DZ_ROUTE_HEAVY);
    assert_int_equal(after_rescues(&on_loop, 200, 100), DZ_ROUTE_LIGHT);
    assert_null(dz_blocking(NULL));
    assert_null(dz_inline(NULL));
}

static void with_rescue_off_nothing_is_learned_but_counted(void **state)
{
    (void)state;
    dz_route route = {0};
    const dz_fiber fiber = {.cpu_ns = 90 * MS, .wall_ns = 100 * MS, .rescued = true};
    for (int i = 0; i < 10; i++)
        dz_route_learn(&route, &fiber, false);
    assert_int_equal(dz_route_now(&route), DZ_ROUTE_LIGHT);
    assert_int_equal(route.requests, 10);
    assert_int_equal(route.rescues, 10);
    assert_int_equal(route.computed_ns, 1000 * MS);
    assert_int_equal(route.cpu_max_ns, 90 * MS);
}

static void requests_are_measured_only_after_a_suspect_one(void **state)
{
    (void)state;
    dz_route route = {0};
    assert_false(dz_route_wants_probe(&route));
    const dz_fiber quick = {.wall_ns = MS / 10}, slow = {.wall_ns = 2 * MS};
    dz_route_learn(&route, &quick, true);
    assert_false(dz_route_wants_probe(&route));
    dz_route_learn(&route, &slow, true);
    int probes = 0;
    while (dz_route_wants_probe(&route))
        probes++;
    assert_int_equal(probes, 16);
    /* It was the machine, not the handler: measured, it is light. */
    dz_route_learn(&route, &slow, true);
    assert_true(dz_route_wants_probe(&route));
    assert_int_equal(after(&route, 100, 16), DZ_ROUTE_LIGHT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_outlier_moves_nothing),
        cmocka_unit_test(a_route_whose_requests_compute_moves_up),
        cmocka_unit_test(half_of_the_requests_over_is_not_more_over_than_not),
        cmocka_unit_test(a_route_moves_down_only_when_clearly_below_and_not_at_once),
        cmocka_unit_test(a_long_past_is_forgotten_soon),
        cmocka_unit_test(a_declared_route_stays_within_what_was_declared),
        cmocka_unit_test(with_rescue_off_nothing_is_learned_but_counted),
        cmocka_unit_test(requests_are_measured_only_after_a_suspect_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
