/* What an app tells of its requests: ids, log lines, metrics. */
#include "../serve.h"

#include <fcntl.h>
#include <jansson.h>

static dz_app *app;
static unsigned port;
static dz_logger *logger;
static char file[64];

static void echo_id(dz_request *req, dz_response *res)
{
    dz_slice id = dz_req_id(req);
    assert_ptr_equal(dz_req_id(req).ptr, id.ptr);
    dz_send_bytes(res, 200, "text/plain", id);
}

static void log_lines(dz_request *req, dz_response *res)
{
    int evaluated = 0;
    dz_log_debug(req, "hidden", dz_field_int("n", ++evaluated));
    assert_int_equal(evaluated, 0);
    dz_log_info(req, "plain");
    assert_int_equal(
        dz_log_bind(req, dz_field_str("user", "ada"), dz_field_str("password", "geheim")), 0);
    dz_log_warn(req, "bound", dz_field_int("n", 7));
    assert_int_equal(dz_log_bind(req, dz_field_int("more", 1)), 0);
    dz_log_error(req, "more");
    dz_send_text(res, 201, "four");
}

static void compute(dz_request *req, dz_response *res)
{
    (void)req;
    burn_cpu(30 * DZ_MS);
    dz_send_text(res, 200, "done");
}

static void fail_it(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_status(res, 500);
}

static _Atomic bool may_end;

static void hold(dz_request *req, dz_response *res)
{
    while (!dz_req_gone(req))
        dz_sleep(1);
    dz_send_text(res, 200, "nobody");
    atomic_store(&may_end, true);
}

static int begin(void **state)
{
    (void)state;
    snprintf(file, sizeof file, "/tmp/dz-observe-XXXXXX");
    int fd = mkstemp(file);
    if (fd < 0)
        return -1;
    close(fd);
    static const char *const rules[] = {"*.password"};
    dz_log_options options = {.path = file, .redact = rules, .redact_count = 1};
    if (dz_logger_open(&logger, &options) < 0)
        return -1;
    app = dz_app_new();
    dz_app_set_logger(app, logger);
    dz_app_set(app, "request-log", "1");
    dz_app_set(app, "rescue-after", "0"); /* on a busy machine any handler could be a line more */
    dz_get(app, "/id", echo_id);
    dz_get(app, "/lines/:what", log_lines);
    dz_inline(dz_get(app, "/compute", compute)); /* else it is learned, and rescued no more */
    dz_get(app, "/fail", fail_it);
    dz_get(app, "/hold", hold);
    return 0;
}

static int end(void **state)
{
    (void)state;
    dz_logger_close(logger);
    unlink(file);
    return 0;
}

/* All lines of the log, as an array. */
static json_t *lines(void)
{
    assert_int_equal(dz_logger_flush(logger, 60000), 0);
    FILE *from = fopen(file, "r");
    assert_non_null(from);
    json_t *all = json_array();
    char *text = NULL;
    size_t cap = 0;
    while (getline(&text, &cap, from) > 0) {
        json_t *line = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        if (!line)
            fail_msg("not JSON: %s", text);
        json_array_append_new(all, line);
    }
    free(text);
    fclose(from);
    return all;
}

static const char *text_at(const json_t *line, const char *key)
{
    const char *text = json_string_value(json_object_get(line, key));
    return text ? text : "(none)";
}

/* The lines so far with that message; the array is freed with it by the caller. */
static json_t *find(json_t *all, const char *msg)
{
    size_t i;
    json_t *line;
    json_array_foreach(all, i, line)
    {
        if (strcmp(text_at(line, "msg"), msg) == 0)
            return line;
    }
    return NULL;
}

static bool logged(const char *msg)
{
    json_t *all = lines();
    bool there = find(all, msg) != NULL;
    json_decref(all);
    return there;
}

/* --- ids --- */

static void an_id_is_made_for_each_request(void **state)
{
    (void)state;
    port = serve(app);
    reply a = ask(port, GET("/id")), b = ask(port, GET("/id"));
    assert_string_not_equal(a.body, b.body);
    size_t dash = strcspn(a.body, "-");
    assert_int_equal(dash, 10);
    assert_memory_equal(a.body, b.body, dash + 1); /* the same process */
    reply_free(&a);
    reply_free(&b);
    serve_end(app);
}

