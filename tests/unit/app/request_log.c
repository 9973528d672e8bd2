/* A request's id, and what is counted and logged at its end: on requests made by hand. */
#include "../check.h"
#include "../alloc.h"

#include "app/app.h"

#include <donmaz.h>
#include <donmaz/error.h>

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/types.h>
#include <unistd.h>

/* --- randomness (--wrap=getrandom) --- */

static bool no_random;

ssize_t __real_getrandom(void *out, size_t len, unsigned flags);
ssize_t __wrap_getrandom(void *out, size_t len, unsigned flags);
ssize_t __wrap_getrandom(void *out, size_t len, unsigned flags)
{
    if (!no_random)
        return __real_getrandom(out, len, flags);
    errno = EAGAIN;
    return -1;
}

/* --- a request without a connection --- */

static dz_core core;
static dz_loop loop;
static dz_route route;
static dz_call call;
static dz_header headers[8];
static dz_request req;
static char room[512];

static int set_up(void **state)
{
    (void)state;
    memset(&core, 0, sizeof core);
    memset(&loop, 0, sizeof loop);
    memset(&req, 0, sizeof req);
    route = (dz_route){.pattern = "/a", .index = 1};
    call = (dz_call){.core = &core, .req = &req, .matched = &route};
    req.loop = &loop;
    req.app = &call;
    req.head.headers = headers;
    dz_arena_init(&req.arena, room, sizeof room);
    core.settings.request_id_header = "X-Request-Id";
    core.meter = dz_meter_new(1, 2);
    dz_core_start_ids(&core);
    return core.meter ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    dz_arena_reset(&req.arena);
    dz_meter_free(core.meter);
    return 0;
}

static void send_header(const char *name, const char *value)
{
    headers[req.head.header_count++] = (dz_header){dz_slice_of(name), dz_slice_of(value)};
}

static void forget_request(uint64_t id)
{
    call.id = (dz_slice){0};
    req.head.header_count = 0;
    req.id = id;
}

/* --- the start of ids --- */

static void check_start(void)
{
    size_t len = sizeof core.id_start - 1;
    assert_int_equal(strlen(core.id_start), len);
    assert_int_equal(core.id_start[len - 1], '-');
    for (size_t i = 0; i < len - 1; i++)
        assert_non_null(strchr("0123456789abcdefghjkmnpqrstvwxyz", core.id_start[i]));
}

static void each_start_is_another_even_without_randomness(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        no_random = way == 1;
        char before[sizeof core.id_start];
        dz_core_start_ids(&core);
        check_start();
        memcpy(before, core.id_start, sizeof before);
        dz_core_start_ids(&core);
        check_start();
        assert_string_not_equal(core.id_start, before);
    }
    no_random = false;
}

/* --- ids --- */

static void an_id_is_the_start_and_the_requests_number(void **state)
{
    (void)state;
    static const uint64_t numbers[] = {0, 7, UINT64_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char expected[64];
        forget_request(numbers[i]);
        snprintf(expected, sizeof expected, "%s%llu", core.id_start,
                 (unsigned long long)numbers[i]);
        assert_slice(dz_req_id(&req), expected);
        assert_ptr_equal(dz_req_id(&req).ptr, dz_req_id(&req).ptr); /* made once */
        assert_int_equal(dz_req_number(&req), numbers[i]);
    }
}

static void the_first_valid_one_of_the_clients_is_taken_whatever_its_case(void **state)
{
    (void)state;
    send_header("Other", "no");
    send_header("x-request-id", "not valid");
    send_header("X-REQUEST-ID", "valid-1");
    send_header("X-Request-Id", "valid-2");
    assert_slice(dz_req_id(&req), "valid-1");
}

static void an_id_of_128_bytes_is_taken_and_one_of_129_not(void **state)
{
    (void)state;
    char text[130];
    memset(text, 'a', 129);
    text[129] = '\0';
    send_header("X-Request-Id", text);
    assert_int_equal(dz_req_id(&req).ptr[10], '-'); /* one of ours */
    forget_request(1);
    text[128] = '\0';
    send_header("X-Request-Id", text);
    assert_slice(dz_req_id(&req), text);
}

static void what_could_forge_a_log_line_or_a_header_is_not_taken(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        char text[3] = {'a', (char)c, 'b'};
        bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    (c && strchr("-_.:/+=@", c));
        forget_request(1);
        send_header("X-Request-Id", "");
        headers[0].value = dz_slice_make(text, sizeof text);
        dz_slice id = dz_req_id(&req);
        if ((id.len == 3 && memcmp(id.ptr, text, 3) == 0) != fine)
            fail_msg("byte %d", c);
    }
}

static void without_memory_the_id_is_a_dash_and_is_made_later(void **state)
{
    (void)state;
    req.id = 5;
    while (req.arena.end - req.arena.next >= 16) /* nothing is left of its first block */
        assert_non_null(dz_arena_alloc(&req.arena, 16));
    allocs_left = 0;
    dz_slice id = dz_req_id(&req);
    allocs_left = -1;
    assert_slice(id, "-");
    assert_true(dz_req_id(&req).len > 10);
}

