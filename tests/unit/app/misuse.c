/* What a careless program does: it gets an error it can read, and nothing is corrupted. */
#include "../serve.h"

#include <pthread.h>

/* --- somebody else's request --- */

/* Every call that would park, allocate or send, from where it must not come. */
static void try_everything(dz_request *req, dz_response *res)
{
    dz_slice body;
    dz_buf taken;
    char bytes[8];
    assert_int_equal(dz_req_body(req, &body), DZ_E_STATE);
    assert_int_equal(dz_req_take_body(req, &taken), DZ_E_STATE);
    assert_int_equal(dz_req_read(req, bytes, sizeof bytes), DZ_E_STATE);
    assert_int_equal(dz_req_set(req, "key", bytes), DZ_E_STATE);
    assert_null(dz_req_alloc(req, 8));
    assert_string_equal(dz_req_ip(req), "");
    assert_null(dz_req_query(req, "escaped").ptr);
    assert_int_equal(dz_res_header(res, "X-Stolen", "1"), DZ_E_STATE);
    assert_int_equal(dz_res_add_header(res, "X-Stolen", "1"), DZ_E_STATE);
    assert_int_equal(dz_send_text(res, 200, "stolen"), DZ_E_STATE);
    assert_int_equal(dz_send_json(res, 200, "{}"), DZ_E_STATE);
    assert_int_equal(dz_send_status(res, 204), DZ_E_STATE);
    assert_int_equal(dz_send_error(res, 500, 0), DZ_E_STATE);
    assert_int_equal(dz_redirect(res, 302, "/"), DZ_E_STATE);
    assert_int_equal(dz_stream(res, 200, NULL), DZ_E_STATE);
    assert_int_equal(dz_write(res, DZ_LIT("stolen")), DZ_E_STATE);
    assert_int_equal(dz_end(res), DZ_E_STATE);
}

typedef struct pair {
    dz_request *req;
    dz_response *res;
} pair;

static void *in_a_thread(void *arg)
{
    const pair *it = arg;
    try_everything(it->req, it->res);
    return NULL;
}

static void to_a_thread(dz_request *req, dz_response *res)
{
    pair it = {req, res};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, in_a_thread, &it), 0);
    pthread_join(thread, NULL);
    dz_send_text(res, 200, "own");
}

static _Atomic(pair *) lent;
static _Atomic bool returned;

static void lend(dz_request *req, dz_response *res)
{
    pair it = {req, res};
    assert_int_equal(dz_stream(res, 200, NULL), 0);
    atomic_store(&lent, &it);
    while (!atomic_load(&returned))
        dz_sleep(1);
    dz_write(res, DZ_LIT("own"));
}

static void borrow(dz_request *req, dz_response *res)
{
    (void)req;
    pair *it;
    while (!(it = atomic_load(&lent)))
        dz_sleep(1);
    try_everything(it->req, it->res);
    atomic_store(&returned, true);
    dz_send_text(res, 200, "borrowed");
}

static void another_thread_can_t_use_a_request(void **state)
{
    (void)state;
    dz_app *app = dz_app_new();
    dz_post(app, "/thread", to_a_thread);
    unsigned port = serve(app);
    reply got =
        ask(port, "POST /thread?escaped=%41 HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\nab");
    assert_false(reply_has(&got, "X-Stolen: 1"));
    assert_reply(got, 200, "own");
    serve_end(app);
}

static void another_handler_can_t_use_a_request(void **state)
{
    (void)state;
    dz_app *app = dz_app_new();
    dz_get(app, "/lend", lend);
    dz_get(app, "/borrow", borrow);
    unsigned port = serve(app);
    int fd = connect_to(port);
    say(fd, GET("/lend?escaped=%41"));
    assert_reply(ask(port, GET("/borrow")), 200, "borrowed");
    assert_reply(hear(fd), 200, "own");
    close(fd);
    serve_end(app);
}

/* --- too much --- */

static void add_headers(dz_request *req, dz_response *res)
{
    (void)req;
    int rc = 0, count = 0;
    while (rc == 0 && count < 100000) {
        rc = dz_res_add_header(res, "X", "y");
        count += rc == 0;
    }
    assert_int_equal(rc, DZ_E_TOO_LARGE);
    assert_true(count > 1000);
    dz_send_text(res, 200, "");
}

static void headers_without_end_are_refused(void **state)
{
    (void)state;
    dz_app *app = dz_app_new();
    dz_get(app, "/", add_headers);
    unsigned port = serve(app);
    int fd = connect_to(port);
    say(fd, "GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    size_t len = 0;
    for (char byte; hear_byte(fd, &byte);)
        len++;
    assert_true(len > 1000 * strlen("X: y\r\n"));
    close(fd);
    serve_end(app);
}

/* --- the app's life --- */

static void answer(dz_request *req, dz_response *res)
{
    dz_sleep(20);
    (void)req;
    dz_send_text(res, 200, "done");
}

static void an_app_freed_while_it_runs_finishes_its_requests(void **state)
{
    (void)state;
    dz_app *app = dz_app_new();
    dz_get(app, "/", answer);
    unsigned port = serve(app);
    int fd = connect_to(port);
    say(fd, GET("/"));
    wait_until(open_connections(app) > 0);
    dz_app_free(app);
    assert_reply(hear(fd), 200, "done");
    assert_true(ended(fd));
    close(fd);
}

static char said[256];

static void note(void *context, int level, const char *message)
{
    (void)context;
    if (level == 50)
        snprintf(said, sizeof said, "%s", message);
}

static void end_itself(dz_request *req, dz_response *res)
{
    dz_app *app = dz_req_data(req);
    assert_int_equal(dz_app_wait(app), DZ_E_STATE);
    dz_app_free(app);
    dz_send_text(res, 200, "still here");
}

static void a_handler_can_t_end_its_own_app(void **state)
{
    (void)state;
    dz_app *app = dz_app_new();
    dz_app_set_data(app, app);
    dz_on_log(app, note, NULL);
    dz_get(app, "/", end_itself);
    unsigned port = serve(app);
    assert_reply(ask(port, GET("/")), 200, "still here");
    serve_end(app); /* its threads have ended: what they noted can be read */
    assert_non_null(strstr(said, "dz_app_free while handlers run"));
}

static void no_app_is_an_error_or_nothing(void **state)
{
    (void)state;
    assert_int_equal(dz_app_set(NULL, "port", "0"), DZ_E_INVALID);
    assert_int_equal(dz_app_start(NULL, NULL), DZ_E_INVALID);
    assert_int_equal(dz_app_wait(NULL), DZ_E_INVALID);
    dz_app_stop(NULL);
    dz_app_free(NULL);
    dz_pool *pool = dz_pool_new(NULL);
    assert_non_null(pool);
    assert_int_equal(dz_pool_add_task(pool, "task", NULL), DZ_E_INVALID);
    assert_int_equal(dz_pool_add_task(pool, NULL, NULL), DZ_E_INVALID);
    dz_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_thread_can_t_use_a_request),
        cmocka_unit_test(another_handler_can_t_use_a_request),
        cmocka_unit_test(headers_without_end_are_refused),
        cmocka_unit_test(an_app_freed_while_it_runs_finishes_its_requests),
        cmocka_unit_test(a_handler_can_t_end_its_own_app),
        cmocka_unit_test(no_app_is_an_error_or_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
