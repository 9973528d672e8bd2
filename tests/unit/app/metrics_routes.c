/* What /metrics shows of routes: named by method and pattern, each status from when it was seen. */
#include "../serve.h"
#include "../alloc.h"

#include "app/exposure.h"

static dz_app *app;
static unsigned port;
static dz_metrics *apps_own;
static dz_exposure it;

static void created(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_text(res, 201, "");
}

/* A running app; what is exposed goes into a registry that holds nothing else. */
static int set_up(void **state)
{
    (void)state;
    app = dz_app_new();
    dz_app_set(app, "loops", "2");
    dz_post(app, "/users/:id", created);
    dz_all(app, "/any", created);
    port = serve(app);
    apps_own = app->core->metrics;
    app->core->metrics = dz_metrics_new();
    it = (dz_exposure){.core = app->core};
    return app->core->metrics ? 0 : -1;
}

static void forget(void)
{
    dz_metrics_free(app->core->metrics);
    for (dz_route_ref *ref = it.refs, *next; ref; ref = next) {
        next = ref->next;
        free(ref->method);
        free(ref);
    }
    free(it.shown);
    it = (dz_exposure){.core = app->core};
    app->core->metrics = NULL;
}

static int tear_down(void **state)
{
    (void)state;
    forget();
    app->core->metrics = apps_own;
    serve_end(app);
    return 0;
}

static char *written(void)
{
    dz_buf text = {0};
    assert_int_equal(dz_metrics_write(app->core->metrics, &text), 0);
    char *copy = calloc(1, text.len + 2);
    assert_non_null(copy);
    copy[0] = '\n';
    if (text.len > 0)
        memcpy(copy + 1, text.data, text.len);
    dz_buf_release(&text);
    return copy;
}

static unsigned times_shown(const char *part)
{
    char *text = written();
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, part)); at++)
        count++;
    free(text);
    return count;
}

#define COUNTED(method, route, status, n)                                                          \
    "\ndonmaz_http_requests_total{method=\"" method "\",route=\"" route "\",status=\"" status      \
    "\"} " n "\n"

static void every_route_is_named_by_its_method_and_pattern(void **state)
{
    (void)state;
    assert_int_equal(dz_expose_routes(&it), 0);
    static const char *const names[] = {
        "{method=\"POST\",route=\"/users/:id\"}",
        "{method=\"ANY\",route=\"/any\"}",
        "{method=\"ANY\",route=\"(no route)\"}",
        "{method=\"ANY\",route=\"(method not allowed)\"}",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char line[200];
        snprintf(line, sizeof line, "\ndonmaz_route_class%s 0\n", names[i]);
        assert_int_equal(times_shown(line), 1);
        snprintf(line, sizeof line, "\ndonmaz_route_rescues_total%s 0\n", names[i]);
        assert_int_equal(times_shown(line), 1);
        /* Of two loops, one histogram. */
        snprintf(line, sizeof line, "\ndonmaz_http_request_duration_seconds_count%s 0\n", names[i]);
        assert_int_equal(times_shown(line), 1);
    }
    assert_int_equal(times_shown("donmaz_http_requests_total"), 0); /* no status was seen */
    const dz_route *users = DZ_CONTAINER(app->core->routes.next, dz_route, link);
    dz_meter_note(app->core->meter, 0, users->index, 201, 1);
    dz_meter_note(app->core->meter, 1, users->index, 201, 1);
    assert_int_equal(times_shown("\ndonmaz_http_request_duration_seconds_count{method=\"POST\","
                                 "route=\"/users/:id\"} 2\n"),
                     1);
}

static void a_status_is_shown_from_when_it_was_seen_and_once(void **state)
{
    (void)state;
    assert_int_equal(dz_expose_routes(&it), 0);
    assert_int_equal(dz_expose_statuses(&it), 0);
    assert_int_equal(times_shown("donmaz_http_requests_total"), 0);
    const dz_route *users = DZ_CONTAINER(app->core->routes.next, dz_route, link);
    dz_meter_note(app->core->meter, 0, users->index, 201, 1);
    for (int i = 0; i < 3; i++) {
        dz_meter_note(app->core->meter, 1, users->index, 201, 1);
        assert_int_equal(dz_expose_statuses(&it), 0);
    }
    assert_int_equal(times_shown(COUNTED("POST", "/users/:id", "201", "4")), 1);
    assert_int_equal(times_shown("\ndonmaz_http_requests_total"), 1);
    dz_meter_note(app->core->meter, 1, users->index, 599, 1);
    dz_meter_note(app->core->meter, 1, users->index, 100, 1);
    assert_int_equal(dz_expose_statuses(&it), 0);
    assert_int_equal(times_shown(COUNTED("POST", "/users/:id", "599", "1")), 1);
    assert_int_equal(times_shown(COUNTED("POST", "/users/:id", "100", "1")), 1);
    assert_int_equal(times_shown("\ndonmaz_http_requests_total"), 3);
}

