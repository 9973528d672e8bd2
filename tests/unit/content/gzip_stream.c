/* A stream compressed piece by piece: each piece can be read as soon as it is sent. */
#include "../check.h"
#include "../alloc.h"

#include "content/compressor.h"
#include "content/offload.h"

#include <donmaz/error.h>

#include <zlib.h>

/* --- the connection, and the workers --- */

static char sent[4 << 20];
static size_t sent_len;
static int write_result;

int __wrap_dz_http_write_encoded(dz_request *req, dz_slice bytes);
int __wrap_dz_http_write_encoded(dz_request *req, dz_slice bytes)
{
    (void)req;
    if (write_result < 0)
        return write_result;
    assert_true(sent_len + bytes.len <= sizeof sent);
    if (bytes.len > 0)
        memcpy(sent + sent_len, bytes.ptr, bytes.len);
    sent_len += bytes.len;
    return 0;
}

static int offload_result, offloads;

int __wrap_dz_offload(dz_pool *pool, dz_offload_fn *fn, void *arg);
int __wrap_dz_offload(dz_pool *pool, dz_offload_fn *fn, void *arg)
{
    (void)pool;
    offloads++;
    if (offload_result == 0)
        fn(arg);
    return offload_result;
}

/* --- a stream, and the client's end of it --- */

static dz_compressor compressor;
static dz_request req;
static dz_encoder *encoder;
static z_stream client;
static char decoded[4 << 20];

static int set_up(void **state)
{
    (void)state;
    compressor = (dz_compressor){.options = {.level = 6, .pool_bytes = 1000}};
    memset(&req, 0, sizeof req);
    sent_len = 0;
    write_result = offload_result = offloads = 0;
    encoder = dz_gzip_stream_new(&compressor);
    assert_non_null(encoder);
    client = (z_stream){0};
    assert_int_equal(inflateInit2(&client, 15 + 16), Z_OK);
    client.next_out = (Bytef *)decoded;
    client.avail_out = sizeof decoded;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    encoder->release(encoder);
    inflateEnd(&client);
    return 0;
}

/* What the client has read of all that was sent so far. */
static dz_slice seen(int *rc)
{
    client.next_in = (Bytef *)sent;
    client.avail_in = (uInt)sent_len;
    *rc = inflate(&client, Z_SYNC_FLUSH);
    sent_len = 0;
    return dz_slice_make(decoded, client.total_out);
}

static int write_text(const char *text, bool last)
{
    return encoder->write(encoder, &req, dz_slice_of(text), last);
}

static void each_piece_can_be_read_as_soon_as_it_is_sent(void **state)
{
    (void)state;
    int rc;
    assert_int_equal(write_text("first,", false), 0);
    assert_slice(seen(&rc), "first,");
    assert_int_equal(write_text("second,", false), 0);
    assert_slice(seen(&rc), "first,second,");
    assert_int_equal(rc, Z_OK);
    assert_int_equal(write_text("", true), 0);
    assert_slice(seen(&rc), "first,second,");
    assert_int_equal(rc, Z_STREAM_END);
    assert_int_equal(offloads, 0); /* small */
    assert_int_equal(atomic_load(&compressor.bytes_in), 13);
}

static void a_stream_of_nothing_is_a_whole_file_of_nothing(void **state)
{
    (void)state;
    int rc;
    assert_int_equal(write_text("", true), 0);
    assert_int_equal(seen(&rc).len, 0);
    assert_int_equal(rc, Z_STREAM_END);
}

/* Bytes that do not get smaller: more output than one step has room for. */
static char *noise(size_t size)
{
    char *bytes = malloc(size);
    assert_non_null(bytes);
    uint32_t x = 1;
    for (size_t i = 0; i < size; i++) {
        x = x * 1664525 + 1013904223;
        bytes[i] = (char)(x >> 24);
    }
    return bytes;
}

static void large_pieces_are_compressed_by_a_worker_or_here_when_none_takes_them(void **state)
{
    (void)state;
    enum { BIG = 300000 };
    char *bytes = noise(BIG);
    for (int busy = 0; busy < 2; busy++) {
        int rc;
        offload_result = busy ? DZ_E_QUEUE_FULL : 0;
        assert_int_equal(encoder->write(encoder, &req, dz_slice_make(bytes, BIG), false), 0);
        dz_slice got = seen(&rc);
        assert_int_equal(got.len, (size_t)BIG * (size_t)(busy + 1));
        assert_memory_equal(got.ptr + (size_t)BIG * (size_t)busy, bytes, BIG);
    }
    assert_int_equal(offloads, 2);
    assert_true(atomic_load(&compressor.bytes_out) > BIG);
    assert_false(req.res.broken);
    free(bytes);
}

static void a_client_that_went_away_ends_it(void **state)
{
    (void)state;
    char *bytes = noise(2000);
    offload_result = DZ_E_CANCELLED;
    assert_int_equal(encoder->write(encoder, &req, dz_slice_make(bytes, 2000), false), DZ_E_CLOSED);
    assert_int_equal(sent_len, 0);
    write_result = DZ_E_CLOSED;
    assert_int_equal(write_text("x", false), DZ_E_CLOSED);
    free(bytes);
}

static void a_piece_lost_for_want_of_memory_breaks_the_stream(void **state)
{
    (void)state;
    int rc = DZ_E_NOMEM;
    allocs_left = 0;
    rc = write_text("lost", false);
    allocs_left = -1;
    assert_int_equal(rc, DZ_E_NOMEM);
    assert_true(req.res.broken); /* it must not look complete */
    assert_int_equal(sent_len, 0);
}

static void without_memory_there_is_no_encoder(void **state)
{
    (void)state;
    dz_encoder *made;
    with_few_allocations(made = dz_gzip_stream_new(&compressor), made != NULL, true);
    made->release(made);
}

static void levels_that_only_the_whole_compressor_has_are_its_highest(void **state)
{
    (void)state;
    int rc;
    encoder->release(encoder);
    compressor.options.level = 12;
    encoder = dz_gzip_stream_new(&compressor);
    assert_non_null(encoder);
    assert_int_equal(write_text("text", true), 0);
    assert_slice(seen(&rc), "text");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_piece_can_be_read_as_soon_as_it_is_sent),
        TEST(a_stream_of_nothing_is_a_whole_file_of_nothing),
        TEST(large_pieces_are_compressed_by_a_worker_or_here_when_none_takes_them),
        TEST(a_client_that_went_away_ends_it),
        TEST(a_piece_lost_for_want_of_memory_breaks_the_stream),
        TEST(without_memory_there_is_no_encoder),
        TEST(levels_that_only_the_whole_compressor_has_are_its_highest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
