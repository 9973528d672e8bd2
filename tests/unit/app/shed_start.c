/* From settings and routes to what is protected, and how. */
#include "../check.h"
#include "../alloc.h"

#include "app/shedding.h"

#include <donmaz.h>
#include <donmaz/error.h>

#include <stdio.h>

/* --- how much memory this process holds (--wrap=dz_rss_now); 0: it can't be read --- */

static uint64_t rss_now = 1 << 20;

uint64_t __wrap_dz_rss_now(dz_rss *rss, uint64_t now);
uint64_t __wrap_dz_rss_now(dz_rss *rss, uint64_t now)
{
    (void)rss, (void)now;
    return rss_now;
}

/* --- an app that does not run --- */

static dz_app *app;
static char warning[256];

static void keep(void *context, int level, const char *message)
{
    (void)context;
    assert_int_equal(level, 40);
    snprintf(warning, sizeof warning, "%s", message);
}

static void handler(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_text(res, 200, "");
}

static int set_up(void **state)
{
    (void)state;
    rss_now = 1 << 20;
    warning[0] = '\0';
    app = dz_app_new();
    if (!app)
        return -1;
    dz_on_log(app, keep, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    dz_app_free(app);
    return 0;
}

static void set(const char *name, const char *value)
{
    assert_int_equal(dz_app_set(app, name, value), 0);
}

static const dz_guard_options *started(void)
{
    assert_int_equal(dz_shed_start(app->core), 0);
    assert_non_null(app->core->shed);
    return &app->core->shed->guards[0].options;
}

/* --- which mode --- */

static void nothing_is_protected_unless_asked_for(void **state)
{
    (void)state;
    dz_route *route = dz_get(app, "/", handler);
    assert_int_equal(dz_shed_start(app->core), 0);
    assert_null(app->core->shed);
    assert_false(route->guarded);
    dz_shed_free(app->core); /* harmless */
}

static void adaptive_has_limits_of_its_own(void **state)
{
    (void)state;
    set("shed", "adaptive");
    set("loops", "3");
    const dz_guard_options *options = started();
    assert_true(options->adaptive);
    assert_int_equal(app->core->shed->loop_count, 3);
    assert_int_equal(options->limit.wait_ns, 5 * DZ_MS);
    assert_int_equal(options->lag_max_ns, 500 * DZ_MS);
    assert_int_equal(options->in_flight_max, 0);
    assert_true(app->core->shed->watches_lag);
    assert_false(app->core->shed->watches_rss);
}

static void fixed_has_only_what_was_said(void **state)
{
    (void)state;
    set("shed", "fixed");
    set("shed-wait-max", "30ms");
    const dz_guard_options *options = started();
    assert_false(options->adaptive);
    assert_int_equal(options->wait_max_ns, 30 * DZ_MS);
    assert_int_equal(options->lag_max_ns, 0);
    assert_false(app->core->shed->watches_lag);
}

static void the_middleware_alone_is_adaptive_for_its_routes(void **state)
{
    (void)state;
    dz_route *before = dz_get(app, "/before", handler);
    dz_use(app, dz_shed);
    dz_route *first = dz_get(app, "/first", handler), *second = dz_get(app, "/second", handler);
    dz_route *never = dz_shed_priority(dz_get(app, "/never", handler), DZ_SHED_NEVER);
    assert_true(started()->adaptive);
    assert_false(before->guarded || never->guarded);
    assert_true(first->guarded && second->guarded);
    assert_true(first->answers_shed && never->answers_shed);
    assert_false(before->answers_shed);
    assert_int_not_equal(first->guard_index, second->guard_index);
    assert_true(first->guard_index < app->core->shed->route_count);
    assert_true(second->guard_index < app->core->shed->route_count);
}

static void with_the_setting_all_routes_and_those_without_one_are_protected(void **state)
{
    (void)state;
    set("shed", "adaptive");
    dz_route *route = dz_get(app, "/", handler);
    (void)started();
    const dz_route *const all[] = {route, &app->core->not_found, &app->core->not_allowed,
                                   &app->core->options};
    unsigned seen = 0;
    for (size_t i = 0; i < 4; i++) {
        assert_true(all[i]->guarded);
        seen |= 1U << all[i]->guard_index;
    }
    assert_int_equal(seen, 0xf); /* each has a number of its own */
    assert_int_equal(app->core->shed->route_count, 4);
    assert_false(app->core->overloaded.guarded); /* it is the refusal itself */
}

static void off_is_off_whatever_the_routes_use(void **state)
{
    (void)state;
    set("shed", "off");
    dz_use(app, dz_shed);
    dz_get(app, "/", handler);
    assert_int_equal(dz_shed_start(app->core), 0);
    assert_null(app->core->shed);
}

/* --- numbers --- */

static void each_loop_has_its_share_rounded_up(void **state)
{
    (void)state;
    set("shed", "fixed");
    set("shed-in-flight-max", "10");
    set("loops", "4");
    const dz_guard_options *options = started();
    assert_int_equal(options->in_flight_max, 3);
    assert_true(options->limit.max == 3);
}

static void a_limit_below_the_number_of_loops_still_lets_one_in_on_each(void **state)
{
    (void)state;
    set("shed", "fixed");
    set("shed-in-flight-max", "1");
    set("loops", "8");
    assert_int_equal(started()->in_flight_max, 1);
}

static void retry_after_is_whole_seconds_rounded_up(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"1s", "1"}, {"1001ms", "2"}, {"1999ms", "2"}, {"90s", "90"}};
    set("shed", "adaptive");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        set("shed-retry-after", rows[i][0]);
        (void)started();
        assert_string_equal(app->core->shed->retry_after, rows[i][1]);
        dz_shed_free(app->core);
        assert_null(app->core->shed);
    }
}

