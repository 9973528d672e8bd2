/* Compression when its workers are behind. */
#include "../serve.h"

#include "content/compressor.h"

#include <libdeflate.h>

enum { SIZE = 50000 };
static dz_app *app;
static unsigned port;
static char text[SIZE + 1];

static void send_text(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_bytes(res, 200, "text/plain", dz_slice_make(text, SIZE));
}

static void stream_text(dz_request *req, dz_response *res)
{
    (void)req;
    dz_stream(res, 200, "text/plain");
    dz_write(res, dz_slice_make(text, SIZE));
}

/* --- a worker that is busy for as long as we like --- */

static atomic_bool busy;
static atomic_int started, ended_jobs;

static void work(dz_job *job)
{
    (void)job;
    atomic_fetch_add(&started, 1);
    while (atomic_load(&busy))
        usleep(1000);
    atomic_fetch_add(&ended_jobs, 1);
}

static dz_job jobs[2];
static int occupied;

static void occupy(size_t count)
{
    atomic_store(&busy, true);
    atomic_store(&started, 0);
    atomic_store(&ended_jobs, 0);
    occupied = (int)count;
    for (size_t i = 0; i < count; i++) {
        jobs[i] = (dz_job){.run = work};
        dz_list_init(&jobs[i].link);
        assert_int_equal(dz_pool_submit(app->core->compressor->pool, &jobs[i]), 0);
        wait_until(atomic_load(&started) == 1);
    }
}

static void release(void)
{
    atomic_store(&busy, false);
    wait_until(atomic_load(&ended_jobs) == occupied);
}

static dz_compress_stats stats(void)
{
    dz_compress_stats it;
    dz_compress_get_stats(app, &it);
    return it;
}

static int set_up(void **state)
{
    (void)state;
    memset(text, 't', SIZE);
    app = dz_app_new();
    dz_compress_options options;
    dz_compress_options_init(&options);
    options.workers = 1;
    options.max_queue = 1;
    dz_use_compress(app, &options);
    dz_get(app, "/text", send_text);
    dz_get(app, "/stream", stream_text);
    port = serve(app);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    serve_end(app);
    return 0;
}

#define ASK(path) "GET " path " HTTP/1.1\r\nHost: test\r\nAccept-Encoding: gzip\r\n\r\n"

static void assert_gunzips(const reply *it)
{
    static char out[SIZE + 1];
    size_t len;
    struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
    assert_true(reply_has(it, "Content-Encoding: gzip"));
    assert_int_equal(libdeflate_gzip_decompress(d, it->body, it->len, out, SIZE, &len), 0);
    libdeflate_free_decompressor(d);
    assert_int_equal(len, SIZE);
    assert_memory_equal(out, text, SIZE);
}

static void a_full_queue_sends_the_body_as_it_is(void **state)
{
    (void)state;
    uint64_t refused = stats().refused;
    occupy(2);
    reply it = ask(port, ASK("/text"));
    assert_null(strstr(it.head, "Content-Encoding"));
    assert_true(reply_has(&it, "Vary: Accept-Encoding"));
    assert_int_equal(it.len, SIZE);
    assert_memory_equal(it.body, text, SIZE);
    reply_free(&it);
    assert_int_equal(stats().refused, refused + 1);
    release();
}

static void a_full_queue_makes_a_stream_compress_where_it_is(void **state)
{
    (void)state;
    occupy(2);
    reply it = ask(port, ASK("/stream")); /* its head has promised gzip */
    assert_true(reply_has(&it, "Content-Encoding: gzip"));
    assert_true(it.len < SIZE / 2);
    reply_free(&it);
    release();
}

static void a_client_that_has_gone_is_not_worked_for(void **state)
{
    (void)state;
    uint64_t whole = stats().whole;
    dz_pool_stats pool;
    occupy(1);
    int fd = connect_to(port);
    say(fd, ASK("/text"));
    do
        dz_pool_get_stats(app->core->compressor->pool, &pool);
    while (pool.queued == 0);
    close(fd);
    wait_until(open_connections(app) == 0);
    do
        dz_pool_get_stats(app->core->compressor->pool, &pool);
    while (pool.queued > 0);
    assert_int_equal(pool.cancelled, 1);
    release();
    reply it = ask(port, ASK("/text"));
    assert_gunzips(&it);
    reply_free(&it);
    assert_int_equal(stats().whole, whole + 1);
}

static void a_bad_level_refuses_to_start(void **state)
{
    (void)state;
    dz_app *other = dz_app_new();
    dz_compress_options options;
    dz_compress_options_init(&options);
    options.level = 13;
    dz_use_compress(other, &options);
    unsigned unused;
    assert_int_equal(dz_app_start(other, &unused), DZ_E_INVALID);
    dz_compress_stats none;
    dz_compress_get_stats(other, &none);
    assert_int_equal(none.whole, 0);
    dz_app_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_queue_sends_the_body_as_it_is),
        cmocka_unit_test(a_full_queue_makes_a_stream_compress_where_it_is),
        cmocka_unit_test(a_client_that_has_gone_is_not_worked_for),
        cmocka_unit_test(a_bad_level_refuses_to_start),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
