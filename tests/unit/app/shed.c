/* Overload protection of a running service: who gets 503, who doesn't, and what comes with it. */
#include "../serve.h"

#include "app/shedding.h"

#include <poll.h>

static dz_app *app;
static unsigned port;
static _Atomic bool released;
static _Atomic int running; /* handlers that wait for it */

/* --- handlers --- */

static void park(dz_request *req, dz_response *res)
{
    (void)req;
    atomic_fetch_add(&running, 1);
    while (!atomic_load(&released) && dz_sleep(1) == 0)
        ;
    atomic_fetch_sub(&running, 1);
    dz_send_text(res, 200, "parked");
}

static void spin(dz_request *req, dz_response *res)
{
    (void)req;
    atomic_fetch_add(&running, 1);
    while (!atomic_load(&released))
        ;
    atomic_fetch_sub(&running, 1);
    dz_send_text(res, 200, "spun");
}

static void burn_a_while(dz_request *req, dz_response *res)
{
    (void)req;
    uint64_t until = dz_now() + 100 * DZ_MS;
    while (dz_now() < until)
        ;
    dz_send_text(res, 200, "burnt");
}

static void work(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_text(res, 200, "worked");
}

static void add_header(dz_request *req, dz_response *res)
{
    dz_res_header(res, "X-Seen", "yes");
    dz_next(req, res);
}

/* --- a service for each test --- */

static void make(void)
{
    atomic_store(&released, false);
    app = dz_app_new();
    assert_non_null(app);
}

static void set(const char *name, const char *value)
{
    assert_int_equal(dz_app_set(app, name, value), 0);
}

static void add_routes(void)
{
    dz_get(app, "/park", park);
    dz_inline(dz_get(app, "/spin", spin));
    dz_inline(dz_get(app, "/burn", burn_a_while));
    dz_get(app, "/work", work);
    dz_shed_priority(dz_get(app, "/low", work), DZ_SHED_LOW);
    dz_shed_priority(dz_get(app, "/high", work), DZ_SHED_HIGH);
    assert_int_equal(dz_health_routes(app, "/livez", "/readyz"), 0);
}

static void start(void)
{
    add_routes();
    port = serve(app);
}

/* One that lets in so many at once. */
static void make_for(const char *in_flight)
{
    make();
    set("shed", "fixed");
    set("shed-in-flight-max", in_flight);
}

static void finish(void)
{
    atomic_store(&released, true);
    wait_until(atomic_load(&running) == 0);
    serve_end(app);
}

/* `count` requests that stay in flight, each on a connection of its own. */
static void park_requests(int *fds, int count)
{
    for (int i = 0; i < count; i++) {
        fds[i] = connect_to(port);
        say(fds[i], GET("/park"));
    }
    wait_until(atomic_load(&running) == count);
}

static void close_all(const int *fds, int count)
{
    for (int i = 0; i < count; i++)
        close(fds[i]);
}

static dz_shed_stats stats(void)
{
    dz_shed_stats all;
    dz_shed_get_stats(app, &all);
    return all;
}

/* --- in flight --- */

static void parked_requests_are_in_flight(void **state)
{
    (void)state;
    int fds[4];
    make_for("4");
    start();
    park_requests(fds, 4);
    reply refused = ask(port, GET("/work"));
    assert_int_equal(refused.status, 503);
    assert_true(reply_has(&refused, "Retry-After: 1"));
    assert_true(reply_has(&refused, "Content-Type: application/json"));
    assert_non_null(strstr(refused.body, "overloaded"));
    reply_free(&refused);
    assert_int_equal(stats().in_flight, 4);
    assert_int_equal(stats().refused_by[DZ_SHED_BY_IN_FLIGHT], 1);
    atomic_store(&released, true);
    for (int i = 0; i < 4; i++)
        assert_reply(hear(fds[i]), 200, "parked");
    wait_until(stats().in_flight == 0);
    assert_reply(ask(port, GET("/work")), 200, "worked");
    close_all(fds, 4);
    finish();
}

static void health_checks_are_never_refused(void **state)
{
    (void)state;
    int fds[2];
    make_for("2");
    start();
    assert_reply(ask(port, GET("/readyz")), 200, "{\"status\":\"ready\"}\n");
    park_requests(fds, 2);
    assert_reply(ask(port, GET("/readyz")), 200, "{\"status\":\"ready\"}\n");
    for (int i = 0; i < 5; i++)
        assert_status(ask(port, GET("/work")), 503);
    assert_reply(ask(port, GET("/livez")), 200, "{\"status\":\"live\"}\n");
    atomic_store(&released, true);
    /* Not for one refusal: readiness says so for a second. On a machine that took longer it must
     * have come back. */
    reply ready = ask(port, GET("/readyz"));
    if (ready.status == 503) {
        assert_string_equal(ready.body, "{\"status\":\"overloaded\"}\n");
        assert_true(reply_has(&ready, "Cache-Control: no-store"));
        assert_true(reply_has(&ready, "Retry-After: 1"));
    }
    reply_free(&ready);
    wait_until(!dz_shed_overloaded(app));
    assert_status(ask(port, GET("/readyz")), 200);
    close_all(fds, 2);
    finish();
}