static void what_never_became_a_request_is_shown_as_refused(void **state)
{
    (void)state;
    assert_int_equal(dz_expose_routes(&it), 0);
    dz_core_request_refused(app->core, 400);
    dz_core_request_refused(app->core, 431);
    dz_core_request_refused(app->core, 400);
    dz_core_request_refused(app->core,
                            99); /* no status: not counted, nor written beside the table */
    dz_core_request_refused(app->core, 600);
    for (int i = 0; i < 2; i++)
        assert_int_equal(dz_expose_statuses(&it), 0);
    assert_int_equal(times_shown(COUNTED("ANY", "(refused)", "400", "2")), 1);
    assert_int_equal(times_shown(COUNTED("ANY", "(refused)", "431", "1")), 1);
    assert_int_equal(times_shown("\ndonmaz_http_requests_total"), 2);
}

static void learned_classes_and_rescues_are_read_when_shown(void **state)
{
    (void)state;
    assert_int_equal(dz_expose_routes(&it), 0);
    dz_route *users = DZ_CONTAINER(app->core->routes.next, dz_route, link);
    atomic_store(&users->klass, DZ_ROUTE_HEAVY);
    atomic_store(&users->rescues, 3);
    atomic_store(&users->demotions, 2);
    atomic_store(&users->computed_ns, 1500000000);
#define OF_USERS "{method=\"POST\",route=\"/users/:id\"} "
    assert_int_equal(times_shown("\ndonmaz_route_class" OF_USERS "2\n"), 1);
    assert_int_equal(times_shown("\ndonmaz_route_rescues_total" OF_USERS "3\n"), 1);
    assert_int_equal(times_shown("\ndonmaz_route_demotions_total" OF_USERS "2\n"), 1);
    assert_int_equal(times_shown("\ndonmaz_route_rescued_seconds_total" OF_USERS "1.5\n"), 1);
}

static bool can_be_written(void)
{
    free(written());
    return true;
}

static int expose_all(void)
{
    int rc = app->core->metrics ? dz_expose_routes(&it) : DZ_E_NOMEM;
    return rc == 0 ? dz_expose_statuses(&it) : rc;
}

static void without_memory_it_is_an_error_and_what_is_there_can_be_written(void **state)
{
    (void)state;
    const dz_route *users = DZ_CONTAINER(app->core->routes.next, dz_route, link);
    dz_meter_note(app->core->meter, 0, users->index, 201, 1);
    int rc, failures = 0;
    with_few_allocations(
        {
            forget();
            app->core->metrics = dz_metrics_new();
            rc = expose_all();
        },
        rc == 0, rc == DZ_E_NOMEM && ++failures && (!app->core->metrics || can_be_written()));
    assert_true(failures > 10);
    assert_int_equal(times_shown(COUNTED("POST", "/users/:id", "201", "1")), 1);
}

static void a_status_that_found_no_memory_comes_the_next_time(void **state)
{
    (void)state;
    assert_int_equal(dz_expose_routes(&it), 0);
    const dz_route *users = DZ_CONTAINER(app->core->routes.next, dz_route, link);
    dz_meter_note(app->core->meter, 0, users->index, 201, 1);
    dz_core_request_refused(app->core, 400);
    int rc;
    with_few_allocations(rc = dz_expose_statuses(&it), rc == 0, rc == DZ_E_NOMEM);
    assert_int_equal(times_shown(COUNTED("POST", "/users/:id", "201", "1")), 1);
    assert_int_equal(times_shown(COUNTED("ANY", "(refused)", "400", "1")), 1);
}

static void statuses_without_the_table_of_those_shown_are_an_error(void **state)
{
    (void)state;
    assert_int_equal(dz_expose_statuses(&it), DZ_E_NOMEM);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_route_is_named_by_its_method_and_pattern),
        TEST(a_status_is_shown_from_when_it_was_seen_and_once),
        TEST(what_never_became_a_request_is_shown_as_refused),
        TEST(learned_classes_and_rescues_are_read_when_shown),
        TEST(without_memory_it_is_an_error_and_what_is_there_can_be_written),
        TEST(a_status_that_found_no_memory_comes_the_next_time),
        TEST(statuses_without_the_table_of_those_shown_are_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
