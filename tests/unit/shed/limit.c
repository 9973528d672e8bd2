/* The limit in simulated services: it must find what they can do, follow when that changes, and
 * leave alone what is no overload. Time is simulated, so the figures are the same on any machine.
 */
#include "../check.h"

#include "simulate.h"

#include "base/clock.h"

#include <math.h>

static sim_result result;
static dz_limit limits[SIM_LOOPS];

#define SECONDS(from, to) &result, from, to

static const dz_limit_options defaults = {
    .start = 256, .min = 1, .max = 100000, .wait_ns = 5 * DZ_MS};

static void run_from(const sim_world *world, const double *starts)
{
    static dz_limit_route routes[SIM_LOOPS * SIM_ROUTES];
    sim_limiter limiters[SIM_LOOPS];
    memset(routes, 0, sizeof routes);
    for (unsigned i = 0; i < world->loops; i++) {
        dz_limit_options options = defaults;
        options.start = starts ? starts[i] : defaults.start;
        dz_limit_init(&limits[i], &options, 0);
        limiters[i] = sim_limiter_of(&limits[i]);
    }
    sim_run(world, limiters, routes, &result);
}

static void run(const sim_world *world)
{
    run_from(world, NULL);
}

static double mean_limit(unsigned from, unsigned to)
{
    double sum = 0;
    for (unsigned i = from; i < to; i++)
        sum += result.seconds[i].limit;
    return sum / (to - from);
}

static double ripple(unsigned from, unsigned to)
{
    double mean = mean_limit(from, to), sum = 0;
    for (unsigned i = from; i < to; i++)
        sum += (result.seconds[i].limit - mean) * (result.seconds[i].limit - mean);
    return sqrt(sum / (to - from)) / mean;
}

#define assert_between(value, low, high)                                                           \
    do {                                                                                           \
        double value_ = (value);                                                                   \
        if (!(value_ >= (low) && value_ <= (high)))                                                \
            fail_msg(#value " is %g, not between %g and %g", value_, (double)(low),                \
                     (double)(high));                                                              \
    } while (0)

static const sim_world heavy = {.threads = 2,
                                .loops = 1,
                                .route_count = 1,
                                .routes = {{.share = 1, .service_ms = 5}},
                                .seconds = 30,
                                .rate = 1200,
                                .seed = 3};

static void three_times_what_it_can_do(void **state)
{
    (void)state;
    run(&heavy);
    assert_between(sim_goodput(SECONDS(2, 30)), 0.98 * 400, 400.5);
    assert_between(sim_worst_p99(SECONDS(2, 30)), 5, 15); /* three times the time of one alone */
    assert_between(mean_limit(5, 30), 3, 6);              /* two served, and two that wait */
}

static void it_settles_within_two_seconds_of_the_start(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        sim_world world = heavy;
        world.seconds = 4;
        world.seed = seed;
        run(&world);
        assert_between(sim_goodput(SECONDS(1, 4)), 0.95 * 400, 402);
        assert_between(sim_worst_p99(SECONDS(2, 4)), 5, 20);
    }
}

static void it_does_not_swing(void **state)
{
    (void)state;
    sim_world world = heavy;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        world.seed = seed;
        world.routes[0].scatter = (double)(seed % 2);
        run(&world);
        assert_between(ripple(5, 30), 0, 0.3);
    }
}

static void with_random_times_too(void **state)
{
    (void)state;
    sim_world world = heavy;
    world.routes[0].scatter = 1;
    run(&world);
    assert_between(sim_goodput(SECONDS(2, 30)), 0.92 * 400, 1.05 * 400);
    /* One alone has a p99 of 4.6 times its mean: 23 ms. */
    assert_between(sim_p99(SECONDS(2, 30)), 5, 2 * 23);
}

static void below_capacity_nothing_is_refused(void **state)
{
    (void)state;
    sim_world world = heavy;
    world.rate = 0.6 * 400;
    run(&world);
    assert_int_equal(sim_refused(SECONDS(0, 30)), 0);
    world.rate = 0.8 * 400; /* chance alone makes a queue now and then */
    run(&world);
    assert_between(sim_refused(SECONDS(0, 30)) / (30 * 320.0), 0, 0.015);
}

static void a_step_up_of_the_load_is_met_at_once(void **state)
{
    (void)state;
    sim_world world = heavy;
    world.rate = 200;
    world.rate_2 = 1200;
    world.step_at = 15;
    run(&world);
    assert_int_equal(sim_refused(SECONDS(0, 15)), 0);
    assert_between(sim_goodput(SECONDS(15, 30)), 0.97 * 400, 402);
    assert_between(sim_worst_p99(SECONDS(15, 16)), 0, 60);
    assert_between(sim_worst_p99(SECONDS(17, 30)), 0, 15.5);
}