static void classes_are_refused_in_their_order(void **state)
{
    (void)state;
    int fds[6];
    make_for("4");
    start();
    park_requests(fds, 2);
    assert_status(ask(port, GET("/low")), 503);
    assert_status(ask(port, GET("/work")), 200);
    wait_until(stats().in_flight == 2);    /* its reply may come before it is counted out */
    assert_false(dz_shed_overloaded(app)); /* nothing was refused that matters */
    for (int i = 2; i < 4; i++) {
        fds[i] = connect_to(port);
        say(fds[i], GET("/park"));
    }
    wait_until(atomic_load(&running) == 4);
    assert_status(ask(port, GET("/work")), 503);
    assert_status(ask(port, GET("/high")), 200);
    assert_int_equal(stats().refused_low, 1);
    assert_int_equal(stats().refused, 2);
    close_all(fds, 4);
    finish();
}

static void a_refused_connection_goes_on(void **state)
{
    (void)state;
    int fds[1];
    make_for("1");
    set("shed-close-every", "0");
    start();
    park_requests(fds, 1);
    int fd = connect_to(port);
    /* Pipelined, with a body that nobody reads: each is answered, in order. */
    say(fd, GET("/work") "POST /work HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nhello" GET(
                "/livez") GET("/work"));
    assert_status(hear(fd), 503);
    assert_status(hear(fd), 503);
    assert_status(hear(fd), 200);
    assert_status(hear(fd), 503);
    atomic_store(&released, true);
    assert_status(hear(fds[0]), 200);
    wait_until(stats().in_flight == 0);
    say(fd, GET("/work"));
    assert_reply(hear(fd), 200, "worked");
    close(fd);
    close_all(fds, 1);
    finish();
}

static void thousands_of_pipelined_refusals_do_not_recurse(void **state)
{
    (void)state;
    int fds[1];
    make_for("1");
    set("shed-close-every", "0");
    start();
    park_requests(fds, 1);
    int fd = connect_to(port);
    char many[8192] = "";
    unsigned count = 0;
    for (size_t len = 0; len + 64 < sizeof many; count++)
        len += (size_t)snprintf(many + len, sizeof many - len, "%s", GET("/"));
    say(fd, many);
    assert_status(hear(fd), 503);
    assert_status(hear(fd), 503);
    close(fd); /* most of them are held back: the client has gone by then */
    wait_until(open_connections(app) == 1);
    close_all(fds, 1);
    finish();
}

static void who_asks_again_and_again_is_read_more_slowly(void **state)
{
    (void)state;
    int fds[1];
    make_for("1");
    set("shed-close-every", "0");
    start();
    park_requests(fds, 1);
    int fd = connect_to(port);
    uint64_t began = dz_now();
    for (int i = 0; i < 30; i++) {
        say(fd, GET("/work"));
        assert_status(hear(fd), 503);
    }
    /* From below only: a busy machine makes it longer. Without, it takes 2 ms. */
    assert_true(dz_now() - began >= 20 * DZ_MS);
    close(fd);
    close_all(fds, 1);
    finish();
}

/* --- connections --- */

static void under_pressure_connections_are_closed_first(void **state)
{
    (void)state;
    int fds[4];
    make_for("5");
    set("shed-close-every", "1");
    start();
    reply calm = ask(port, GET("/work"));
    assert_null(strstr(calm.head, "Connection: close"));
    reply_free(&calm);
    wait_until(stats().in_flight == 0);
    park_requests(fds, 4);
    int fd = connect_to(port);
    say(fd, GET("/work"));
    reply last = hear(fd);
    assert_int_equal(last.status, 200);
    assert_true(reply_has(&last, "Connection: close"));
    reply_free(&last);
    assert_int_equal(stats().closed, 1);
    assert_int_equal(stats().refused, 0);
    assert_int_equal(stats().level, DZ_SHED_PRESSURE);
    /* A client that ignores it is not answered, and not waited for. */
    say(fd, GET("/work"));
    assert_true(ended(fd));
    close(fd);
    wait_until(open_connections(app) == 4);
    close_all(fds, 4);
    finish();
}

