/* What is done when a response is about to be sent, and in which order. The two who do it are the
 * test's. */
#include "../alloc.h"
#include "request.h"

#include "content/fields.h"
#include "content/prepare.h"

#include <donmaz/error.h>

static char calls[64];
static size_t call_count;
static bool compress_wanted, compresses;
static int condition_result, condition_status;
static bool was_weak;

static void set_field(const char *name, const char *value)
{
    static dz_header headers[8];
    req->res.headers = headers;
    req->res.header_cap = 8;
    headers[req->res.header_count++] = (dz_header){dz_slice_of(name), dz_slice_of(value)};
}

static void note(const char *call)
{
    assert_true(call_count < sizeof calls - 1);
    calls[call_count++] = *call;
    calls[call_count] = '\0';
}

static void forget_calls(void)
{
    call_count = 0;
    calls[0] = '\0';
}

bool __wrap_dz_compress_wanted(dz_request *of, const dz_buf *body, bool stream);
bool __wrap_dz_compress_wanted(dz_request *of, const dz_buf *body, bool stream)
{
    (void)of, (void)body, (void)stream;
    note("w");
    return compress_wanted;
}

int __wrap_dz_conditional_prepare(dz_request *of, const dz_buf *body, bool stream, bool weak);
int __wrap_dz_conditional_prepare(dz_request *of, const dz_buf *body, bool stream, bool weak)
{
    (void)body, (void)stream;
    note("c");
    was_weak = weak;
    if (condition_status)
        of->res.status = condition_status;
    return condition_result;
}

static void compress(const char *call)
{
    note(call);
    if (compresses)
        set_field("Content-Encoding", "gzip");
}

void __wrap_dz_compress_whole(dz_request *of, dz_buf *body);
void __wrap_dz_compress_whole(dz_request *of, dz_buf *body)
{
    (void)of, (void)body;
    compress("b");
}

void __wrap_dz_compress_stream(dz_request *of);
void __wrap_dz_compress_stream(dz_request *of)
{
    (void)of;
    compress("s");
}

static int set_up(void **state)
{
    (void)state;
    request_make();
    req->res.status = 200;
    forget_calls();
    compress_wanted = compresses = true;
    condition_result = condition_status = 0;
    return 0;
}

static int prepare(bool stream)
{
    dz_buf body = {0};
    return req->res.prepare(req, &body, stream);
}

static void nothing_is_done_that_nobody_asked_for(void **state)
{
    (void)state;
    assert_null(req->res.prepare);
    dz_prepare_add(&req->res, DZ_PREPARE_CONDITIONAL);
    assert_int_equal(prepare(false), 0);
    assert_string_equal(calls, "c");
    assert_false(was_weak);
}

static void what_several_ask_for_is_all_done_validators_before_the_coding(void **state)
{
    (void)state;
    dz_prepare_add(&req->res, DZ_PREPARE_COMPRESS);
    dz_prepare_add(&req->res, DZ_PREPARE_CONDITIONAL | DZ_PREPARE_WEAK);
    assert_int_equal(prepare(false), 0);
    assert_string_equal(calls, "wcb");
    assert_true(was_weak);
    forget_calls();
    assert_int_equal(prepare(true), 0);
    assert_string_equal(calls, "wcs");
}

static void a_copy_that_the_client_has_is_not_compressed(void **state)
{
    (void)state;
    set_field("ETag", "\"tag\"");
    condition_status = 304;
    dz_prepare_add(&req->res, DZ_PREPARE_CONDITIONAL | DZ_PREPARE_COMPRESS);
    assert_int_equal(prepare(false), 0);
    assert_string_equal(calls, "wc");
    assert_slice(dz_content_get(&req->res, "etag"), "W/\"tag\""); /* as the 200 would have it */
}

static void a_304_of_what_would_not_be_compressed_keeps_its_tag(void **state)
{
    (void)state;
    set_field("ETag", "\"tag\"");
    condition_status = 304;
    compress_wanted = false;
    dz_prepare_add(&req->res, DZ_PREPARE_CONDITIONAL | DZ_PREPARE_COMPRESS);
    assert_int_equal(prepare(false), 0);
    assert_slice(dz_content_get(&req->res, "etag"), "\"tag\"");
}

static void a_condition_that_answered_or_failed_ends_it(void **state)
{
    (void)state;
    static const int results[] = {1, DZ_E_NOMEM};
    dz_prepare_add(&req->res, DZ_PREPARE_CONDITIONAL | DZ_PREPARE_COMPRESS);
    for (size_t i = 0; i < 2; i++) {
        forget_calls();
        condition_result = results[i];
        assert_int_equal(prepare(false), results[i]);
        assert_string_equal(calls, "wc");
    }
}

static void a_coding_weakens_the_tag_when_it_was_really_used(void **state)
{
    (void)state;
    set_field("ETag", "\"tag\"");
    compresses = false; /* it did not get smaller */
    dz_prepare_add(&req->res, DZ_PREPARE_COMPRESS);
    assert_int_equal(prepare(false), 0);
    assert_slice(dz_content_get(&req->res, "etag"), "\"tag\"");
    compresses = true;
    assert_int_equal(prepare(false), 0);
    assert_slice(dz_content_get(&req->res, "etag"), "W/\"tag\"");
    assert_int_equal(prepare(false), 0);
    assert_slice(dz_content_get(&req->res, "etag"), "W/\"tag\""); /* is weak already */
}

static void a_tag_that_can_t_be_weakened_for_want_of_memory_goes(void **state)
{
    (void)state;
    set_field("ETag", "\"tag\"");
    dz_arena_init(&req->arena, NULL, 0);
    dz_prepare_add(&req->res, DZ_PREPARE_COMPRESS);
    allocs_left = 0;
    int rc = prepare(false);
    allocs_left = -1;
    assert_int_equal(rc, 0);
    assert_null(dz_content_get(&req->res, "etag").ptr); /* no tag rather than a wrong one */
}

static void a_response_that_is_on_its_way_is_left_alone(void **state)
{
    (void)state;
    req->res.state = DZ_RESPONSE_STREAMING;
    dz_prepare_add(&req->res, DZ_PREPARE_COMPRESS);
    assert_null(req->res.prepare);
    assert_int_equal(req->res.prepare_flags, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, request_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_done_that_nobody_asked_for),
        TEST(what_several_ask_for_is_all_done_validators_before_the_coding),
        TEST(a_copy_that_the_client_has_is_not_compressed),
        TEST(a_304_of_what_would_not_be_compressed_keeps_its_tag),
        TEST(a_condition_that_answered_or_failed_ends_it),
        TEST(a_coding_weakens_the_tag_when_it_was_really_used),
        TEST(a_tag_that_can_t_be_weakened_for_want_of_memory_goes),
        TEST(a_response_that_is_on_its_way_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
