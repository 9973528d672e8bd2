/* What an orchestrator is told. */
#include "../serve.h"

#include "app/shedding.h"

static dz_app *app;
static unsigned port;

static void work(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_text(res, 200, "worked");
}

static void start(const char *shed)
{
    app = dz_app_new();
    assert_non_null(app);
    if (shed) {
        assert_int_equal(dz_app_set(app, "shed", shed), 0);
        assert_int_equal(dz_app_set(app, "shed-lag-max", "1h"), 0);
        assert_int_equal(dz_app_set(app, "shed-retry-after", "7s"), 0);
    }
    dz_get(app, "/work", work);
    assert_int_equal(dz_health_routes(app, "/livez", "/readyz"), 0);
    port = serve(app);
}

static const dz_route *route(const char *label)
{
    for (dz_list *link = app->core->routes.next; link != &app->core->routes; link = link->next) {
        const dz_route *it = DZ_CONTAINER(link, dz_route, link);
        if (strcmp(it->label, label) == 0)
            return it;
    }
    fail_msg("no route %s", label);
    return NULL;
}

static void a_calm_service_is_live_and_ready_and_nobody_may_keep_the_answer(void **state)
{
    (void)state;
    static const char *const paths[] = {GET("/livez"), GET("/readyz")};
    static const char *const bodies[] = {"{\"status\":\"live\"}\n", "{\"status\":\"ready\"}\n"};
    start(NULL);
    for (int i = 0; i < 2; i++) {
        reply got = ask(port, paths[i]);
        assert_int_equal(got.status, 200);
        assert_string_equal(got.body, bodies[i]);
        assert_true(reply_has(&got, "Cache-Control: no-store"));
        assert_true(reply_has(&got, "Content-Type: application/json"));
        assert_null(strstr(got.head, "Retry-After"));
        reply_free(&got);
    }
    serve_end(app);
}

static void they_stay_on_the_loop_and_are_never_shed(void **state)
{
    (void)state;
    static const char *const labels[] = {"GET /livez", "GET /readyz"};
    start("fixed");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(route(labels[i])->rule, DZ_ROUTE_INLINE);
        assert_int_equal(route(labels[i])->shed_class, DZ_SHED_NEVER);
        assert_false(route(labels[i])->guarded);
    }
    assert_true(route("GET /work")->guarded);
    serve_end(app);
}

/* As if a request had been refused at that time; 0: never. */
static void pretend_refused(uint64_t when)
{
    atomic_store(&app->core->shed->guards[0].refused_at, when);
}

static void an_overloaded_service_is_live_but_not_ready(void **state)
{
    (void)state;
    start("fixed");
    assert_status(ask(port, GET("/readyz")), 200);
    pretend_refused(dz_now() + 3600 * DZ_SEC); /* so that no machine is too slow */
    reply got = ask(port, GET("/readyz"));
    assert_int_equal(got.status, 503);
    assert_string_equal(got.body, "{\"status\":\"overloaded\"}\n");
    assert_true(reply_has(&got, "Retry-After: 7"));
    assert_true(reply_has(&got, "Cache-Control: no-store"));
    reply_free(&got);
    assert_status(ask(port, GET("/livez")), 200);
    pretend_refused(0);
    assert_status(ask(port, GET("/readyz")), 200);
    serve_end(app);
}

static void a_stopping_service_is_not_ready_whether_protected_or_not(void **state)
{
    (void)state;
    static const char *const modes[] = {NULL, "fixed"};
    for (int i = 0; i < 2; i++) {
        start(modes[i]);
        int fd = connect_to(port);
        say(fd, GET("/work"));
        assert_status(hear(fd), 200);
        say(fd, "GET /readyz HTTP/1.1\r\n");
        wait_until(arrived(fd));
        assert_status(ask(port, GET("/work")), 200); /* by now the loop has read it */
        dz_app_stop(app);
        wait_until(atomic_load(&app->core->server->loops[0].draining));
        say(fd, "Host: test\r\n\r\n");
        reply got = hear(fd);
        assert_int_equal(got.status, 503);
        assert_string_equal(got.body, "{\"status\":\"stopping\"}\n");
        assert_true(reply_has(&got, modes[i] ? "Retry-After: 7" : "Retry-After: 1"));
        reply_free(&got);
        close(fd);
        serve_end(app);
    }
}

static void routes_that_can_t_be_added_are_told(void **state)
{
    (void)state;
    dz_app *own = dz_app_new();
    assert_int_equal(dz_health_routes(own, NULL, NULL), 0);
    assert_true(dz_list_empty(&own->core->routes));
    assert_int_equal(dz_health_routes(own, "/live", NULL), 0);
    assert_int_equal(dz_health_routes(own, NULL, "no-slash"), DZ_E_INVALID);
    dz_app_free(own);
    own = dz_app_new();
    assert_int_equal(dz_health_routes(own, "/same", "/same"), DZ_E_INVALID);
    dz_app_free(own);
    assert_int_equal(dz_health_routes(NULL, "/live", "/ready"), DZ_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_calm_service_is_live_and_ready_and_nobody_may_keep_the_answer),
        cmocka_unit_test(they_stay_on_the_loop_and_are_never_shed),
        cmocka_unit_test(an_overloaded_service_is_live_but_not_ready),
        cmocka_unit_test(a_stopping_service_is_not_ready_whether_protected_or_not),
        cmocka_unit_test(routes_that_can_t_be_added_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