/* --- loop lag: case 4 --- */

/* Says /spin, which must not be refused: on a slow machine it may have waited too long itself. */
static void spin_on(int fd)
{
    atomic_store(&released, false);
    for (reply got = {0}; atomic_load(&running) == 0; reply_free(&got)) {
        struct pollfd answer = {.fd = fd, .events = POLLIN};
        say(fd, GET("/spin"));
        wait_until(atomic_load(&running) == 1 || poll(&answer, 1, 0) == 1);
        if (atomic_load(&running) == 1)
            return;
        got = hear(fd);
        assert_int_equal(got.status, 503);
    }
}

/* Asks until it is not refused: a machine that is slow is overloaded, too. */
static void warm_up(int fd)
{
    int status;
    do {
        say(fd, GET("/work"));
        reply got = hear(fd);
        status = got.status;
        reply_free(&got);
    } while (status == 503);
    assert_int_equal(status, 200);
}

/* Spins on the loop for longer than the lag allowed, while two requests wait in their sockets. */
static void stall(const int *fds, uint64_t ns)
{
    spin_on(fds[0]);
    uint64_t began = dz_now();
    say(fds[1], GET("/work"));
    say(fds[2], GET("/livez"));
    wait_until(arrived(fds[1]) && arrived(fds[2]));
    wait_until(dz_now() - began > ns);
    atomic_store(&released, true);
    assert_reply(hear(fds[0]), 200, "spun");
}

static void with_rescue_off_a_stalled_loop_refuses_and_recovers(void **state)
{
    (void)state;
    int fds[3];
    make();
    set("rescue-after", "0");
    set("shed", "adaptive");
    start();
    for (int i = 0; i < 3; i++) {
        fds[i] = connect_to(port);
        warm_up(fds[i]);
    }
    stall(fds, 600 * DZ_MS); /* allowed: 500 */
    reply refused = hear(fds[1]);
    assert_int_equal(refused.status, 503);
    assert_true(reply_has(&refused, "Retry-After: 1"));
    reply_free(&refused);
    assert_reply(hear(fds[2]), 200, "{\"status\":\"live\"}\n");
    assert_true(stats().refused_by[DZ_SHED_BY_LAG] > 0);
    close_all(fds, 3);
    reply again;
    do {
        again = ask(port, GET("/work"));
        reply_free(&again);
    } while (again.status == 503);
    assert_int_equal(again.status, 200);
    finish();
}

static void a_stall_is_remembered_for_one_sample(void **state)
{
    (void)state;
    static dz_loop loop;
    loop.now = 10 * DZ_SEC;
    assert_int_equal(dz_loop_lag(&loop), 0);
    loop.away_most_ns = 3 * DZ_SEC;
    loop.away_at = loop.now;
    loop.away_ns = DZ_MS;
    assert_int_equal(dz_loop_lag(&loop), 3 * DZ_SEC);
    loop.now += DZ_LOOP_AWAY_SAMPLE_NS;
    assert_int_equal(dz_loop_lag(&loop), 3 * DZ_SEC);
    loop.now++;
    assert_int_equal(dz_loop_lag(&loop), DZ_MS);
}

/* How many requests were refused because a handler took its loop for longer than is allowed. */
static uint64_t refused_beside_a_long_handler(void)
{
    int fds[3];
    make();
    set("shed", "adaptive");
    set("shed-lag-max", "1s");
    start();
    for (int i = 0; i < 3; i++)
        fds[i] = connect_to(port);
    spin_on(fds[0]);
    uint64_t began = dz_now();
    warm_up(fds[1]); /* while it still spins */
    wait_until(dz_now() - began > 1200 * DZ_MS);
    atomic_store(&released, true);
    assert_reply(hear(fds[0]), 200, "spun");
    warm_up(fds[2]);
    uint64_t refused = stats().refused;
    close_all(fds, 3);
    finish();
    return refused;
}

static void a_rescued_handler_is_no_lag(void **state)
{
    (void)state;
    /* Tried again: a machine that itself stops for a second is lag. */
    for (int left = 5; refused_beside_a_long_handler() > 0;)
        assert_true(--left > 0);
}

/* --- queue wait --- */

