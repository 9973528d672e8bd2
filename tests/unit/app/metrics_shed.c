/* What /metrics shows of overload protection. */
#include "../check.h"
#include "../alloc.h"

#include "app/exposure.h"
#include "app/shedding.h"

#include <donmaz.h>
#include <donmaz/error.h>

#include <stdio.h>

static dz_app *app;
static dz_metrics *apps_own;

/* With a registry that holds nothing else. */
static int set_up(void **state)
{
    (void)state;
    app = dz_app_new();
    if (!app)
        return -1;
    apps_own = app->core->metrics;
    app->core->metrics = dz_metrics_new();
    return app->core->metrics ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    dz_metrics_free(app->core->metrics);
    app->core->metrics = apps_own;
    dz_app_free(app);
    return 0;
}

static void protect(void)
{
    assert_int_equal(dz_app_set(app, "shed", "adaptive"), 0);
    assert_int_equal(dz_app_set(app, "loops", "2"), 0);
    assert_int_equal(dz_shed_start(app->core), 0);
}

static dz_buf written(void)
{
    dz_buf text = {0};
    assert_int_equal(dz_metrics_write(app->core->metrics, &text), 0);
    return text;
}

static bool shows(const char *line)
{
    dz_buf text = written();
    char wanted[128];
    int len = snprintf(wanted, sizeof wanted, "\n%s\n", line);
    bool there = text.len > 0 && memmem(text.data, text.len, wanted, (size_t)len) != NULL;
    dz_buf_release(&text);
    return there;
}

static bool can_be_written(void)
{
    dz_buf text = written();
    dz_buf_release(&text);
    return true;
}

static void without_protection_there_is_nothing_to_see(void **state)
{
    (void)state;
    assert_int_equal(dz_expose_shed(app->core), 0);
    dz_buf text = written();
    assert_int_equal(text.len, 0);
    dz_buf_release(&text);
}

static void each_figure_is_that_of_all_loops(void **state)
{
    (void)state;
    protect();
    dz_guard *guards = app->core->shed->guards;
    atomic_store(&guards[0].admitted, 10);
    atomic_store(&guards[1].admitted, 5);
    atomic_store(&guards[1].late, 1); /* let in, then refused at its turn */
    atomic_store(&guards[0].in_flight, 2);
    atomic_store(&guards[1].in_flight, 4);
    atomic_store(&guards[0].limit_milli, 1500);
    atomic_store(&guards[1].limit_milli, 2000);
    atomic_store(&guards[0].closed, 7);
    atomic_store(&guards[0].wait_ns, 1500000000);
    atomic_store(&guards[1].wait_ns, 500000000);
    atomic_store(&guards[0].lag_ns, 250000000); /* the worst, no sum */
    atomic_store(&guards[1].lag_ns, 125000000);
    atomic_store(&guards[0].level, DZ_SHED_PRESSURE);
    atomic_store(&guards[1].level, DZ_SHED_REFUSING);
    for (int reason = DZ_SHED_BY_IN_FLIGHT; reason < DZ_SHED_REASONS; reason++)
        atomic_store(&guards[1].refused[reason], 100 + (unsigned)reason);
    assert_int_equal(dz_expose_shed(app->core), 0);
    static const char *const lines[] = {
        "donmaz_shed_admitted_total 14",
        "donmaz_shed_in_flight 6",
        "donmaz_shed_limit 3.5",
        "donmaz_shed_closed_total 7",
        "donmaz_shed_wait_seconds_total 2",
        "donmaz_shed_lag_seconds 0.25",
        "donmaz_shed_level 2",
        "donmaz_shed_refused_total{reason=\"in_flight\"} 101",
        "donmaz_shed_refused_total{reason=\"queue_wait\"} 102",
        "donmaz_shed_refused_total{reason=\"loop_lag\"} 103",
        "donmaz_shed_refused_total{reason=\"memory\"} 104",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (!shows(lines[i]))
            fail_msg("not shown: %s", lines[i]);
}

static void figures_are_read_when_they_are_shown(void **state)
{
    (void)state;
    protect();
    assert_int_equal(dz_expose_shed(app->core), 0);
    assert_true(shows("donmaz_shed_in_flight 0"));
    atomic_store(&app->core->shed->guards[1].in_flight, 3);
    assert_true(shows("donmaz_shed_in_flight 3"));
}

static void without_memory_it_is_an_error_and_what_is_there_can_be_written(void **state)
{
    (void)state;
    protect();
    int rc, failures = 0;
    with_few_allocations(
        {
            dz_metrics_free(app->core->metrics);
            app->core->metrics = NULL;
            if ((app->core->metrics = dz_metrics_new()))
                rc = dz_expose_shed(app->core);
            else
                rc = DZ_E_NOMEM;
        },
        rc == 0, rc == DZ_E_NOMEM && ++failures && (!app->core->metrics || can_be_written()));
    assert_true(failures > 0);
    assert_true(shows("donmaz_shed_refused_total{reason=\"memory\"} 0"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_protection_there_is_nothing_to_see),
        TEST(each_figure_is_that_of_all_loops),
        TEST(figures_are_read_when_they_are_shown),
        TEST(without_memory_it_is_an_error_and_what_is_there_can_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
