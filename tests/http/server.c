/* server.c: what the wire tests need a handler to do and the examples don't.
 *
 *   GET  /sleep/:ms     parks that long, then "slept"
 *   GET  /compute/:ms   burns that much CPU, then "computed"
 *   GET  /task/:ms      has a pool's worker burn it; "tasked"
 *   any  /status/:code  that status without a body
 *   GET  /bytes/:n      n bytes 'x' in one piece, with Content-Length
 *   GET  /stream/:n     n bytes 'x' streamed in pieces of 16 KB
 *   GET  /borrow        sends the request's own field X-Large without a copy
 *   GET  /split         tries to set a header that would split the response: "refused" or "split"
 *   POST /unread        answers "unread" without reading the body
 *   POST /read/:size    reads the body in pieces of that size; "N bytes, sum S"
 *   GET  /requests      how many requests reached a handler, this one not counted */
#include <donmaz.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static atomic_ulong handled;
static dz_pool *pool;

static unsigned long number(dz_request *req, const char *name)
{
    char text[24] = {0};
    dz_slice value = dz_req_param(req, name);
    memcpy(text, value.ptr, value.len < sizeof text - 1 ? value.len : sizeof text - 1);
    return strtoul(text, NULL, 10);
}

static void count(dz_request *req, dz_response *res)
{
    if (!dz_slice_equal(dz_req_path(req), DZ_LIT("/requests")))
        atomic_fetch_add(&handled, 1);
    dz_next(req, res);
}

static void requests(dz_request *req, dz_response *res)
{
    (void)req;
    char text[24];
    snprintf(text, sizeof text, "%lu", atomic_load(&handled));
    dz_send_text(res, 200, text);
}

static void sleep_ms(dz_request *req, dz_response *res)
{
    dz_sleep(number(req, "ms"));
    dz_send_text(res, 200, "slept");
}

static uint64_t thread_cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void burn(unsigned long ms)
{
    uint64_t until = thread_cpu_ms() + ms;
    while (thread_cpu_ms() < until)
        ;
}

static void compute(dz_request *req, dz_response *res)
{
    burn(number(req, "ms"));
    dz_send_text(res, 200, "computed");
}

static int burn_task(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task;
    unsigned long ms;
    memcpy(&ms, in->data, sizeof ms);
    burn(ms);
    return dz_buf_copy(out, DZ_LIT("tasked"));
}

static void run_task(dz_request *req, dz_response *res)
{
    dz_buf in, out;
    unsigned long ms = number(req, "ms");
    if (dz_buf_copy(&in, dz_slice_make((const char *)&ms, sizeof ms)) < 0)
        return;
    int rc = dz_pool_run(pool, "burn", &in, &out);
    if (rc < 0)
        dz_send_error(res, 503, rc);
    else
        dz_send_buf(res, 200, "text/plain", &out);
    dz_buf_release(&in);
}

static void status(dz_request *req, dz_response *res)
{
    dz_send_status(res, (int)number(req, "code"));
}

static void bytes(dz_request *req, dz_response *res)
{
    dz_buf body;
    size_t len = number(req, "n");
    if (dz_buf_alloc(&body, len) < 0)
        return;
    memset(body.data, 'x', len);
    body.len = len;
    dz_send_buf(res, 200, "text/plain", &body);
}

static void stream(dz_request *req, dz_response *res)
{
    char piece[16 * 1024]; /* not static: handlers run on several threads */
    memset(piece, 'x', sizeof piece);
    unsigned long left = number(req, "n");
    int rc = dz_stream(res, 200, "text/plain");
    while (rc == 0 && left > 0) {
        size_t len = left < sizeof piece ? left : sizeof piece;
        rc = dz_write(res, dz_slice_make(piece, len));
        left -= len;
    }
    if (rc == 0)
        dz_end(res);
}

static void borrow(dz_request *req, dz_response *res)
{
    dz_send_borrowed(res, 200, "text/plain", dz_req_header(req, "X-Large"));
}

static void split(dz_request *req, dz_response *res)
{
    (void)req;
    int rc = dz_res_header(res, "X-Name", "a\r\nSet-Cookie: evil=1");
    int name_rc = dz_res_header(res, "X-Name: a\r\nX", "b");
    dz_send_text(res, 200, rc == DZ_E_INVALID && name_rc == DZ_E_INVALID ? "refused" : "split");
}

static void unread(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_text(res, 200, "unread");
}

static void read_pieces(dz_request *req, dz_response *res)
{
    char piece[4096], text[64];
    size_t size = number(req, "size");
    unsigned long total = 0, sum = 0;
    ssize_t n;
    while ((n = dz_req_read(req, piece, size < sizeof piece ? size : sizeof piece)) > 0) {
        total += (unsigned long)n;
        for (ssize_t i = 0; i < n; i++)
            sum += (unsigned char)piece[i];
    }
    if (n < 0)
        return;
    snprintf(text, sizeof text, "%lu bytes, sum %lu", total, sum);
    dz_send_text(res, 200, text);
}

int main(int argc, char **argv)
{
    dz_app *app = dz_app_new();
    dz_pool_options options;
    dz_pool_options_init(&options);
    pool = dz_pool_new(&options);
    if (!pool || dz_pool_add_task(pool, "burn", burn_task) < 0)
        return 1;
    dz_use(app, count);
    dz_get(app, "/requests", requests);
    dz_get(app, "/sleep/:ms", sleep_ms);
    dz_get(app, "/compute/:ms", compute);
    dz_get(app, "/task/:ms", run_task);
    dz_all(app, "/status/:code", status);
    dz_get(app, "/bytes/:n", bytes);
    dz_get(app, "/stream/:n", stream);
    dz_get(app, "/borrow", borrow);
    dz_get(app, "/split", split);
    dz_post(app, "/unread", unread);
    dz_post(app, "/read/:size", read_pieces);
    int code = dz_run(app, argc, argv);
    dz_pool_free(pool);
    return code;
}
