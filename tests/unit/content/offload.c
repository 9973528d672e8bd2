/* A function that a handler has run on a worker: it has run when the call says so, and not else. */
#include "../serve.h"
#include "../alloc.h"

#include "content/offload.h"

#include <pthread.h>

static dz_app *app;
static unsigned port;
static dz_pool *pool;
static atomic_bool held;
static atomic_int begun, result, runs;
static pthread_t handler_thread, worker_thread;
static atomic_bool no_memory;

static void work(void *arg)
{
    worker_thread = pthread_self();
    atomic_fetch_add(&begun, 1);
    while (atomic_load(&held))
        usleep(500);
    atomic_fetch_add((atomic_int *)arg, 1);
}

/* Answers with what dz_offload returned; its variable is on the fiber's stack. */
static void offload(dz_request *req, dz_response *res)
{
    (void)req;
    atomic_int ran = 0;
    handler_thread = pthread_self();
    if (atomic_load(&no_memory))
        allocs_left = 0;
    int rc = dz_offload(pool, work, &ran);
    allocs_left = -1;
    assert_int_equal(atomic_load(&ran), rc == 0); /* run exactly when it says so */
    atomic_store(&result, rc);
    atomic_fetch_add(&runs, 1);
    dz_send_json(res, 200, "%d", rc);
}

static unsigned waiting(void)
{
    dz_pool_stats stats;
    dz_pool_get_stats(pool, &stats);
    return stats.queued;
}

static int set_up(void **state)
{
    (void)state;
    atomic_store(&held, false);
    atomic_store(&no_memory, false);
    atomic_store(&begun, 0);
    atomic_store(&runs, 0);
    pool = dz_offload_pool(1, 1);
    assert_non_null(pool);
    app = dz_app_new();
    dz_get(app, "/", offload);
    port = serve(app);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    serve_end(app);
    dz_pool_free(pool);
    return 0;
}

static void it_runs_on_a_worker_and_the_loop_goes_on(void **state)
{
    (void)state;
    atomic_store(&held, true);
    int fd = connect_to(port);
    say(fd, GET("/"));
    wait_until(atomic_load(&begun) == 1);
    assert_false(pthread_equal(handler_thread, worker_thread));
    assert_status(ask(port, GET("/none")), 404); /* the loop is free */
    atomic_store(&held, false);
    assert_reply(hear(fd), 200, "0");
    close(fd);
}

static void a_full_queue_is_an_error_and_nothing_was_run(void **state)
{
    (void)state;
    atomic_store(&held, true);
    int fds[2];
    for (int i = 0; i < 2; i++) { /* one runs, one waits */
        fds[i] = connect_to(port);
        say(fds[i], GET("/"));
        wait_until(atomic_load(&begun) == 1);
    }
    wait_until(waiting() == 1);
    char wanted[16];
    snprintf(wanted, sizeof wanted, "%d", DZ_E_QUEUE_FULL);
    assert_reply(ask(port, GET("/")), 200, wanted);
    assert_int_equal(atomic_load(&begun), 1);
    atomic_store(&held, false);
    for (int i = 0; i < 2; i++) {
        assert_reply(hear(fds[i]), 200, "0");
        close(fds[i]);
    }
}

static void a_client_that_goes_before_its_turn_cancels_it(void **state)
{
    (void)state;
    atomic_store(&held, true);
    int first = connect_to(port);
    say(first, GET("/"));
    wait_until(atomic_load(&begun) == 1);
    int second = connect_to(port);
    say(second, GET("/"));
    wait_until(waiting() == 1);
    close(second);
    wait_until(atomic_load(&runs) == 1);
    assert_int_equal(atomic_load(&result), DZ_E_CANCELLED);
    atomic_store(&held, false);
    assert_reply(hear(first), 200, "0");
    close(first);
}

static void without_memory_it_is_an_error_and_nothing_was_run(void **state)
{
    (void)state;
    char wanted[16];
    snprintf(wanted, sizeof wanted, "%d", DZ_E_NOMEM);
    atomic_store(&no_memory, true);
    assert_reply(ask(port, GET("/")), 200, wanted);
    atomic_store(&no_memory, false);
    assert_int_equal(atomic_load(&begun), 0);
    assert_reply(ask(port, GET("/")), 200, "0");
    dz_pool *made;
    with_few_allocations(made = dz_offload_pool(1, 1), made != NULL, true);
    dz_pool_free(made);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_runs_on_a_worker_and_the_loop_goes_on),
        TEST(a_full_queue_is_an_error_and_nothing_was_run),
        TEST(a_client_that_goes_before_its_turn_cancels_it),
        TEST(without_memory_it_is_an_error_and_nothing_was_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
