#include "stress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

stress_service_counts stress_served;

static uint64_t number(dz_request *req, const char *name)
{
    char text[24] = {0};
    dz_slice value = dz_req_param(req, name);
    memcpy(text, value.ptr, value.len < sizeof text - 1 ? value.len : sizeof text - 1);
    return strtoull(text, NULL, 10);
}

static void burn(uint64_t us)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    uint64_t until = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000 + us, at;
    do {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        at = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
    } while (at < until);
}

/* Middleware: counts, and names the number. */
static void account(dz_request *req, dz_response *res)
{
    atomic_fetch_add(&stress_served.begun, 1);
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)number(req, "n"));
    dz_res_header(res, "X-Number", text);
    dz_next(req, res);
    atomic_fetch_add(&stress_served.ended, 1);
}

static void plain(dz_request *req, dz_response *res)
{
    dz_send_json(res, 200, "%llu", (unsigned long long)number(req, "n"));
}

static void computing(dz_request *req, dz_response *res)
{
    uint64_t us = number(req, "us");
    if (us % 4 == 0) { /* some answer first and compute after */
        plain(req, res);
        burn(us);
        return;
    }
    burn(us / 2);
    if (us % 4 == 1)
        (void)dz_req_ip(req); /* pins the loop, or parks when it is gone */
    burn(us / 2);
    plain(req, res);
}

static void sleeping(dz_request *req, dz_response *res)
{
    dz_sleep(number(req, "us") / 1000);
    plain(req, res);
}

static int copy_task(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task;
    burn(in->len % 7 * 50);
    return dz_buf_transfer(out, in);
}

static void pooled(dz_request *req, dz_response *res)
{
    dz_buf in, out;
    dz_slice n = dz_req_param(req, "n");
    int rc = dz_buf_copy(&in, n);
    if (rc == 0)
        rc = dz_pool_run(dz_req_data(req), "copy", &in, &out);
    if (rc == DZ_E_CANCELLED && dz_req_gone(req))
        return; /* the client went away, and its task with it */
    if (rc < 0)
        stress_fail("task %.*s: %s", (int)n.len, n.ptr, dz_strerror(rc));
    dz_send_buf(res, 200, "application/json", &out);
}

static void streaming(dz_request *req, dz_response *res)
{
    enum { PIECE = 5000 };
    char piece[PIECE];
    uint64_t size = number(req, "size"), n = number(req, "n");
    memset(piece, (int)('a' + n % 26), sizeof piece);
    int rc = dz_stream(res, 200, "text/plain");
    for (uint64_t at = 0; at < size && rc == 0; at += PIECE) {
        rc = dz_write(res, dz_slice_make(piece, size - at < PIECE ? size - at : PIECE));
        if (at / PIECE % 8 == 1)
            burn(n % 1500);
        if (at / PIECE % 8 == 5)
            dz_sleep(1);
    }
    if (rc < 0 && rc != DZ_E_CLOSED)
        stress_fail("stream %llu: %s", (unsigned long long)n, dz_strerror(rc));
}

static void upload(dz_request *req, dz_response *res)
{
    char piece[3000];
    unsigned long long total = 0, sum = 0;
    ssize_t n;
    while ((n = dz_req_read(req, piece, sizeof piece)) > 0) {
        for (ssize_t i = 0; i < n; i++)
            sum += (unsigned char)piece[i];
        total += (unsigned long long)n;
        if (total % 11 == 0)
            burn(800);
    }
    if (n < 0 && n != DZ_E_CLOSED)
        stress_fail("upload: %s", dz_strerror((int)n));
    if (n == 0)
        dz_send_json(res, 200, "%llu %llu", total, sum);
}

int stress_add_tasks(dz_pool *pool)
{
    return dz_pool_add_task(pool, "copy", copy_task);
}

dz_app *stress_service(dz_pool *pool)
{
    dz_app *app = dz_app_new();
    dz_app_set_data(app, pool);
    dz_use(app, account);
    dz_get(app, "/plain/:n", plain);
    dz_inline(dz_get(app, "/burn/:us/:n", computing));
    dz_get(app, "/learned/:us/:n", computing);
    dz_blocking(dz_get(app, "/blocking/:us/:n", computing));
    dz_get(app, "/sleep/:us/:n", sleeping);
    dz_get(app, "/pool/:n", pooled);
    dz_get(app, "/stream/:size/:n", streaming);
    dz_post(app, "/upload/:n", upload);
    return app;
}
