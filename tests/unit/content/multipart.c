/* The pieces of a multipart/byteranges body. */
#include "../alloc.h"
#include "request.h"

#include "content/multipart.h"

#include <donmaz/error.h>

#include <stdio.h>

/* The test is the request's handler. */
static dz_fiber fiber;
dz_fiber *__wrap_dz_fiber_current(void);
dz_fiber *__wrap_dz_fiber_current(void)
{
    return &fiber;
}

static dz_out_file file;
static dz_list pieces;
static uint64_t length;

static void begin(size_t room)
{
    request_begin(room);
    req->fiber = &fiber;
    req->id = 7;
    req->res.content_type = DZ_LIT("text/plain");
    dz_list_init(&pieces);
    length = 0;
}

static int set_up(void **state)
{
    (void)state;
    request_make();
    begin(sizeof request_memory);
    return 0;
}

/* The body, with what comes from the file as <offset+len>. */
static char *body(void)
{
    static char text[4096];
    size_t at = 0, whole = 0;
    for (dz_list *link = pieces.next; link != &pieces; link = link->next) {
        const dz_out *piece = DZ_CONTAINER(link, dz_out, link);
        assert_ptr_equal(piece->req, req);
        whole += piece->len;
        if (piece->file) {
            assert_ptr_equal(piece->file, &file);
            at += (size_t)snprintf(text + at, sizeof text - at, "<%llu+%zu>",
                                   (unsigned long long)piece->offset, piece->len);
            continue;
        }
        memcpy(text + at, piece->ptr, piece->len);
        at += piece->len;
    }
    text[at] = '\0';
    assert_int_equal(whole, length);
    return text;
}

static void one_range_is_sent_as_it_is(void **state)
{
    (void)state;
    const dz_range range = {10, 90};
    assert_int_equal(dz_multipart_pieces(req, &file, 1000, &range, 1, &pieces, &length), 0);
    assert_string_equal(body(), "<10+90>");
    assert_int_equal(length, 90);
    assert_slice(req->res.content_type, "text/plain");
}

static void several_ranges_are_parts_with_the_boundary_that_the_head_names(void **state)
{
    (void)state;
    const dz_range ranges[] = {{0, 1}, {500, 100}, {999, 1}};
    assert_int_equal(dz_multipart_pieces(req, &file, 1000, ranges, 3, &pieces, &length), 0);
    char boundary[64] = "", wanted[2048];
    char type[128];
    snprintf(type, sizeof type, "%.*s", (int)req->res.content_type.len, req->res.content_type.ptr);
    assert_int_equal(sscanf(type, "multipart/byteranges; boundary=%60s", boundary), 1);
    assert_int_equal(strlen(boundary), 16);
    assert_int_equal(strspn(boundary, "0123456789abcdef"), 16); /* needs no quotes */
    snprintf(wanted, sizeof wanted,
             "--%s\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-0/1000\r\n\r\n<0+1>"
             "\r\n--%s\r\nContent-Type: text/plain\r\nContent-Range: bytes 500-599/1000\r\n\r\n"
             "<500+100>"
             "\r\n--%s\r\nContent-Type: text/plain\r\nContent-Range: bytes 999-999/1000\r\n\r\n"
             "<999+1>\r\n--%s--\r\n",
             boundary, boundary, boundary, boundary);
    assert_string_equal(body(), wanted);
}

static void two_responses_have_boundaries_of_their_own(void **state)
{
    (void)state;
    const dz_range ranges[] = {{0, 1}, {2, 1}};
    char types[2][128];
    for (int i = 0; i < 2; i++) {
        begin(sizeof request_memory);
        req->id = (uint64_t)i + 1;
        assert_int_equal(dz_multipart_pieces(req, &file, 10, ranges, 2, &pieces, &length), 0);
        snprintf(types[i], sizeof types[i], "%.*s", (int)req->res.content_type.len,
                 req->res.content_type.ptr);
    }
    assert_string_not_equal(types[0], types[1]);
}

static void numbers_beyond_four_gigabytes_are_whole(void **state)
{
    (void)state;
    const dz_range ranges[] = {{UINT64_C(1) << 40, 5}, {UINT64_C(1) << 41, 7}};
    assert_int_equal(
        dz_multipart_pieces(req, &file, UINT64_C(1) << 42, ranges, 2, &pieces, &length), 0);
    assert_non_null(strstr(body(), "bytes 1099511627776-1099511627780/4398046511104\r\n"));
    assert_non_null(strstr(body(), "<2199023255552+7>"));
}

static void without_memory_it_is_an_error_at_every_step(void **state)
{
    (void)state;
    const dz_range ranges[] = {{0, 1}, {2, 1}, {4, 1}};
    int rc, failures = 0;
    for (size_t room = 0;; room += 16) {
        begin(room);
        allocs_left = 0;
        rc = dz_multipart_pieces(req, &file, 10, ranges, 3, &pieces, &length);
        allocs_left = -1;
        if (rc == 0)
            break;
        assert_int_equal(rc, DZ_E_NOMEM);
        failures++;
        assert_true(room < sizeof request_memory - 16);
    }
    assert_true(failures > 10);
    assert_non_null(strstr(body(), "--\r\n"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, request_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_range_is_sent_as_it_is),
        TEST(several_ranges_are_parts_with_the_boundary_that_the_head_names),
        TEST(two_responses_have_boundaries_of_their_own),
        TEST(numbers_beyond_four_gigabytes_are_whole),
        TEST(without_memory_it_is_an_error_at_every_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
