#include "../check.h"

#include <doctor/queueing.h>

#include <donmaz/error.h>

static dz_queue_latency run(dz_queue_mode mode, unsigned cores, const dz_queue_route *routes,
                            size_t count)
{
    dz_queue_result r = {0};
    assert_int_equal(dz_queue_simulate(mode, DZ_QUEUE_EVEN, cores, routes, count, 20000, &r), 0);
    return r.all;
}

static void assert_near(double got, double want, double part)
{
    assert_true(got > want * (1 - part) && got < want * (1 + part));
}

/* One server, fixed times: N connections get a turn each. */
static void one_loop_serves_one_at_a_time(void **state)
{
    (void)state;
    dz_queue_route r = {.service_ms = 5, .connections = 10};
    dz_queue_latency plain = run(DZ_QUEUE_PLAIN, 4, &r, 1);
    assert_near(plain.rps, 200, 0.01);
    assert_near(plain.p50_ms, 50, 0.01);
    dz_queue_latency cluster = run(DZ_QUEUE_CLUSTER, 4, &r, 1);
    assert_near(cluster.rps, 800, 0.01);
}

/* Reference 1's shape: fast requests behind slow ones on one loop; workers take them out. */
static void workers_free_the_loop_for_short_requests(void **state)
{
    (void)state;
    dz_queue_route routes[] = {{.service_ms = 6, .connections = 2},
                               {.service_ms = 200, .connections = 2}};
    dz_queue_latency plain = run(DZ_QUEUE_PLAIN, 2, routes, 2);
    dz_queue_latency workers = run(DZ_QUEUE_WORKERS, 2, routes, 2);
    assert_true(plain.p50_ms > 200);
    assert_true(workers.p50_ms < 30);
    assert_true(workers.rps > 10 * plain.rps);
}

/* Which process gets which connection is chance: two heavy ones may meet in one. */
static void an_uneven_deal_makes_a_cluster_worse_for_some(void **state)
{
    (void)state;
    dz_queue_route routes[] = {{.service_ms = 200, .connections = 2},
                               {.service_ms = 6, .connections = 2}};
    dz_queue_result even, uneven;
    assert_int_equal(dz_queue_simulate(DZ_QUEUE_CLUSTER, DZ_QUEUE_EVEN, 2, routes, 2, 5000, &even),
                     0);
    assert_int_equal(
        dz_queue_simulate(DZ_QUEUE_CLUSTER, DZ_QUEUE_UNEVEN, 2, routes, 2, 5000, &uneven), 0);
    assert_true(even.routes[0].p99_ms < 250);
    assert_true(uneven.routes[0].p99_ms > 380); /* both slow ones take turns */
    assert_true(uneven.routes[1].rps > 5 * even.routes[1].rps);
}

/* A connection that is a moment late goes to the end of epoll's list: of two slow ones the other is
 * served twice meanwhile, now and then. */
static void a_late_request_may_be_overtaken(void **state)
{
    (void)state;
    dz_queue_route routes[] = {{.service_ms = 200, .connections = 2},
                               {.service_ms = 6, .connections = 2}};
    dz_queue_result r;
    assert_int_equal(dz_queue_simulate(DZ_QUEUE_PLAIN, DZ_QUEUE_EVEN, 2, routes, 2, 5000, &r), 0);
    assert_near(r.routes[0].p50_ms, 412, 0.02);
    assert_near(r.routes[0].p99_ms, 624, 0.02);
}

