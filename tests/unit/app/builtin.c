/* The routes that answer where no route of the service's does. */
#include "../serve.h"
#include "../alloc.h"

static dz_app *app;
static unsigned port;

/* --- what a service has --- */

static void hello(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_text(res, 200, "hello");
}

static void mark(dz_request *req, dz_response *res)
{
    dz_res_header(res, "X-App", "seen");
    dz_next(req, res);
}

static void mark_group(dz_request *req, dz_response *res)
{
    dz_res_header(res, "X-Group", "seen");
    dz_next(req, res);
}

static void mark_late(dz_request *req, dz_response *res)
{
    dz_res_header(res, "X-Late", "seen");
    dz_next(req, res);
}

static void render(dz_request *req, dz_response *res, int status, int error)
{
    (void)req;
    if (status == 404)
        dz_send_json(res, status, "{\"mine\":%d}", error);
}

static int set_up(void **state)
{
    (void)state;
    app = dz_app_new();
    dz_use(app, mark);
    dz_get(app, "/read", hello);
    dz_post(app, "/write", hello);
    dz_get(app, "/both", hello);
    dz_put(app, "/both", hello);
    dz_delete(app, "/both", hello);
    dz_patch(app, "/both", hello);
    dz_post(app, "/both", hello);
    dz_all(app, "/any", hello);
    dz_get(app, "/users/me", hello);
    dz_put(app, "/users/:id", hello);
    dz_app *group = dz_group(app, "/group");
    dz_use(group, mark_group);
    dz_get(group, "/", hello);
    dz_use(app, mark_late); /* after every route, and still for those without one */
    port = serve(app);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    serve_end(app);
    return 0;
}

#define assert_allows(request, code, methods)                                                      \
    do {                                                                                           \
        reply allows_ = ask(port, request);                                                        \
        assert_int_equal(allows_.status, code);                                                    \
        if (!reply_has(&allows_, "Allow: " methods))                                               \
            fail_msg("%s", allows_.head);                                                          \
        reply_free(&allows_);                                                                      \
    } while (0)

/* --- what they answer --- */

static void a_path_without_a_route_is_404_for_every_method(void **state)
{
    (void)state;
    assert_reply(ask(port, GET("/nothing")), 404, "{\"error\":\"Not Found\"}\n");
    assert_status(ask(port, REQUEST("OPTIONS", "/nothing")), 404);
    assert_status(ask(port, REQUEST("BREW", "/nothing")), 404);
    reply got = ask(port, REQUEST("HEAD", "/nothing"));
    assert_int_equal(got.status, 404);
    assert_null(strstr(got.head, "Allow:"));
    reply_free(&got);
}

static void another_method_is_405_with_those_there_are(void **state)
{
    (void)state;
    assert_allows(REQUEST("POST", "/read"), 405, "GET, HEAD, OPTIONS");
    assert_allows(GET("/write"), 405, "POST, OPTIONS"); /* no GET, and so no HEAD */
    assert_allows(REQUEST("HEAD", "/write"), 405, "POST, OPTIONS");
    assert_allows(REQUEST("BREW", "/both"), 405, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    assert_reply(ask(port, REQUEST("PUT", "/read")), 405, "{\"error\":\"Method Not Allowed\"}\n");
}

static void every_pattern_that_fits_the_path_is_counted(void **state)
{
    (void)state;
    assert_allows(REQUEST("POST", "/users/me"), 405, "GET, HEAD, PUT, OPTIONS");
    assert_allows(REQUEST("POST", "/users/7"), 405, "PUT, OPTIONS");
}

static void options_tells_what_there_is_and_has_no_body(void **state)
{
    (void)state;
    assert_allows(REQUEST("OPTIONS", "/read"), 204, "GET, HEAD, OPTIONS");
    assert_allows(REQUEST("OPTIONS", "/write"), 204, "POST, OPTIONS");
    reply got = ask(port, REQUEST("OPTIONS", "/both"));
    assert_null(strstr(got.head, "Content-Length"));
    assert_null(strstr(got.head, "Transfer-Encoding"));
    reply_free(&got);
}

static void options_for_the_whole_server_tells_what_it_knows(void **state)
{
    (void)state;
    assert_allows(REQUEST("OPTIONS", "*"), 204, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
}

static void a_route_for_any_method_is_asked_itself(void **state)
{
    (void)state;
    assert_reply(ask(port, REQUEST("OPTIONS", "/any")), 200, "hello");
    assert_reply(ask(port, REQUEST("BREW", "/any")), 200, "hello");
}

static void head_is_served_by_get(void **state)
{
    (void)state;
    reply got = ask(port, REQUEST("HEAD", "/read"));
    assert_int_equal(got.status, 200);
    assert_true(reply_has(&got, "Content-Length: 5"));
    reply_free(&got);
}

/* --- middleware --- */

static void the_apps_own_middleware_sees_them_and_no_groups(void **state)
{
    (void)state;
    static const char *const requests[] = {GET("/nothing"), REQUEST("POST", "/read"),
                                           REQUEST("OPTIONS", "/read"), GET("/group/nothing"),
                                           REQUEST("POST", "/group")};
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        reply got = ask(port, requests[i]);
        assert_true(got.status == 404 || got.status == 405 || got.status == 204);
        assert_true(reply_has(&got, "X-App: seen"));
        assert_true(reply_has(&got, "X-Late: seen"));
        assert_null(strstr(got.head, "X-Group"));
        reply_free(&got);
    }
    reply got = ask(port, GET("/group"));
    assert_true(reply_has(&got, "X-Group: seen"));
    assert_null(strstr(got.head, "X-Late"));
    reply_free(&got);
}

static void an_error_handler_renders_what_it_wants_to(void **state)
{
    (void)state;
    dz_app *own = dz_app_new();
    dz_on_error(own, render);
    dz_get(own, "/read", hello);
    unsigned at = serve(own);
    assert_reply(ask(at, GET("/nothing")), 404, "{\"mine\":0}");
    assert_reply(ask(at, REQUEST("PUT", "/read")), 405, "{\"error\":\"Method Not Allowed\"}\n");
    serve_end(own);
}

/* --- memory --- */

static void without_memory_for_them_the_app_does_not_start(void **state)
{
    (void)state;
    dz_app *own = dz_app_new();
    dz_use(own, mark);
    int rc = 0, failures = 0;
    with_few_allocations(rc = dz_core_build_builtin(own), rc == 0, (failures++, rc == DZ_E_NOMEM));
    assert_int_equal(failures, 4);
    assert_int_equal(own->core->not_found.chain_len, 2);
    assert_int_equal(own->core->overloaded.chain_len, 1); /* there is no time for more */
    dz_use(own, mark_late);
    allocs_left = 0;
    rc = dz_app_start(own, NULL);
    allocs_left = -1;
    assert_int_equal(rc, DZ_E_NOMEM);
    assert_int_equal(own->core->not_found.chain_len, 2); /* whole, as it was */
    assert_true(own->core->not_found.chain[0] == mark);
    dz_app_free(own);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_path_without_a_route_is_404_for_every_method),
        TEST(another_method_is_405_with_those_there_are),
        TEST(every_pattern_that_fits_the_path_is_counted),
        TEST(options_tells_what_there_is_and_has_no_body),
        TEST(options_for_the_whole_server_tells_what_it_knows),
        TEST(a_route_for_any_method_is_asked_itself),
        TEST(head_is_served_by_get),
        TEST(the_apps_own_middleware_sees_them_and_no_groups),
        TEST(an_error_handler_renders_what_it_wants_to),
        TEST(without_memory_for_them_the_app_does_not_start),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
