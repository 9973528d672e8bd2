/* Hooks after each response, and the warnings when what is registered piles up. */
#include "../serve.h"

#include <pthread.h>

static dz_app *app;
static unsigned port;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char warnings[8][1024];
static size_t warning_count;
static _Atomic unsigned calls, last_status;
static char order[8];
static _Atomic size_t order_len;

static void keep_warning(void *context, int level, const char *message)
{
    (void)context;
    pthread_mutex_lock(&lock);
    if (level == 40 && warning_count < 8)
        snprintf(warnings[warning_count++], sizeof warnings[0], "%s", message);
    pthread_mutex_unlock(&lock);
}

static size_t warned(void)
{
    pthread_mutex_lock(&lock);
    size_t count = warning_count;
    pthread_mutex_unlock(&lock);
    return count;
}

static void count_call(dz_request *req, dz_response *res, void *data)
{
    (void)req, (void)data;
    atomic_store(&last_status, (unsigned)dz_res_status(res));
    atomic_fetch_add(&calls, 1);
}

static void note_letter(dz_request *req, dz_response *res, void *data)
{
    (void)req, (void)res;
    order[atomic_fetch_add(&order_len, 1)] = *(const char *)data;
}

static void hello(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_text(res, 200, "hello");
}

static int set_up(void **state)
{
    (void)state;
    warning_count = 0;
    atomic_store(&calls, 0);
    atomic_store(&order_len, 0);
    app = dz_app_new();
    if (!app)
        return -1;
    dz_on_log(app, keep_warning, NULL);
    dz_app_set(app, "rescue-after", "0"); /* on a busy machine one would be a warning, too */
    dz_get(app, "/hello", hello);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    serve_end(app);
    return 0;
}

/* The reply may arrive before the hooks have run. */
#define wait_for_calls(count) wait_until(atomic_load(&calls) >= (count))

static void hooks_run_in_order_after_every_response(void **state)
{
    (void)state;
    static char a[] = "a", b[] = "b";
    assert_int_equal(dz_after(app, note_letter, a), 0);
    assert_int_equal(dz_after(app, note_letter, b), 0);
    assert_int_equal(dz_after(app, count_call, NULL), 0);
    port = serve(app);
    assert_reply(ask(port, GET("/hello")), 200, "hello");
    wait_for_calls(1);
    assert_int_equal(atomic_load(&last_status), 200);
    assert_memory_equal(order, "ab", 2);
    assert_status(ask(port, GET("/nothing")), 404);
    wait_for_calls(2);
    assert_int_equal(atomic_load(&last_status), 404);
    assert_int_equal(warned(), 0);
}

static void late_hook(dz_request *req, dz_response *res)
{
    (void)req;
    dz_after(app, count_call, NULL);
    dz_send_text(res, 200, "added");
}

static const unsigned late_hook_line = __LINE__ - 4;

static void a_hook_added_by_a_request_is_named_once(void **state)
{
    (void)state;
    dz_get(app, "/late", late_hook);
    port = serve(app);
    for (int i = 0; i < 5; i++)
        assert_reply(ask(port, GET("/late")), 200, "added");
    wait_for_calls(1 + 2 + 3 + 4 + 5);
    assert_int_equal(warned(), 1);
    char place[64];
    snprintf(place, sizeof place, "hooks.c:%u)", late_hook_line);
    assert_non_null(strstr(warnings[0], place));
    assert_non_null(strstr(warnings[0], "dz_after"));
}

static void hooks_that_pile_up_are_named_once(void **state)
{
    (void)state;
    assert_int_equal(dz_app_set(app, "hooks-max", "3"), 0);
    dz_get(app, "/late", late_hook);
    port = serve(app);
    for (int i = 0; i < 6; i++)
        assert_reply(ask(port, GET("/late")), 200, "added");
    wait_for_calls(21);
    assert_int_equal(warned(), 2);
    assert_non_null(strstr(warnings[1], "more than 3 hooks"));
    assert_non_null(strstr(warnings[1], "hooks.c:"));
}

static void too_many_before_the_start_are_named_with_the_first_too_many(void **state)
{
    (void)state;
    unsigned line = 0;
    for (unsigned i = 0; i < 10; i++)
        dz_after(app, count_call, NULL);
    line = __LINE__ + 1;
    dz_after(app, count_call, NULL);
    dz_after(app, count_call, NULL);
    assert_int_equal(warned(), 0); /* the limit may still be set */
    port = serve(app);
    assert_int_equal(warned(), 1);
    char place[64];
    snprintf(place, sizeof place, "hooks.c:%u ", line);
    assert_non_null(strstr(warnings[0], place));
}

static void no_limit_no_warning(void **state)
{
    (void)state;
    assert_int_equal(dz_app_set(app, "hooks-max", "0"), 0);
    for (unsigned i = 0; i < 30; i++)
        dz_after(app, count_call, NULL);
    port = serve(app);
    assert_int_equal(warned(), 0);
}

static void pass(dz_request *req, dz_response *res)
{
    dz_next(req, res);
}

static dz_route *hello_route;

static void late_registrations(dz_request *req, dz_response *res)
{
    (void)req;
    dz_use(app, pass);
    dz_use(app, pass);
    dz_route_use(hello_route, pass);
    dz_route *route = dz_get(app, "/later", hello);
    dz_app *group = dz_group(app, "/group");
    dz_send_text(res, 200, route || group ? "added" : "left out");
}

static void middleware_and_routes_of_a_running_app_are_refused_and_named(void **state)
{
    (void)state;
    hello_route = dz_get(app, "/other", hello);
    dz_get(app, "/register", late_registrations);
    port = serve(app);
    assert_reply(ask(port, GET("/register")), 200, "left out");
    assert_reply(ask(port, GET("/register")), 200, "left out");
    assert_status(ask(port, GET("/later")), 404);
    assert_reply(ask(port, GET("/hello")), 200, "hello");
    assert_int_equal(warned(), 2); /* middleware and routes, each once */
    assert_non_null(strstr(warnings[0], "dz_use was called while the app runs"));
    assert_non_null(strstr(warnings[0], "hooks.c:"));
    assert_non_null(strstr(warnings[1], "/later"));
}

static void *add_many(void *arg)
{
    (void)arg;
    for (int i = 0; i < 200; i++)
        assert_int_equal(dz_after(app, count_call, NULL), 0);
    return NULL;
}

static void hooks_may_be_added_by_many_threads_while_requests_run_them(void **state)
{
    (void)state;
    port = serve(app);
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, NULL), 0);
    for (int i = 0; i < 20; i++)
        assert_reply(ask(port, GET("/hello")), 200, "hello");
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    unsigned before = atomic_load(&calls);
    assert_reply(ask(port, GET("/hello")), 200, "hello");
    wait_for_calls(before + 800);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    assert_int_equal(dz_after(NULL, count_call, NULL), DZ_E_INVALID);
    assert_int_equal(dz_after(app, NULL, NULL), DZ_E_INVALID);
    port = serve(app);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(hooks_run_in_order_after_every_response, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_hook_added_by_a_request_is_named_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hooks_that_pile_up_are_named_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_many_before_the_start_are_named_with_the_first_too_many,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_limit_no_warning, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            middleware_and_routes_of_a_running_app_are_refused_and_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hooks_may_be_added_by_many_threads_while_requests_run_them,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_arguments_are_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