/* The concurrency experiment's shape on two cores, each route for itself. */
static void routes_have_figures_of_their_own(void **state)
{
    (void)state;
    dz_queue_route routes[] = {{.service_ms = 6, .connections = 2},
                               {.service_ms = 200, .connections = 2}};
    dz_queue_result r;
    assert_int_equal(dz_queue_simulate(DZ_QUEUE_PLAIN, DZ_QUEUE_EVEN, 2, routes, 2, 5000, &r), 0);
    assert_near(r.routes[0].p50_ms, 412, 0.02);
    assert_near(r.routes[0].rps, r.routes[1].rps, 0.1);
    /* A cluster's connections are dealt out in turn: each process has one of each. */
    assert_int_equal(dz_queue_simulate(DZ_QUEUE_CLUSTER, DZ_QUEUE_EVEN, 2, routes, 2, 5000, &r), 0);
    assert_near(r.routes[0].p50_ms, 206, 0.02);
    /* Three threads for two cores: neither is idle, and the loop has its share. */
    assert_int_equal(dz_queue_simulate(DZ_QUEUE_WORKERS, DZ_QUEUE_EVEN, 2, routes, 2, 5000, &r), 0);
    double used = r.routes[0].rps * 6 + r.routes[1].rps * 200;
    assert_near(used, 2000, 0.05);
    assert_true(r.routes[0].p99_ms < 60);
    assert_true(r.routes[1].rps > 4);
}

/* A busy machine of many cores, and more clients than that: an estimate is no long computation. */
static void many_cores_and_connections_are_no_obstacle(void **state)
{
    (void)state;
    dz_queue_route routes[] = {{.service_ms = 5, .connections = 400},
                               {.service_ms = 200, .connections = 2}};
    for (int m = 0; m < DZ_QUEUE_MODES; m++) {
        dz_queue_latency result = run((dz_queue_mode)m, 64, routes, 2);
        assert_true(result.rps > 1);
        assert_true(result.rps <= 64 * 1000 / 5.0 * 1.05);
    }
}

/* One that is late waits for one more turn of the other; how often is chance, so the p99 is between
 * that of a run in which it happened and of one in which it did not. */
static void the_p99_is_what_runs_show_on_average(void **state)
{
    (void)state;
    dz_queue_route routes[] = {{.service_ms = 6, .connections = 2},
                               {.service_ms = 200, .connections = 2}};
    dz_queue_result r;
    assert_int_equal(dz_queue_simulate(DZ_QUEUE_CLUSTER, DZ_QUEUE_EVEN, 2, routes, 2, 20000, &r),
                     0);
    assert_near(r.routes[0].p50_ms, 206, 0.02);
    assert_true(r.routes[0].p99_ms > 230);
    assert_true(r.routes[0].p99_ms < 400);
}

static void the_cores_are_never_exceeded(void **state)
{
    (void)state;
    dz_queue_route r = {.service_ms = 20, .deviation_ms = 10, .connections = 50};
    for (int m = 0; m < DZ_QUEUE_MODES; m++) {
        dz_queue_latency result = run((dz_queue_mode)m, 3, &r, 1);
        assert_true(result.rps <= 3 * 1000 / 20.0 * 1.05);
        assert_true(result.p99_ms >= result.p50_ms);
    }
}

static void senseless_input_is_refused(void **state)
{
    (void)state;
    dz_queue_route r = {.service_ms = 1, .connections = 0};
    dz_queue_result result;
    assert_int_equal(dz_queue_simulate(DZ_QUEUE_PLAIN, DZ_QUEUE_EVEN, 1, &r, 1, 10, &result),
                     DZ_E_INVALID);
    r.connections = 1;
    assert_int_equal(dz_queue_simulate(DZ_QUEUE_PLAIN, DZ_QUEUE_EVEN, 0, &r, 1, 10, &result),
                     DZ_E_INVALID);
    assert_int_equal(dz_queue_simulate(DZ_QUEUE_PLAIN, DZ_QUEUE_EVEN, 1, &r, 0, 10, &result),
                     DZ_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_loop_serves_one_at_a_time),
        cmocka_unit_test(workers_free_the_loop_for_short_requests),
        cmocka_unit_test(an_uneven_deal_makes_a_cluster_worse_for_some),
        cmocka_unit_test(a_late_request_may_be_overtaken),
        cmocka_unit_test(routes_have_figures_of_their_own),
        cmocka_unit_test(many_cores_and_connections_are_no_obstacle),
        cmocka_unit_test(the_p99_is_what_runs_show_on_average),
        cmocka_unit_test(the_cores_are_never_exceeded),
        cmocka_unit_test(senseless_input_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