/* --- memory --- */

static void a_memory_limit_below_what_is_held_is_refused(void **state)
{
    (void)state;
    set("shed", "fixed");
    set("shed-rss-max", "64M");
    rss_now = UINT64_C(64) << 20;
    assert_non_null(strstr(dz_shed_complain(app->core), "--shed-rss-max is less than"));
    assert_int_equal(dz_shed_start(app->core), DZ_E_INVALID);
    assert_null(app->core->shed);
    rss_now--;
    assert_null(dz_shed_complain(app->core));
    assert_int_equal(started()->rss_max, UINT64_C(64) << 20);
    assert_true(app->core->shed->watches_rss);
    assert_string_equal(warning, "");
}

static void memory_that_can_t_be_read_is_warned_of(void **state)
{
    (void)state;
    set("shed", "fixed");
    set("shed-rss-max", "64M");
    rss_now = 0;
    (void)started();
    assert_non_null(strstr(warning, "protects from nothing"));
}

static void without_memory_for_it_the_start_fails_and_nothing_is_kept(void **state)
{
    (void)state;
    int rc, failures = 0;
    set("shed", "adaptive");
    set("loops", "2");
    dz_get(app, "/", handler);
    with_few_allocations(
        { rc = dz_shed_start(app->core); }, rc == 0,
        (failures++, dz_shed_free(app->core), rc == DZ_E_NOMEM && !app->core->shed));
    assert_int_equal(failures, 3);
}

/* --- what the author says --- */

static void a_class_that_does_not_exist_changes_nothing(void **state)
{
    (void)state;
    dz_route *route = dz_shed_priority(dz_get(app, "/", handler), DZ_SHED_HIGH);
    assert_ptr_equal(dz_shed_priority(route, (dz_shed_class)17), route);
    assert_int_equal(route->shed_class, DZ_SHED_HIGH);
    assert_ptr_equal(dz_shed_priority(route, (dz_shed_class)-1), route);
    assert_int_equal(route->shed_class, DZ_SHED_HIGH);
    assert_null(dz_shed_priority(NULL, DZ_SHED_LOW));
}

static void an_empty_body_is_a_body(void **state)
{
    (void)state;
    dz_shed_body(NULL, "text/plain", DZ_LIT("x"));
    dz_shed_body(app, "text/plain", (dz_slice){0});
    assert_non_null(app->core->shed_text.ptr); /* else the default would be sent */
    assert_int_equal(app->core->shed_text.len, 0);
    assert_string_equal(app->core->shed_type, "text/plain");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_protected_unless_asked_for),
        TEST(adaptive_has_limits_of_its_own),
        TEST(fixed_has_only_what_was_said),
        TEST(the_middleware_alone_is_adaptive_for_its_routes),
        TEST(with_the_setting_all_routes_and_those_without_one_are_protected),
        TEST(off_is_off_whatever_the_routes_use),
        TEST(each_loop_has_its_share_rounded_up),
        TEST(a_limit_below_the_number_of_loops_still_lets_one_in_on_each),
        TEST(retry_after_is_whole_seconds_rounded_up),
        TEST(a_memory_limit_below_what_is_held_is_refused),
        TEST(memory_that_can_t_be_read_is_warned_of),
        TEST(without_memory_for_it_the_start_fails_and_nothing_is_kept),
        TEST(a_class_that_does_not_exist_changes_nothing),
        TEST(an_empty_body_is_a_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