/* --- the end --- */

static void a_request_is_counted_with_its_duration(void **state)
{
    (void)state;
    req.res.status = 201;
    req.started = 1000;
    loop.now = 4500;
    dz_core_request_ended(&core, &req);
    assert_int_equal(dz_meter_count(core.meter, 1, 201), 1);
    assert_int_equal(dz_histogram_max(dz_meter_latency(core.meter, 0, 1)), 3500);
    assert_int_equal(atomic_load(&core.meter->by_loop[0].ended), 1);
    assert_int_equal(atomic_load(&core.meter->by_loop[0].aborted), 0);
    /* The loop's clock may be a little behind the thread that began it: never a huge time. */
    req.started = 5000;
    dz_core_request_ended(&core, &req);
    assert_int_equal(dz_histogram_max(dz_meter_latency(core.meter, 0, 1)), 3500);
}

static void one_whose_client_was_gone_is_aborted(void **state)
{
    (void)state;
    dz_core_request_ended(&core, &req); /* no status: nothing was sent */
    assert_int_equal(dz_meter_count(core.meter, 1, DZ_STATUS_GONE), 1);
    req.res.status = 200;
    req.cut = true; /* a part of it was */
    dz_core_request_ended(&core, &req);
    assert_int_equal(dz_meter_count(core.meter, 1, 200), 1);
    assert_int_equal(atomic_load(&core.meter->by_loop[0].ended), 2);
    assert_int_equal(atomic_load(&core.meter->by_loop[0].aborted), 2);
}

static void one_that_was_rejected_is_no_request_of_a_route(void **state)
{
    (void)state;
    req.app = NULL;
    req.res.status = 503;
    dz_core_request_ended(&core, &req);
    assert_int_equal(atomic_load(&core.meter->by_loop[0].ended), 1);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(dz_meter_count(core.meter, i, 503), 0);
}

static void a_refusal_is_counted_by_a_status_there_is(void **state)
{
    (void)state;
    static const int statuses[] = {99, 100, 400, 599, 600, -1};
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
        dz_core_request_refused(&core, statuses[i]);
    uint64_t all = 0;
    for (int i = 0; i < DZ_STATUS_COUNT; i++)
        all += atomic_load(&core.meter->refused[i]);
    assert_int_equal(all, 3);
    assert_int_equal(atomic_load(&core.meter->refused[400 - DZ_STATUS_FIRST]), 1);
}

/* --- bound fields --- */

static void bound_fields_that_find_no_memory_leave_those_before(void **state)
{
    (void)state;
    char path[] = "/tmp/dz-bound-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    dz_log_options options = {.path = path};
    assert_int_equal(dz_logger_open(&core.logger, &options), 0);
    const dz_field first = dz_field_str("user", "ada"), second = dz_field_int("n", 1);
    assert_int_equal(dz_log_bind_fields(&req, &first, 1), 0);
    assert_slice(call.bound, "\"user\":\"ada\"");
    while (req.arena.end - req.arena.next >= 16)
        assert_non_null(dz_arena_alloc(&req.arena, 16));
    allocs_left = 0;
    int rc = dz_log_bind_fields(&req, &second, 1);
    allocs_left = -1;
    assert_int_equal(rc, DZ_E_NOMEM);
    assert_slice(call.bound, "\"user\":\"ada\"");
    assert_int_equal(dz_log_bind_fields(&req, &second, 1), 0);
    assert_slice(call.bound, "\"user\":\"ada\",\"n\":1");
    dz_logger_close(core.logger);
    close(fd);
    unlink(path);
}

static void without_a_logger_binding_costs_nothing(void **state)
{
    (void)state;
    const dz_field field = dz_field_int("n", 1);
    assert_int_equal(dz_log_bind_fields(&req, &field, 1), 0);
    assert_int_equal(call.bound.len, 0);
    assert_false(dz_log_req_enabled(&req, DZ_LOG_FATAL));
    dz_log_req_write(&req, DZ_LOG_FATAL, "x", NULL, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_start_is_another_even_without_randomness),
        TEST(an_id_is_the_start_and_the_requests_number),
        TEST(the_first_valid_one_of_the_clients_is_taken_whatever_its_case),
        TEST(an_id_of_128_bytes_is_taken_and_one_of_129_not),
        TEST(what_could_forge_a_log_line_or_a_header_is_not_taken),
        TEST(without_memory_the_id_is_a_dash_and_is_made_later),
        TEST(a_request_is_counted_with_its_duration),
        TEST(one_whose_client_was_gone_is_aborted),
        TEST(one_that_was_rejected_is_no_request_of_a_route),
        TEST(a_refusal_is_counted_by_a_status_there_is),
        TEST(bound_fields_that_find_no_memory_leave_those_before),
        TEST(without_a_logger_binding_costs_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