#define WITH_ID(id) "GET /id HTTP/1.1\r\nHost: t\r\nX-Request-ID: " id "\r\n\r\n"

static void a_valid_id_is_taken_and_no_other(void **state)
{
    (void)state;
    port = serve(app);
    assert_reply(ask(port, WITH_ID("a")), 200, "a");
    assert_reply(ask(port, WITH_ID("0af7651916cd43dd-8448/eb.211c:80_319c=@+")), 200,
                 "0af7651916cd43dd-8448/eb.211c:80_319c=@+");
    static const char *const bad[] = {
        WITH_ID(""),
        WITH_ID("a b"),
        WITH_ID("\"},{"),
        WITH_ID("a\\u0000"),
        WITH_ID("\xc3\xa4"),
        WITH_ID("12345678901234567890123456789012345678901234567890123456789012345678901234567890"
                "1234567890123456789012345678901234567890123456789"), /* 129 */
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        reply got = ask(port, bad[i]);
        assert_int_equal(got.status, 200);
        assert_int_equal(strcspn(got.body, "-"), 10);
        assert_null(strpbrk(got.body, " \"\\"));
        reply_free(&got);
    }
    serve_end(app);
}

static void the_header_can_be_another_or_none(void **state)
{
    (void)state;
    dz_app_set(app, "request-id-header", "traceparent");
    port = serve(app);
    reply got = ask(port, WITH_ID("mine"));
    assert_string_not_equal(got.body, "mine");
    reply_free(&got);
    assert_reply(ask(port, "GET /id HTTP/1.1\r\nHost: t\r\nTraceParent: 00-4bf9-01\r\n\r\n"), 200,
                 "00-4bf9-01");
    serve_end(app);
}

static void no_header_brings_an_id_when_off(void **state)
{
    (void)state;
    dz_app_set(app, "request-id-header", "off");
    port = serve(app);
    reply got = ask(port, WITH_ID("mine"));
    assert_string_not_equal(got.body, "mine");
    reply_free(&got);
    serve_end(app);
}

/* --- lines --- */

static void a_handlers_lines_carry_the_id_and_what_was_bound(void **state)
{
    (void)state;
    port = serve(app);
    assert_status(ask(port, "GET /lines/a?token=geheim HTTP/1.1\r\nHost: t\r\n"
                            "X-Request-Id: r1\r\n\r\n"),
                  201);
    wait_until(logged("request completed"));
    json_t *all = lines(), *line;
    assert_int_equal(json_array_size(all), 4);
    line = find(all, "plain");
    assert_string_equal(text_at(line, "reqId"), "r1");
    assert_string_equal(text_at(line, "user"), "(none)");
    line = find(all, "bound");
    assert_string_equal(text_at(line, "reqId"), "r1");
    assert_string_equal(text_at(line, "user"), "ada");
    assert_string_equal(text_at(line, "password"), "[Redacted]");
    assert_int_equal(json_integer_value(json_object_get(line, "n")), 7);
    assert_int_equal(json_integer_value(json_object_get(line, "level")), 40);
    line = find(all, "more");
    assert_string_equal(text_at(line, "user"), "ada");
    assert_int_equal(json_integer_value(json_object_get(line, "more")), 1);

    line = find(all, "request completed");
    assert_string_equal(text_at(line, "reqId"), "r1");
    assert_string_equal(text_at(line, "user"), "ada");
    const json_t *req = json_object_get(line, "req"), *res = json_object_get(line, "res");
    assert_string_equal(text_at(req, "method"), "GET");
    assert_string_equal(text_at(req, "url"), "/lines/a"); /* without the query */
    assert_string_equal(text_at(req, "route"), "/lines/:what");
    assert_int_equal(json_integer_value(json_object_get(res, "statusCode")), 201);
    assert_int_equal(json_integer_value(json_object_get(res, "bytes")), 4);
    assert_true(json_is_number(json_object_get(line, "responseTime")));
    assert_true(json_is_false(json_object_get(line, "rescued")));
    json_decref(all);
    serve_end(app);
}