static void a_service_that_slows_down_gets_less(void **state)
{
    (void)state;
    sim_world world = heavy;
    world.slower_2 = 4;
    world.step_at = 15;
    run(&world);
    assert_between(sim_goodput(SECONDS(17, 30)), 0.9 * 100, 101);
    assert_between(sim_worst_p99(SECONDS(20, 30)), 20, 60);
}

static void a_service_that_quickens_gets_more(void **state)
{
    (void)state;
    sim_world world = heavy;
    world.slower_2 = 0.25;
    world.step_at = 15;
    world.rate = 4000;
    run(&world);
    assert_between(sim_goodput(SECONDS(17, 30)), 0.95 * 1600, 1601);
    assert_between(sim_worst_p99(SECONDS(20, 30)), 1, 10);
}

static void short_requests_may_come_in_bursts(void **state)
{
    (void)state;
    sim_world world = {.threads = 1,
                       .loops = 1,
                       .route_count = 1,
                       .routes = {{.share = 1, .service_ms = 0.01, .scatter = 0.2}},
                       .seconds = 20,
                       .rate = 50000,
                       .burst = 200,
                       .seed = 5};
    run(&world);
    double refused = sim_refused(SECONDS(2, 20));
    assert_between(refused / (18 * 50000.0), 0, 0.05);
}

static void after_long_requests_short_ones_are_let_in_soon(void **state)
{
    (void)state;
    sim_world world = heavy;
    world.slower_2 = 0.002; /* 10 us instead of 5 ms */
    world.step_at = 15;
    world.rate_2 = 30000;
    world.burst = 100;
    run(&world);
    assert_between(sim_goodput(SECONDS(17, 30)), 0.97 * 30000, 1.03 * 30000);
}

static void noise_does_not_cost_goodput(void **state)
{
    (void)state;
    sim_world world = heavy;
    world.hiccup = 50; /* of each second: 5% of the capacity is gone */
    run(&world);
    assert_between(sim_goodput(SECONDS(2, 30)), 0.9 * 0.95 * 400, 400);
}

static void a_queue_behind_the_service_is_seen(void **state)
{
    (void)state;
    /* A database serves 10 at a time in 10 ms each; the threads wait for nobody. */
    sim_world world = {.threads = 2,
                       .behind = 10,
                       .loops = 1,
                       .route_count = 1,
                       .routes = {{.share = 1, .service_ms = 0.1, .behind_ms = 10}},
                       .seconds = 60,
                       .rate = 3000,
                       .seed = 9};
    run(&world);
    assert_between(sim_goodput(SECONDS(5, 60)), 0.95 * 1000, 1.03 * 1000);
    /* Alone it is 46 ms; with everything let in it would be seconds. */
    assert_between(sim_p99(SECONDS(10, 60)), 46, 100);
    assert_between(mean_limit(10, 60), 10, 50);
}

static void a_slow_database_is_no_queue(void **state)
{
    (void)state;
    /* It takes ten times as long, but as many at a time as wanted: nothing is gained by refusing.
     */
    sim_world world = {.threads = 2,
                       .loops = 1,
                       .route_count = 1,
                       .routes = {{.share = 1, .service_ms = 0.1, .behind_ms = 5}},
                       .seconds = 30,
                       .rate = 2000,
                       .step_at = 10,
                       .behind_2 = 10,
                       .seed = 9};
    run(&world);
    assert_int_equal(sim_refused(SECONDS(0, 10)), 0);
    assert_between(sim_goodput(SECONDS(13, 30)), 0.97 * 2000, 1.03 * 2000);
}

static void loops_that_share_the_threads_get_equal_shares(void **state)
{
    (void)state;
    sim_world world = heavy;
    world.loops = 2;
    world.rate = 2400;
    world.seconds = 40;
    run_from(&world, (double[]){2, 60});
    double served[2] = {0};
    for (unsigned i = 10; i < 40; i++)
        for (unsigned loop = 0; loop < 2; loop++)
            served[loop] += result.seconds[i].loop_served[loop];
    assert_between(sim_goodput(SECONDS(2, 40)), 0.97 * 400, 402);
    assert_between(served[0] / served[1], 0.8, 1.25);
}

