#include "../check.h"

#include <doctor/exposition.h>

#include <stdio.h>

static const dz_expo_route *find(const dz_exposition *e, const char *name)
{
    for (size_t i = 0; i < e->route_count; i++)
        if (strcmp(e->routes[i].name, name) == 0)
            return &e->routes[i];
    return NULL;
}

static void loops_and_routes_are_read(void **state)
{
    (void)state;
    static dz_exposition e;
    dz_exposition_read(
        &e, DZ_LIT("# HELP donmaz_loop_delay_seconds How long.\n"
                   "# TYPE donmaz_loop_delay_seconds gauge\n"
                   "donmaz_loop_delay_seconds{loop=\"0\"} 0.25\n"
                   "donmaz_loop_rescues_total{loop=\"0\"} 7\n"
                   "donmaz_loop_lag_seconds_sum{loop=\"0\"} 2\n"
                   "donmaz_loop_lag_seconds_count{loop=\"0\"} 4\n"
                   "donmaz_loop_stall_seconds_bucket{loop=\"0\",le=\"0.01\"} 3\n"
                   "donmaz_loop_stall_seconds_bucket{loop=\"0\",le=\"0.025\"} 5\n"
                   "donmaz_loop_stall_seconds_bucket{loop=\"0\",le=\"+Inf\"} 9\n"
                   "donmaz_loop_stall_seconds_sum{loop=\"0\"} 0.4\n"
                   "donmaz_loop_stall_seconds_count{loop=\"0\"} 9\n"
                   "donmaz_http_requests_total{method=\"GET\",route=\"/a\",status=\"200\"} 12\n"
                   "donmaz_http_request_duration_seconds_sum{method=\"GET\",route=\"/a\"} 6\n"
                   "donmaz_http_request_duration_seconds_count{method=\"GET\",route=\"/a\"} 12\n"
                   "donmaz_route_handler_seconds_total{method=\"GET\",route=\"/a\"} 0.5\n"
                   "donmaz_route_cpu_seconds_total{method=\"GET\",route=\"/a\"} 0.24\n"
                   "donmaz_route_cpu_squared_seconds_total{method=\"GET\",route=\"/a\"} 0.0048\n"
                   "donmaz_route_class{method=\"GET\",route=\"/a\"} 2\n"
                   "donmaz_route_cpu_seconds_total{method=\"GET\",route=\"/never\"} 0\n"
                   "donmaz_pool_queued{pool=\"heavy\"} 3\n"
                   "donmaz_pool_queued{pool=\"medium\"} 1\n"
                   "process_open_fds 12\n"));
    assert_int_equal(e.loop_count, 1);
    assert_float_equal(e.loops[0].delay_ms, 250, 1e-9);
    assert_float_equal(e.loops[0].stalls, 9, 0);
    assert_float_equal(e.loops[0].short_stalls, 5, 0);
    assert_float_equal(e.loops[0].stall_ms, 400, 1e-9);
    assert_float_equal(e.loops[0].lag_ms, 2000, 1e-9);
    assert_int_equal(e.route_count, 1); /* the one that was asked for */
    assert_string_equal(e.routes[0].name, "GET /a");
    assert_float_equal(e.routes[0].requests, 12, 0);
    assert_float_equal(e.routes[0].cpu_ms, 240, 1e-9);
    assert_float_equal(e.routes[0].cpu_ms_squared, 4800, 1e-6);
    assert_int_equal(e.routes[0].klass, 2);
    assert_float_equal(e.queued, 4, 0);
}

static void workers_have_their_own_loops_and_common_routes(void **state)
{
    (void)state;
    static dz_exposition e;
    dz_exposition_read(
        &e, DZ_LIT("donmaz_loop_delay_seconds{worker=\"1\",loop=\"0\"} 0\n"
                   "donmaz_loop_delay_seconds{worker=\"2\",loop=\"0\"} 1\n"
                   "donmaz_http_request_duration_seconds_count{worker=\"1\",method=\"GET\","
                   "route=\"/a\"} 3\n"
                   "donmaz_http_request_duration_seconds_count{worker=\"2\",method=\"GET\","
                   "route=\"/a\"} 4\n"));
    assert_int_equal(e.loop_count, 2);
    assert_int_equal(e.loops[1].worker, 2);
    assert_float_equal(e.loops[1].delay_ms, 1000, 1e-9);
    assert_int_equal(e.route_count, 1);
    assert_float_equal(e.routes[0].requests, 7, 0);
}

/* It comes from the program under examination, which may say anything. */
static void what_does_not_parse_is_skipped(void **state)
{
    (void)state;
    static dz_exposition e;
    dz_exposition_read(&e,
                       DZ_LIT("donmaz_loop_delay_seconds{loop=\"0\n"
                              "donmaz_loop_delay_seconds{loop\n"
                              "donmaz_loop_delay_seconds{loop=\"1\"}\n"
                              "donmaz_loop_delay_seconds{loop=\"1\"} x\n"
                              "donmaz_loop_delay_seconds{loop=\"1\"} NaN\n"
                              "donmaz_loop_delay_seconds{loop=\"1\"} -1\n"
                              "donmaz_loop_delay_seconds{loop=\"1\"} "
                              "111111111111111111111111111111111111111111111111\n"
                              "{\n}\n\n \n\"\n"
                              "donmaz_http_request_duration_seconds_count{method=\"GET\","
                              "route=\"/q\\\"u\\\\o\\nte\"} 2\n"
                              "donmaz_http_request_duration_seconds_count{route=\"/no-method\"} 2\n"
                              "donmaz_loop_delay_seconds{loop=\"0\"} 2"));
    assert_int_equal(e.loop_count, 1);
    assert_float_equal(e.loops[0].delay_ms, 2000, 1e-9);
    assert_int_equal(e.route_count, 1);
    assert_non_null(find(&e, "GET /q\"u\\o\nte"));
    dz_exposition_read(&e, (dz_slice){0});
    assert_int_equal(e.loop_count, 0);
}

static void more_than_fits_is_left_out(void **state)
{
    (void)state;
    static dz_exposition e;
    static char text[64 * 1024];
    size_t at = 0;
    for (int i = 0; i < 300; i++)
        at += (size_t)snprintf(
            text + at, sizeof text - at,
            "donmaz_http_request_duration_seconds_count{method=\"GET\",route=\"/%d/%.*s\"} 1\n"
            "donmaz_loop_ticks_total{loop=\"%d\"} 1\n",
            i, i == 7 ? 100 : 1,
            "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
            "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            i);
    dz_exposition_read(&e, dz_slice_make(text, at));
    assert_int_equal(e.route_count, DZ_EXPO_ROUTES);
    assert_int_equal(e.loop_count, DZ_EXPO_LOOPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_and_routes_are_read),
        cmocka_unit_test(workers_have_their_own_loops_and_common_routes),
        cmocka_unit_test(what_does_not_parse_is_skipped),
        cmocka_unit_test(more_than_fits_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