static void what_waited_too_long_is_refused_at_its_turn(void **state)
{
    (void)state;
    int fds[3], statuses = 0;
    unsigned refused = 0;
    make();
    set("rescue-after", "0");
    set("shed", "fixed");
    set("shed-wait-max", "50ms");
    set("shed-close-every", "0");
    start();
    for (int i = 0; i < 3; i++)
        fds[i] = connect_to(port);
    /* Both are read in the tick after the spinning; one of them runs after the other's 100 ms. On a
     * slow machine the first may have waited too long as well: then once more. */
    while (statuses != 200 + 503) {
        spin_on(fds[0]);
        say(fds[1], GET("/burn"));
        say(fds[2], GET("/burn"));
        wait_until(arrived(fds[1]) && arrived(fds[2]));
        atomic_store(&released, true);
        assert_reply(hear(fds[0]), 200, "spun");
        reply first = hear(fds[1]), second = hear(fds[2]);
        const reply *late = first.status == 503 ? &first : &second;
        assert_int_equal(late->status, 503);
        assert_true(reply_has(late, "Retry-After: 1"));
        statuses = first.status + second.status;
        refused += statuses == 200 + 503 ? 1 : 2;
        reply_free(&first);
        reply_free(&second);
    }
    wait_until(stats().refused_by[DZ_SHED_BY_WAIT] >= refused);
    wait_until(stats().in_flight == 0);
    close_all(fds, 3);
    finish();
}

/* --- the answer --- */

static void the_body_can_be_set(void **state)
{
    (void)state;
    int fds[1];
    make_for("1");
    set("shed-retry-after", "1500ms");
    dz_shed_body(app, "text/html", DZ_LIT("<h1>Later</h1>"));
    start();
    park_requests(fds, 1);
    reply got = ask(port, GET("/work"));
    assert_int_equal(got.status, 503);
    assert_string_equal(got.body, "<h1>Later</h1>");
    assert_true(reply_has(&got, "Content-Type: text/html"));
    assert_true(reply_has(&got, "Retry-After: 2"));
    reply_free(&got);
    got = ask(port, REQUEST("HEAD", "/work"));
    assert_int_equal(got.status, 503);
    reply_free(&got);
    close_all(fds, 1);
    finish();
}

static void the_command_line_may_set_it_too(void **state)
{
    (void)state;
    int fds[1];
    make_for("1");
    set("shed-body", "{\"later\":true}");
    start();
    park_requests(fds, 1);
    reply got = ask(port, GET("/work"));
    assert_string_equal(got.body, "{\"later\":true}");
    assert_true(reply_has(&got, "Content-Type: application/json"));
    reply_free(&got);
    close_all(fds, 1);
    finish();
}

static void render(dz_request *req, dz_response *res, int status, int error)
{
    (void)req;
    dz_send_json(res, status, "{\"ours\":%d}", error);
}

static void else_it_is_rendered_like_other_errors(void **state)
{
    (void)state;
    int fds[1];
    make_for("1");
    dz_on_error(app, render);
    start();
    park_requests(fds, 1);
    char body[32];
    snprintf(body, sizeof body, "{\"ours\":%d}", DZ_E_UNAVAILABLE);
    reply got = ask(port, GET("/work"));
    assert_true(reply_has(&got, "Retry-After: 1"));
    assert_reply(got, 503, body);
    close_all(fds, 1);
    finish();
}

/* --- as middleware --- */

static void middleware_protects_what_follows_it(void **state)
{
    (void)state;
    int fds[1];
    make();
    dz_get(app, "/before", work);
    dz_use(app, add_header);
    dz_use(app, dz_shed);
    set("shed-in-flight-max", "1");
    start();
    park_requests(fds, 1);
    assert_status(ask(port, GET("/before")), 200);
    reply got = ask(port, GET("/work"));
    assert_int_equal(got.status, 503);
    assert_true(reply_has(&got, "X-Seen: yes")); /* what comes before it sees refused requests */
    assert_true(reply_has(&got, "Retry-After: 1"));
    reply_free(&got);
    assert_status(ask(port, GET("/livez")), 200);
    assert_status(ask(port, GET("/nowhere")), 503); /* the app's middleware also runs for 404 */
    close_all(fds, 1);
    finish();
}

static void off_switches_the_middleware_off(void **state)
{
    (void)state;
    make();
    dz_use(app, dz_shed);
    set("shed", "off");
    start();
    assert_status(ask(port, GET("/work")), 200);
    assert_false(stats().on);
    assert_int_equal(stats().admitted, 0);
    finish();
}

/* --- the end --- */