static void routes_share_by_what_is_asked_not_by_what_they_cost(void **state)
{
    (void)state;
    /* One in ten costs 50 ms, the others a tenth of a ms: of each the same part is served. */
    sim_world world = heavy;
    world.route_count = 2;
    world.routes[0] = (sim_route){.share = 0.9, .service_ms = 0.1, .scatter = 0.5};
    world.routes[1] = (sim_route){.share = 0.1, .service_ms = 50, .scatter = 0.5};
    run(&world);
    double part[2], served[2] = {0}, offered[2] = {0};
    for (unsigned i = 5; i < 30; i++)
        for (unsigned r = 0; r < 2; r++) {
            served[r] += result.seconds[i].route_served[r];
            offered[r] += result.seconds[i].route_offered[r];
        }
    for (unsigned r = 0; r < 2; r++)
        part[r] = served[r] / offered[r];
    assert_between(part[0] / part[1], 0.9, 1.1);
    /* 5.09 ms in the mean. So few may wait that a thread is idle now and then. */
    assert_between(sim_goodput(SECONDS(5, 30)), 0.8 * 393, 1.1 * 393);
}

/* --- without a simulation --- */

static void requests_that_never_end_are_made_room_for(void **state)
{
    (void)state;
    /* 300 streams stay open; a short request each ms still gets through. */
    dz_limit limit;
    dz_limit_route route = {0};
    uint64_t now = DZ_SEC;
    unsigned refused = 0;
    dz_limit_init(&limit, &defaults, now);
    for (unsigned i = 0; i < 20000; i++) {
        now += DZ_MS;
        if (!dz_limit_has_room(&limit, 1)) {
            dz_limit_refuse(&limit, now);
            refused += i > 5000;
            continue;
        }
        dz_limit_enter(&limit, now);
        if (i < 300)
            continue;
        const dz_limit_sample sample = {.route = &route, .admitted = now, .served = 50000};
        dz_limit_leave(&limit, now + 50000, &sample);
    }
    assert_between(limit.in_flight, 256, 300);
    assert_int_equal(refused, 0);
}

static void at_least_one_is_always_let_in(void **state)
{
    (void)state;
    dz_limit limit;
    const dz_limit_options tiny = {.start = 0, .min = 0, .max = 0.1, .wait_ns = 1};
    dz_limit_init(&limit, &tiny, 0);
    assert_true(dz_limit_has_room(&limit, 0.01));
    dz_limit_enter(&limit, 5);
    assert_false(dz_limit_has_room(&limit, 1));
    dz_limit_leave(&limit, 9, NULL);
    dz_limit_leave(&limit, 9, NULL); /* one too many does not wrap */
    assert_true(dz_limit_has_room(&limit, 1));
}

static void a_clock_that_steps_back_does_no_harm(void **state)
{
    (void)state;
    dz_limit limit;
    dz_limit_route route = {0};
    dz_limit_init(&limit, &defaults, DZ_SEC);
    for (unsigned i = 0; i < 1000; i++) {
        uint64_t now = DZ_SEC + (i % 2 ? 0 : i * DZ_MS);
        dz_limit_enter(&limit, now);
        const dz_limit_sample sample = {.route = &route, .admitted = now, .served = 0};
        dz_limit_leave(&limit, now, &sample);
    }
    assert_int_equal(limit.in_flight, 0);
    assert_true(limit.limit >= 1 && limit.limit <= 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_times_what_it_can_do),
        cmocka_unit_test(it_settles_within_two_seconds_of_the_start),
        cmocka_unit_test(it_does_not_swing),
        cmocka_unit_test(with_random_times_too),
        cmocka_unit_test(below_capacity_nothing_is_refused),
        cmocka_unit_test(a_step_up_of_the_load_is_met_at_once),
        cmocka_unit_test(a_service_that_slows_down_gets_less),
        cmocka_unit_test(a_service_that_quickens_gets_more),
        cmocka_unit_test(short_requests_may_come_in_bursts),
        cmocka_unit_test(after_long_requests_short_ones_are_let_in_soon),
        cmocka_unit_test(noise_does_not_cost_goodput),
        cmocka_unit_test(a_queue_behind_the_service_is_seen),
        cmocka_unit_test(a_slow_database_is_no_queue),
        cmocka_unit_test(loops_that_share_the_threads_get_equal_shares),
        cmocka_unit_test(routes_share_by_what_is_asked_not_by_what_they_cost),
        cmocka_unit_test(requests_that_never_end_are_made_room_for),
        cmocka_unit_test(at_least_one_is_always_let_in),
        cmocka_unit_test(a_clock_that_steps_back_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
