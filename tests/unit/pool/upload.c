/* A request's body goes from the socket to the worker without a copy, for both isolations. */
#include "../serve.h"

#include "pool/process.h"

#include <sys/stat.h>

enum { LENGTH = 300000, CHUNK = 50000 };

static dz_pool *pool;

/* What tells shared memory apart, in every process. */
static uint64_t number_of(const dz_buf *buf)
{
    struct stat info;
    int fd = dz_shared_fd(buf);
    return fd >= 0 && fstat(fd, &info) == 0 ? (uint64_t)info.st_ino : 0;
}

/* Says whether all bytes are right, where they lie, and in which shared memory. */
static int look(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task;
    uint64_t seen[3] = {1, (uint64_t)(uintptr_t)in->data, number_of(in)};
    for (size_t i = 0; i < in->len; i++)
        if (in->data[i] != (char)('a' + i % 7))
            seen[0] = 0;
    return dz_buf_copy(out, dz_slice_make((const char *)seen, sizeof seen));
}

static void take_upload(dz_request *req, dz_response *res)
{
    dz_buf body, out;
    if (dz_req_take_body_for(req, pool, &body) < 0)
        return;
    uint64_t seen[3], number = number_of(&body), at = (uint64_t)(uintptr_t)body.data;
    size_t len = body.len;
    assert_int_equal(dz_pool_run(pool, "look", &body, &out), 0);
    assert_null(body.data);
    assert_int_equal(out.len, sizeof seen);
    memcpy(seen, out.data, sizeof seen);
    dz_buf_release(&out);
    bool same = number ? seen[2] == number : seen[1] == at;
    dz_send_json(res, 200, "{\"len\":%zu,\"right\":%d,\"same\":%d,\"shared\":%d}", len,
                 (int)seen[0], same, number != 0);
}

static void upload_to(dz_isolation isolation, bool chunked)
{
    dz_pool_options options;
    dz_pool_options_init(&options);
    options.isolation = isolation;
    pool = dz_pool_new(&options);
    assert_non_null(pool);
    assert_int_equal(dz_pool_add_task(pool, "look", look), 0);
    dz_app *app = dz_app_new();
    assert_non_null(dz_post(app, "/", take_upload));
    unsigned port = serve(app);

    static char body[LENGTH + 1];
    for (size_t i = 0; i < LENGTH; i++)
        body[i] = (char)('a' + i % 7);
    char text[128];
    int fd = connect_to(port);
    snprintf(text, sizeof text, "POST / HTTP/1.1\r\nHost: a\r\n%s%s\r\n\r\n",
             chunked ? "Transfer-Encoding: " : "Content-Length: ", chunked ? "chunked" : "300000");
    say(fd, text);
    if (!chunked)
        say(fd, body);
    for (size_t at = 0; chunked && at < LENGTH; at += CHUNK) {
        static char chunk[CHUNK + 1];
        memcpy(chunk, body + at, CHUNK);
        snprintf(text, sizeof text, "%x\r\n", CHUNK);
        say(fd, text);
        say(fd, chunk);
        say(fd, "\r\n");
    }
    if (chunked)
        say(fd, "0\r\n\r\n");
    snprintf(text, sizeof text, "{\"len\":%d,\"right\":1,\"same\":1,\"shared\":%d}", LENGTH,
             isolation == DZ_PROCESSES);
    assert_reply(hear(fd), 200, text);
    close(fd);
    serve_end(app);
    dz_pool_free(pool);
}

static void a_body_reaches_a_thread_where_it_was_received(void **state)
{
    (void)state;
    upload_to(DZ_THREADS, false);
    upload_to(DZ_THREADS, true);
}

static void a_body_is_received_into_memory_that_a_process_shares(void **state)
{
    (void)state;
    upload_to(DZ_PROCESSES, false);
}

static void a_chunked_body_grows_in_shared_memory(void **state)
{
    (void)state;
    upload_to(DZ_PROCESSES, true);
}

/* "threads" as an argument: only with threads. */
int main(int argc, char **argv)
{
    const struct CMUnitTest with_threads[] = {
        cmocka_unit_test(a_body_reaches_a_thread_where_it_was_received),
    };
    if (argc > 1 && strcmp(argv[1], "threads") == 0)
        return cmocka_run_group_tests(with_threads, NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_reaches_a_thread_where_it_was_received),
        cmocka_unit_test(a_body_is_received_into_memory_that_a_process_shares),
        cmocka_unit_test(a_chunked_body_grows_in_shared_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
