/* What a service registers: middleware, groups, routes. */
#include "../check.h"
#include "../alloc.h"
#include "app/app.h"
#include "new_app.h"

#include <donmaz/error.h>

#include <stdarg.h>
#include <stdio.h>

/* asprintf has memory from within the C library (--wrap=asprintf). */
int __wrap_asprintf(char **out, const char *format, ...) __attribute__((format(printf, 2, 3)));
int __wrap_asprintf(char **out, const char *format, ...)
{
    if (alloc_fails())
        return -1;
    va_list list;
    va_start(list, format);
    int len = vasprintf(out, format, list);
    va_end(list);
    return len;
}

/* --- what can be registered: never run here --- */

#define HANDLER(name)                                                                              \
    static void name(dz_request *req, dz_response *res)                                            \
    {                                                                                              \
        (void)req;                                                                                 \
        dz_send_text(res, 200, #name);                                                             \
    }

HANDLER(a)
HANDLER(b)
HANDLER(c)
HANDLER(d)
HANDLER(last)

static void assert_chain_is(const dz_route *route, size_t count, ...)
{
    assert_non_null(route);
    assert_int_equal(route->chain_len, count);
    va_list list;
    va_start(list, count);
    for (size_t i = 0; i < count; i++)
        assert_true(route->chain[i] == va_arg(list, dz_handler *));
    va_end(list);
}

#define assert_chain(route, ...)                                                                   \
    assert_chain_is(route, sizeof((dz_handler *[]){__VA_ARGS__}) / sizeof(dz_handler *),           \
                    __VA_ARGS__)

static const dz_route *find(dz_method method, const char *path)
{
    static dz_route_match match;
    return dz_router_find(app->core->router, method, dz_slice_of(path), &match) == 0 ? match.route
                                                                                     : NULL;
}

static size_t route_count(void)
{
    size_t count = 0;
    for (dz_list *link = app->core->routes.next; link != &app->core->routes; link = link->next)
        count++;
    return count;
}

/* --- middleware --- */

static void routes_have_the_middleware_that_was_there_before_them(void **state)
{
    (void)state;
    const dz_route *before = dz_get(app, "/before", last);
    dz_use(app, a);
    const dz_route *between = dz_get(app, "/between", last);
    dz_use(app, b);
    const dz_route *after = dz_get(app, "/after", last);
    assert_chain(before, last);
    assert_chain(between, a, last);
    assert_chain(after, a, b, last);
}

static void it_goes_from_the_app_by_its_groups_to_the_route(void **state)
{
    (void)state;
    dz_app *outer = dz_group(app, "/outer"), *inner = dz_group(outer, "/inner");
    dz_use(inner, c); /* whenever each was added */
    dz_use(outer, b);
    dz_use(app, a);
    dz_route *route = dz_get(inner, "/x", last);
    assert_chain(route, a, b, c, last);
    assert_ptr_equal(dz_route_use(route, d), route);
    assert_chain(route, a, b, c, d, last);
    assert_ptr_equal(dz_route_use(route, a), route);
    assert_chain(route, a, b, c, d, a, last);
    assert_chain(dz_get(outer, "/y", last), a, b, last);
    assert_chain(dz_get(app, "/z", last), a, last); /* a group's is not the app's */
}

/* --- routes --- */

static void a_route_is_found_by_its_method_and_named_for_its_place(void **state)
{
    (void)state;
    static dz_route *(*const verbs[])(dz_app *, const char *, dz_handler *) = {
        dz_get, dz_post, dz_put, dz_patch, dz_delete};
    static const dz_method methods[] = {DZ_GET, DZ_POST, DZ_PUT, DZ_PATCH, DZ_DELETE};
    static const char *const labels[] = {"GET /it/:id", "POST /it/:id", "PUT /it/:id",
                                         "PATCH /it/:id", "DELETE /it/:id"};
    for (size_t i = 0; i < 5; i++) {
        const dz_route *route = verbs[i](app, "/it/:id", last);
        assert_non_null(route);
        assert_ptr_equal(find(methods[i], "/it/7"), route);
        assert_string_equal(route->label, labels[i]);
        assert_string_equal(route->pattern, "/it/:id");
    }
    assert_null(find(DZ_OPTIONS, "/it/7"));
    const dz_route *any = dz_all(app, "/it/:id", last);
    assert_ptr_equal(find(DZ_OPTIONS, "/it/7"), any);
    assert_ptr_equal(find(DZ_OTHER, "/it/7"), any);
    assert_string_equal(any->label, "ANY /it/:id");
    assert_int_equal(route_count(), 6);
    assert_null(app->core->build_error);
}

static void a_group_s_prefix_goes_before_its_patterns(void **state)
{
    (void)state;
    dz_app *api = dz_group(app, "/api/"), *deep = dz_group(api, "/v:n");
    const dz_route *root = dz_get(api, "/", last), *deeper = dz_get(deep, "/x", last);
    assert_string_equal(root->label, "GET /api");
    assert_ptr_equal(find(DZ_GET, "/api"), root);
    assert_string_equal(deeper->label, "GET /api/v:n/x");
    assert_ptr_equal(find(DZ_GET, "/api/v2/x"), deeper);
    dz_app *none = dz_group(app, "/"); /* the app's own place */
    assert_string_equal(dz_get(none, "/", last)->label, "GET /");
    assert_string_equal(dz_get(none, "/y", last)->label, "GET /y");
    assert_string_equal(dz_get(dz_group(app, ""), "/z", last)->label, "GET /z");
}

static void what_a_route_is_told_is_kept(void **state)
{
    (void)state;
    dz_route *route = dz_get(app, "/", last);
    assert_int_equal(route->body_max, 0);
    assert_int_equal(route->rule, DZ_ROUTE_LEARNED);
    assert_ptr_equal(dz_body_limit(dz_blocking(route), 77), route);
    assert_int_equal(route->body_max, 77);
    assert_int_equal(route->rule, DZ_ROUTE_BLOCKING);
    assert_int_equal(dz_route_now(route), DZ_ROUTE_HEAVY);
    assert_ptr_equal(dz_inline(route), route);
    assert_int_equal(route->rule, DZ_ROUTE_INLINE);
    assert_int_equal(dz_route_now(route), DZ_ROUTE_LIGHT);
}

/* --- mistakes --- */

static void the_first_mistake_is_told_at_the_start(void **state)
{
    (void)state;
    assert_non_null(dz_get(app, "/a/:id", last));
    assert_null(dz_get(app, "/a/:other", last));
    assert_null(dz_get(app, "no-slash", last));
    assert_string_equal(app->core->build_error, "/a/:other");
    assert_int_equal(dz_app_start(app, NULL), DZ_E_EXISTS);
    dz_app_stop(app); /* nothing runs: harmless */
    assert_int_equal(dz_app_wait(app), DZ_E_STATE);
    assert_int_equal(route_count(), 1);
}

static void registering_nothing_stops_the_start(void **state)
{
    for (int what = 0; what < 5; what++) {
        if (what == 0)
            assert_null(dz_get(app, "/", NULL));
        else if (what == 1)
            assert_null(dz_get(app, NULL, last));
        else if (what == 2)
            assert_null(dz_group(app, NULL));
        else if (what == 3)
            dz_use(app, NULL);
        else
            assert_non_null(dz_route_use(dz_get(app, "/", last), NULL));
        assert_non_null(app->core->build_error);
        assert_int_equal(dz_app_start(app, NULL), DZ_E_INVALID);
        tear_down(state);
        assert_int_equal(set_up(state), 0);
    }
}

static void what_could_not_be_made_is_passed_over(void **state)
{
    (void)state;
    assert_null(dz_get(NULL, "/", last));
    assert_null(dz_all(NULL, "/", last));
    assert_null(dz_group(NULL, "/"));
    dz_use(NULL, a);
    assert_null(dz_route_use(NULL, a));
    assert_null(dz_blocking(NULL));
    assert_null(dz_inline(NULL));
    assert_null(dz_body_limit(NULL, 1));
}

static void once_it_runs_nothing_more_is_taken(void **state)
{
    (void)state;
    dz_route *route = dz_get(app, "/", last);
    dz_core_seal(app->core);
    assert_null(dz_get(app, "/late", last));
    assert_null(dz_group(app, "/late"));
    dz_use(app, a);
    assert_ptr_equal(dz_route_use(route, a), route);
    assert_chain(route, last);
    assert_int_equal(route_count(), 1);
    assert_int_equal(app->middleware_count, 0);
    assert_null(app->core->build_error); /* it was warned of instead: see hooks.c */
}

/* --- memory --- */

static void anew(void)
{
    dz_app_free(app);
    app = dz_app_new();
    assert_non_null(app);
}

static void without_memory_a_route_is_told_and_not_half_there(void **state)
{
    (void)state;
    dz_route *route = NULL;
    dz_use(app, a);
    with_few_allocations(route = dz_get(app, "/x/:id", last), route != NULL,
                         app->core->build_error_code == DZ_E_NOMEM && route_count() == 0 &&
                             find(DZ_GET, "/x/1") == NULL);
    assert_string_equal(app->core->build_error, "/x/:id");
    assert_int_equal(dz_app_start(app, NULL), DZ_E_NOMEM);
    assert_ptr_equal(find(DZ_GET, "/x/1"), route);
    assert_chain(route, a, last);
}

static void without_memory_a_group_is_told(void **state)
{
    (void)state;
    dz_app *group = NULL;
    with_few_allocations(group = dz_group(app, "/api"), group != NULL,
                         app->core->build_error_code == DZ_E_NOMEM &&
                             dz_list_empty(&app->core->groups));
    assert_string_equal(app->core->build_error, "/api");
}

static void without_memory_middleware_is_told_and_what_was_there_stays(void **state)
{
    (void)state;
    dz_use(app, a);
    allocs_left = 0;
    dz_use(app, b);
    allocs_left = -1;
    assert_int_equal(app->middleware_count, 1);
    assert_string_equal(app->core->build_error, "dz_use");
    assert_int_equal(dz_app_start(app, NULL), DZ_E_NOMEM);
    anew();
    dz_route *route = dz_get(app, "/", last);
    allocs_left = 0;
    dz_route_use(route, b);
    allocs_left = -1;
    assert_chain(route, last);
    assert_string_equal(app->core->build_error, "GET /");
    assert_int_equal(app->core->build_error_code, DZ_E_NOMEM);
}

static void a_chain_that_can_t_be_made_anew_stays_as_it_was(void **state)
{
    (void)state;
    dz_route *route = dz_get(app, "/", last);
    dz_use(app, a);
    allocs_left = 0;
    int rc = dz_route_build_chain(route, app, b);
    allocs_left = -1;
    assert_int_equal(rc, DZ_E_NOMEM);
    assert_chain(route, last);
    assert_int_equal(dz_route_build_chain(route, app, b), 0);
    assert_chain(route, a, b);
    assert_int_equal(dz_route_build_chain(route, NULL, c), 0); /* of no app: alone */
    assert_chain(route, c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(routes_have_the_middleware_that_was_there_before_them),
        TEST(it_goes_from_the_app_by_its_groups_to_the_route),
        TEST(a_route_is_found_by_its_method_and_named_for_its_place),
        TEST(a_group_s_prefix_goes_before_its_patterns),
        TEST(what_a_route_is_told_is_kept),
        TEST(the_first_mistake_is_told_at_the_start),
        TEST(registering_nothing_stops_the_start),
        TEST(what_could_not_be_made_is_passed_over),
        TEST(once_it_runs_nothing_more_is_taken),
        TEST(without_memory_a_route_is_told_and_not_half_there),
        TEST(without_memory_a_group_is_told),
        TEST(without_memory_middleware_is_told_and_what_was_there_stays),
        TEST(a_chain_that_can_t_be_made_anew_stays_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