static void while_it_stops_it_refuses_and_is_not_ready(void **state)
{
    (void)state;
    int fds[3];
    make_for("1");
    start();
    park_requests(fds, 1);
    for (int i = 1; i < 3; i++) {
        fds[i] = connect_to(port);
        say(fds[i], GET("/livez"));
        assert_status(hear(fds[i]), 200);
    }
    say(fds[1], "GET /work HTTP/1.1\r\n");
    say(fds[2], "GET /readyz HTTP/1.1\r\n");
    wait_until(arrived(fds[1]) && arrived(fds[2]));
    /* Both are being read when the loop has answered this. */
    assert_status(ask(port, GET("/livez")), 200);
    dz_app_stop(app);
    wait_until(atomic_load(&app->core->server->loops[0].draining));
    say(fds[1], "Host: test\r\n\r\n");
    say(fds[2], "Host: test\r\n\r\n");
    reply refused = hear(fds[1]), ready = hear(fds[2]);
    assert_int_equal(refused.status, 503);
    assert_true(reply_has(&refused, "Connection: close"));
    assert_int_equal(ready.status, 503);
    assert_string_equal(ready.body, "{\"status\":\"stopping\"}\n");
    reply_free(&refused);
    reply_free(&ready);
    atomic_store(&released, true);
    assert_reply(hear(fds[0]), 200, "parked");
    close_all(fds, 3);
    finish();
}

/* --- settings --- */

static void complains(const char *part)
{
    add_routes();
    const char *text = dz_shed_complain(app->core);
    assert_non_null(text);
    assert_non_null(strstr(text, part));
    unsigned any;
    set("port", "0");
    assert_int_equal(dz_app_start(app, &any), DZ_E_INVALID);
    dz_app_free(app);
}

static void settings_that_make_no_sense_are_told(void **state)
{
    (void)state;
    static const char *const zero[] = {"shed-in-flight-max", "shed-wait",    "shed-wait-max",
                                       "shed-lag-max",       "shed-rss-max", "shed-retry-after"};
    make();
    for (size_t i = 0; i < sizeof zero / sizeof zero[0]; i++)
        assert_int_equal(dz_app_set(app, zero[i], "0"), DZ_E_INVALID);
    assert_int_equal(dz_app_set(app, "shed-in-flight-max", "99999999999"), DZ_E_INVALID);
    assert_int_equal(dz_app_set(app, "shed-in-flight-max", "-1"), DZ_E_INVALID);
    dz_app_free(app);

    make();
    set("shed", "sometimes");
    complains("off, adaptive or fixed");
    make();
    set("shed", "fixed");
    complains("needs a threshold");
    make();
    set("shed-lag-max", "1s");
    complains("do nothing without");
    make();
    set("shed", "fixed");
    set("shed-lag-max", "1s");
    set("shed-wait", "5ms");
    complains("takes --shed-wait-max");
    make();
    set("shed", "adaptive");
    set("shed-wait-max", "5ms");
    complains("must be above");
    make();
    set("shed", "fixed");
    set("shed-rss-max", "1M");
    complains("less than the program holds");
}

static void memory_that_cannot_be_read_refuses_nobody(void **state)
{
    (void)state;
    make();
    set("shed", "fixed");
    set("shed-rss-max", "8G");
    start();
    assert_true(stats().rss > 0);
    app->core->shed->rss.path = "/nonexistent/statm"; /* no request has been made yet */
    atomic_store(&app->core->shed->rss.next, 0);
    assert_status(ask(port, GET("/work")), 200);
    assert_int_equal(stats().rss, 0);
    assert_int_equal(stats().rss_failures, 1);
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parked_requests_are_in_flight),
        cmocka_unit_test(health_checks_are_never_refused),
        cmocka_unit_test(classes_are_refused_in_their_order),
        cmocka_unit_test(a_refused_connection_goes_on),
        cmocka_unit_test(thousands_of_pipelined_refusals_do_not_recurse),
        cmocka_unit_test(who_asks_again_and_again_is_read_more_slowly),
        cmocka_unit_test(under_pressure_connections_are_closed_first),
        cmocka_unit_test(with_rescue_off_a_stalled_loop_refuses_and_recovers),
        cmocka_unit_test(a_stall_is_remembered_for_one_sample),
        cmocka_unit_test(a_rescued_handler_is_no_lag),
        cmocka_unit_test(what_waited_too_long_is_refused_at_its_turn),
        cmocka_unit_test(the_body_can_be_set),
        cmocka_unit_test(the_command_line_may_set_it_too),
        cmocka_unit_test(else_it_is_rendered_like_other_errors),
        cmocka_unit_test(middleware_protects_what_follows_it),
        cmocka_unit_test(off_switches_the_middleware_off),
        cmocka_unit_test(while_it_stops_it_refuses_and_is_not_ready),
        cmocka_unit_test(settings_that_make_no_sense_are_told),
        cmocka_unit_test(memory_that_cannot_be_read_refuses_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