static void the_query_is_shown_when_asked_for(void **state)
{
    (void)state;
    dz_app_set(app, "log-query", "1");
    port = serve(app);
    assert_status(ask(port, GET("/id?a=1&b=2")), 200);
    wait_until(logged("request completed"));
    json_t *all = lines();
    assert_string_equal(text_at(json_object_get(find(all, "request completed"), "req"), "url"),
                        "/id?a=1&b=2");
    json_decref(all);
    serve_end(app);
}

static void a_rescued_request_says_so(void **state)
{
    (void)state;
    dz_app_set(app, "rescue-after", "1ms");
    port = serve(app);
    int held = connect_to(port);
    say(held, GET("/compute"));
    while (rescues_of(app) == 0) { /* a request that waits is what makes the rescue worth it */
        assert_status(ask(port, GET("/id")), 200);
        say(held, GET("/compute"));
        reply got = hear(held);
        reply_free(&got);
    }
    close(held);
    serve_end(app);
    json_t *all = lines(), *line;
    size_t i, rescued = 0;
    json_array_foreach(all, i, line) rescued += json_is_true(json_object_get(line, "rescued"));
    assert_true(rescued > 0);
    json_decref(all);
}

static void a_client_that_left_is_logged_as_aborted(void **state)
{
    (void)state;
    port = serve(app);
    int fd = connect_to(port);
    say(fd, GET("/hold"));
    close(fd);
    wait_until(atomic_load(&may_end));
    wait_until(logged("request aborted") || logged("request completed"));
    json_t *all = lines(), *line = find(all, "request aborted");
    /* When the reply was handed to the kernel before the reset came, it is a completed one. */
    if (line) {
        assert_true(json_is_true(json_object_get(line, "aborted")));
        assert_string_equal(text_at(json_object_get(line, "req"), "route"), "/hold");
    }
    json_decref(all);
    serve_end(app);
}

static void what_no_handler_saw_is_logged_too(void **state)
{
    (void)state;
    port = serve(app);
    assert_status(ask(port, GET("/absent?secret=geheim")), 404);
    assert_status(ask(port, REQUEST("DELETE", "/id")), 405);
    assert_status(ask(port, "NONSENSE\r\n\r\n"), 400);
    wait_until(logged("request refused"));
    json_t *all = lines();
    const json_t *line = json_array_get(all, 0), *refused = find(all, "request refused");
    assert_string_equal(text_at(json_object_get(line, "req"), "url"), "/absent");
    assert_null(json_object_get(json_object_get(line, "req"), "route"));
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(refused, "res"), "statusCode")), 400);
    json_decref(all);
    serve_end(app);
}

static void an_app_without_a_logger_says_nothing(void **state)
{
    (void)state;
    dz_app_set_logger(app, NULL);
    port = serve(app);
    assert_null(dz_app_logger(app));
    assert_status(ask(port, GET("/lines/a")), 201);
    assert_status(ask(port, GET("/absent")), 404);
    serve_end(app);
    json_t *all = lines();
    assert_int_equal(json_array_size(all), 0);
    json_decref(all);
}

/* --- metrics --- */

static char *metrics(void)
{
    dz_buf text = {0};
    assert_int_equal(dz_metrics_write(dz_app_metrics(app), &text), 0);
    char *copy = malloc(text.len + 1); /* not strndup: strict_string_checks wants an end in there */
    assert_non_null(copy);
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    dz_buf_release(&text);
    return copy;
}

static bool shows(const char *line)
{
    char *text = metrics(), wanted[256];
    snprintf(wanted, sizeof wanted, "\n%s\n", line);
    bool there = strstr(text, wanted) != NULL;
    free(text);
    return there;
}

#define COUNTED(method, route, status, n)                                                          \
    "donmaz_http_requests_total{method=\"" method "\",route=\"" route "\",status=\"" status "\"}"  \
    " " n

