/* From a request to its handler: the ways that fail (--wrap of what gives memory, stacks, workers).
 */
#include "../serve.h"

#include "app/shedding.h"

static dz_app *app;
static unsigned port;

/* --- a loop that is short of something --- */

static _Atomic bool no_call, no_fiber, no_worker;

void *__real_dz_arena_alloc(dz_arena *arena, size_t size);
void *__wrap_dz_arena_alloc(dz_arena *arena, size_t size);
void *__wrap_dz_arena_alloc(dz_arena *arena, size_t size)
{
    bool fails = size == sizeof(dz_call) && atomic_load(&no_call);
    return fails ? NULL : __real_dz_arena_alloc(arena, size);
}

dz_fiber *__real_dz_fiber_new(dz_loop *loop);
dz_fiber *__wrap_dz_fiber_new(dz_loop *loop);
dz_fiber *__wrap_dz_fiber_new(dz_loop *loop)
{
    return atomic_load(&no_fiber) ? NULL : __real_dz_fiber_new(loop);
}

int __real_dz_pool_submit_with(dz_pool *pool, dz_job *job, dz_priority priority);
int __wrap_dz_pool_submit_with(dz_pool *pool, dz_job *job, dz_priority priority);
int __wrap_dz_pool_submit_with(dz_pool *pool, dz_job *job, dz_priority priority)
{
    return atomic_load(&no_worker) ? DZ_E_QUEUE_FULL
                                   : __real_dz_pool_submit_with(pool, job, priority);
}

/* --- handlers --- */

static _Atomic bool parked, go_on;
static _Atomic int hooks_run;

static void hello(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_text(res, 200, "hello");
}

/* Whether it runs on the thread of its loop. */
static bool on_loop(const dz_request *req)
{
    bool owner = dz_loop_pin(req->loop);
    if (owner)
        dz_loop_unpin(req->loop);
    return owner;
}

static void park_between(dz_request *req, dz_response *res)
{
    bool before = on_loop(req);
    atomic_store(&parked, true);
    while (!atomic_load(&go_on))
        dz_sleep(1);
    dz_sleep(1); /* at least one park after the test let it go on */
    dz_send_json(res, 200, "[%d,%d]", (int)before, (int)on_loop(req));
}

static void answer_nothing(dz_request *req, dz_response *res)
{
    (void)req, (void)res;
}

static void leave_open(dz_request *req, dz_response *res)
{
    (void)req;
    dz_stream(res, 200, "text/plain");
    dz_write(res, DZ_LIT("no end"));
}

static void read_and_answer_nothing(dz_request *req, dz_response *res)
{
    (void)res;
    dz_slice body;
    (void)dz_req_body(req, &body);
}

static void note_hook(dz_request *req, dz_response *res, void *data)
{
    (void)req, (void)res, (void)data;
    atomic_fetch_add(&hooks_run, 1);
}

static void next_twice(dz_request *req, dz_response *res)
{
    dz_next(req, res);
    dz_next(req, res); /* the chain is at its end: nothing happens */
}

static int set_up(void **state)
{
    (void)state;
    atomic_store(&no_call, false);
    atomic_store(&no_fiber, false);
    atomic_store(&no_worker, false);
    atomic_store(&parked, false);
    atomic_store(&go_on, false);
    atomic_store(&hooks_run, 0);
    app = dz_app_new();
    dz_app_set(app, "shed", "fixed");
    dz_app_set(app, "shed-in-flight-max", "100");
    dz_app_set(app, "rescue-after", "0"); /* so that what starts on the loop stays there */
    dz_after(app, note_hook, NULL);
    dz_get(app, "/hello", hello);
    dz_blocking(dz_get(app, "/worker", hello));
    dz_blocking(dz_get(app, "/park", park_between));
    dz_get(app, "/nothing", answer_nothing);
    dz_get(app, "/open", leave_open);
    dz_body_limit(dz_post(app, "/read", read_and_answer_nothing), 10);
    dz_route_use(dz_get(app, "/twice", hello), next_twice);
    port = serve(app);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    serve_end(app);
    return 0;
}

static uint64_t in_flight(void)
{
    dz_shed_stats stats;
    dz_shed_get_stats(app, &stats);
    return stats.in_flight;
}

/* --- tests --- */