static void requests_are_counted_by_route_and_status(void **state)
{
    (void)state;
    dz_app_set(app, "loops", "2");
    port = serve(app);
    for (int i = 0; i < 3; i++)
        assert_status(ask(port, GET("/lines/a")), 201);
    assert_status(ask(port, REQUEST("HEAD", "/id")), 200);
    assert_status(ask(port, GET("/fail")), 500);
    assert_status(ask(port, GET("/absent")), 404);
    assert_status(ask(port, REQUEST("DELETE", "/id")), 405);
    assert_status(ask(port, "NONSENSE\r\n\r\n"), 400);
    wait_until(shows(COUNTED("GET", "/lines/:what", "201", "3")));
    wait_until(shows(COUNTED("GET", "/id", "200", "1")));
    wait_until(shows(COUNTED("GET", "/fail", "500", "1")));
    wait_until(shows(COUNTED("ANY", "(no route)", "404", "1")));
    wait_until(shows(COUNTED("ANY", "(method not allowed)", "405", "1")));
    wait_until(shows(COUNTED("ANY", "(refused)", "400", "1")));
    wait_until(shows("donmaz_http_request_duration_seconds_count{method=\"GET\","
                     "route=\"/lines/:what\"} 3"));
    wait_until(shows("donmaz_http_requests_in_flight 0"));
    serve_end(app);
}

static void requests_in_flight_and_connections_are_shown(void **state)
{
    (void)state;
    port = serve(app);
    int fd = connect_to(port);
    say(fd, GET("/hold"));
    wait_until(shows("donmaz_http_requests_in_flight 1"));
    assert_true(shows("donmaz_http_connections 1"));
    close(fd);
    wait_until(shows("donmaz_http_requests_in_flight 0"));
    wait_until(shows("donmaz_http_connections 0"));
    serve_end(app);
}

static void the_loops_are_asked_how_late_they_are(void **state)
{
    (void)state;
    dz_app_set(app, "loops", "2");
    port = serve(app);
    wait_until(!shows("donmaz_loop_lag_seconds_count{loop=\"0\"} 0"));
    wait_until(!shows("donmaz_loop_lag_seconds_count{loop=\"1\"} 0"));
    char *text = metrics();
    assert_non_null(strstr(text, "\ndonmaz_loop_delay_seconds{loop=\"1\"} "));
    free(text);
    serve_end(app);
}

static double answer(void *data)
{
    return *(int *)data;
}

static int collect_one(dz_metrics *into, void *data)
{
    ++*(int *)data;
    dz_gauge *gauge;
    const dz_metric metric = {"my_gauge", "Mine.", NULL, 0};
    int rc = dz_metrics_gauge(into, &metric, &gauge);
    if (rc == 0)
        dz_gauge_set(gauge, *(int *)data);
    return rc;
}

static void what_the_program_registers_is_shown_with_it(void **state)
{
    (void)state;
    int value = 42, calls = 0;
    const dz_metric metric = {"my_total", "Mine.", NULL, 0};
    assert_int_equal(dz_metrics_counter_fn(dz_app_metrics(app), &metric, answer, &value), 0);
    assert_int_equal(dz_metrics_collect(dz_app_metrics(app), collect_one, &calls), 0);
    port = serve(app);
    assert_true(shows("my_total 42"));
    assert_true(shows("my_gauge 2"));
    dz_metrics_forget(dz_app_metrics(app), &calls);
    assert_true(shows("my_gauge 2"));
    assert_int_equal(calls, 2);
    serve_end(app);
}

static void an_app_that_does_not_run_shows_its_process(void **state)
{
    (void)state;
    char *text = metrics();
    assert_non_null(strstr(text, "\nprocess_cpu_seconds_total "));
    assert_null(strstr(text, "donmaz_http"));
    free(text);
    dz_app_free(app);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_id_is_made_for_each_request),
        TEST(a_valid_id_is_taken_and_no_other),
        TEST(the_header_can_be_another_or_none),
        TEST(no_header_brings_an_id_when_off),
        TEST(a_handlers_lines_carry_the_id_and_what_was_bound),
        TEST(the_query_is_shown_when_asked_for),
        TEST(a_rescued_request_says_so),
        TEST(a_client_that_left_is_logged_as_aborted),
        TEST(what_no_handler_saw_is_logged_too),
        TEST(an_app_without_a_logger_says_nothing),
        TEST(requests_are_counted_by_route_and_status),
        TEST(requests_in_flight_and_connections_are_shown),
        TEST(the_loops_are_asked_how_late_they_are),
        TEST(what_the_program_registers_is_shown_with_it),
        TEST(an_app_that_does_not_run_shows_its_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