static void refused_while(_Atomic bool *shortage)
{
    atomic_store(shortage, true);
    int fd = connect_to(port);
    say(fd, GET("/hello"));
    assert_status(hear(fd), 503);
    close(fd);
    atomic_store(shortage, false);
    assert_reply(ask(port, GET("/hello")), 200, "hello");
    wait_until(in_flight() == 0); /* what was let in is counted out, too */
}

static void without_memory_for_it_a_request_is_answered_503(void **state)
{
    (void)state;
    refused_while(&no_call);
}

static void without_a_stack_for_it_a_request_is_answered_503(void **state)
{
    (void)state;
    refused_while(&no_fiber);
}

static void pipelined_requests_are_each_answered_while_there_is_no_stack(void **state)
{
    (void)state;
    atomic_store(&no_fiber, true);
    int fd = connect_to(port);
    say(fd, GET("/hello") GET("/hello"));
    reply first = hear(fd);
    assert_int_equal(first.status, 503);
    if (!reply_has(&first, "Connection: close"))
        assert_status(hear(fd), 503);
    else
        assert_true(ended(fd));
    reply_free(&first);
    close(fd);
    wait_until(in_flight() == 0);
}

static void without_a_worker_a_blocking_route_says_when_to_come_back(void **state)
{
    (void)state;
    atomic_store(&no_worker, true);
    reply got = ask(port, GET("/worker"));
    assert_int_equal(got.status, 503);
    assert_true(reply_has(&got, "Retry-After: 1"));
    reply_free(&got);
    assert_reply(ask(port, GET("/hello")), 200, "hello"); /* the loop is not in its way */
    wait_until(in_flight() == 0);
    atomic_store(&no_worker, false);
    assert_reply(ask(port, GET("/worker")), 200, "hello");
    wait_until(atomic_load(&hooks_run) == 3);
}

static void a_parked_handler_goes_on_where_it_began(void **state)
{
    (void)state;
    int fd = connect_to(port);
    say(fd, GET("/park"));
    wait_until(atomic_load(&parked));
    atomic_store(&go_on, true);
    assert_reply(hear(fd), 200, "[0,0]");
    close(fd);
}

static void a_parked_handler_that_no_worker_takes_back_goes_on_all_the_same(void **state)
{
    (void)state;
    int fd = connect_to(port);
    say(fd, GET("/park"));
    wait_until(atomic_load(&parked));
    atomic_store(&no_worker, true);
    atomic_store(&go_on, true);
    assert_reply(hear(fd), 200, "[0,1]");
    close(fd);
    wait_until(in_flight() == 0);
}

static void what_a_handler_left_open_is_completed(void **state)
{
    (void)state;
    int fd = connect_to(port);
    say(fd, GET("/nothing") GET("/open") GET("/hello"));
    assert_reply(hear(fd), 500, "{\"error\":\"Internal Server Error\"}\n");
    assert_reply(hear(fd), 200, "no end");
    assert_reply(hear(fd), 200, "hello");
    close(fd);
}

static void a_body_that_failed_says_why_in_the_handlers_place(void **state)
{
    (void)state;
    assert_status(ask(port, "POST /read HTTP/1.1\r\nHost: t\r\nContent-Length: 11\r\n\r\n"
                            "0123456789a"),
                  413);
    assert_status(ask(port, "POST /read HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
                            "x\r\n"),
                  400);
    assert_status(ask(port, "POST /read HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\n"
                            "0123456789"),
                  500); /* read, and then not answered */
}

static void the_end_of_a_chain_is_reached_once(void **state)
{
    (void)state;
    int fd = connect_to(port);
    say(fd, GET("/twice") GET("/hello"));
    assert_reply(hear(fd), 200, "hello");
    assert_reply(hear(fd), 200, "hello");
    close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_memory_for_it_a_request_is_answered_503),
        TEST(without_a_stack_for_it_a_request_is_answered_503),
        TEST(pipelined_requests_are_each_answered_while_there_is_no_stack),
        TEST(without_a_worker_a_blocking_route_says_when_to_come_back),
        TEST(a_parked_handler_goes_on_where_it_began),
        TEST(a_parked_handler_that_no_worker_takes_back_goes_on_all_the_same),
        TEST(what_a_handler_left_open_is_completed),
        TEST(a_body_that_failed_says_why_in_the_handlers_place),
        TEST(the_end_of_a_chain_is_reached_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
