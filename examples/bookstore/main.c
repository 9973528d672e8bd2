/* bookstore: a shop's catalogue is checked by a pool of workers while the loop goes on.
 *
 *   POST /api/catalog/validate             a catalogue (text/csv, catalogue.h) in, a summary out
 *   POST /api/catalog/validate?progress=1  the same as server-sent events: progress, then result
 *   POST /api/catalog/records              the valid books as fixed-size records (records.h)
 *   GET  /health, /metrics
 *
 * The first three are for store staff: see auth.h. */
#include "auth.h"
#include "tasks.h"

#include <donmaz.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { BODY_MAX = 64 << 20 };
static const uint64_t second = UINT64_C(1000000000);

typedef struct bookstore {
    bookstore_auth auth; /* first: auth.c knows no more of this */
    dz_pool *pool;
    dz_metrics *metrics;
    const char *secret_file, *isolation, *workers, *queue, *run_limit, *memory;
} bookstore;

static void send_failure(dz_response *res, int status, const char *reason)
{
    dz_send_json(res, status, "{\"ok\":false,\"reason\":\"%s\"}", reason);
}

/* Answers for a task that brought no result. */
static void send_pool_error(dz_response *res, int error)
{
    switch (error) {
    case DZ_E_CANCELLED: /* the client has gone: nobody reads this */
    case DZ_E_QUEUE_FULL:
    case DZ_E_EXPIRED: /* it was never begun */
    case DZ_E_NO_THREAD:
    case DZ_E_SHUTDOWN:
    case DZ_E_UNAVAILABLE:
    case DZ_E_NOMEM:
        dz_res_header(res, "Retry-After", "1");
        send_failure(res, 503, "too busy: retry later");
        break;
    case DZ_E_TIMEOUT:
        dz_res_header(res, "Retry-After", "1");
        send_failure(res, 503, "took too long");
        break;
    default:
        dz_send_error(res, 500, error);
    }
}

/* Whether the body is text/csv, with or without parameters. */
static bool is_csv(const dz_request *req)
{
    dz_slice type = dz_req_header(req, "Content-Type");
    const dz_slice csv = DZ_LIT("text/csv");
    if (type.len < csv.len || !dz_slice_equal_nocase(dz_slice_make(type.ptr, csv.len), csv))
        return false;
    return type.len == csv.len || strchr("; \t", type.ptr[csv.len]);
}

/* The uploaded file, in memory of its own; false when it was answered already, or will be by the
 * library (413 and the like). */
static bool take_upload(dz_request *req, dz_response *res, dz_buf *body)
{
    const bookstore *store = dz_req_data(req);
    if (!is_csv(req)) {
        send_failure(res, 415, "only text/csv is taken");
        return false;
    }
    if (dz_req_take_body_for(req, store->pool, body) < 0)
        return false;
    if (body->len > 0)
        return true;
    dz_buf_release(body);
    send_failure(res, 400, "the first line must be isbn;title;author;price;stock");
    return false;
}

static void answer(dz_response *res, int rc, const char *type, dz_buf *out)
{
    if (rc == BAD_CATALOGUE)
        dz_send_buf(res, 400, "application/json", out);
    else if (rc == 0)
        dz_send_buf(res, 200, type, out);
    else
        send_pool_error(res, rc);
    dz_buf_release(out);
}

static void run_task(dz_request *req, dz_response *res, const char *task, const char *type)
{
    const bookstore *store = dz_req_data(req);
    dz_buf body, out;
    if (!take_upload(req, res, &body))
        return;
    int rc = dz_pool_run(store->pool, task, &body, &out);
    dz_buf_release(&body);
    answer(res, rc, type, &out);
}

static int send_event(dz_response *res, const char *name, dz_slice data)
{
    char head[64];
    int len = snprintf(head, sizeof head, "event: %s\ndata: ", name);
    int rc = dz_write(res, dz_slice_make(head, (size_t)len));
    if (rc == 0)
        rc = dz_write(res, data); /* JSON in one line, so one data field holds it */
    return rc == 0 ? dz_write(res, DZ_LIT("\n\n")) : rc;
}

static void start_events(dz_response *res)
{
    dz_res_header(res, "Cache-Control", "no-store");
    dz_stream(res, 200, "text/event-stream");
}

/* Errors that show before the first event still get a status of their own. */
static void validate_with_progress(dz_request *req, dz_response *res)
{
    const bookstore *store = dz_req_data(req);
    dz_buf body, report, out;
    dz_work *work;
    if (!take_upload(req, res, &body))
        return;
    int rc = dz_pool_start(store->pool, "validate", &body, NULL, &work);
    dz_buf_release(&body);
    if (rc < 0) {
        send_pool_error(res, rc);
        return;
    }
    bool streaming = false;
    while (dz_work_next(work, &report) > 0) {
        if (!streaming)
            start_events(res);
        streaming = true;
        if (send_event(res, "progress", dz_buf_slice(&report)) < 0)
            dz_work_cancel(work);
        dz_buf_release(&report);
    }
    rc = dz_work_finish(work, &out);
    if (!streaming && rc != 0) {
        answer(res, rc, "application/json", &out);
        return;
    }
    if (!streaming)
        start_events(res);
    if (rc == 0)
        send_event(res, "result", dz_buf_slice(&out));
    else
        send_event(res, "error", DZ_LIT("{\"ok\":false,\"reason\":\"not completed\"}"));
    dz_end(res);
    dz_buf_release(&out);
}

static void validate(dz_request *req, dz_response *res)
{
    if (dz_slice_equal(dz_req_query(req, "progress"), DZ_LIT("1")))
        validate_with_progress(req, res);
    else
        run_task(req, res, "validate", "application/json");
}

static void records(dz_request *req, dz_response *res)
{
    run_task(req, res, "records", "application/octet-stream");
}

static void health(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_json(res, 200, "{\"ok\":true}");
}

static void metrics(dz_request *req, dz_response *res)
{
    const bookstore *store = dz_req_data(req);
    dz_buf text = {0};
    int rc = dz_metrics_write(store->metrics, &text);
    if (rc < 0)
        dz_send_error(res, 503, rc);
    else
        dz_send_buf(res, 200, DZ_METRICS_CONTENT_TYPE, &text);
    dz_buf_release(&text);
}

static bool parse_number(const char *name, const char *text, unsigned least, unsigned *value)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && number >= least && number <= 1000000) {
        *value = (unsigned)number;
        return true;
    }
    fprintf(stderr, "bookstore: --%s takes a number from %u to 1000000, not '%s'\n", name, least,
            text);
    return false;
}

static int read_options(const bookstore *store, dz_pool_options *options)
{
    unsigned seconds, megabytes;
    dz_pool_options_init(options);
    options->min_workers = 1;
    if (strcmp(store->isolation, "processes") == 0) {
        options->isolation = DZ_PROCESSES;
    } else if (strcmp(store->isolation, "threads") != 0) {
        fprintf(stderr, "bookstore: --pool is threads or processes, not '%s'\n", store->isolation);
        return DZ_E_INVALID;
    }
    if (store->workers[0] &&
        !parse_number("pool-workers", store->workers, 1, &options->max_workers))
        return DZ_E_INVALID;
    if (!parse_number("max-queue", store->queue, 0, &options->max_queue) ||
        !parse_number("run-limit", store->run_limit, 0, &seconds) ||
        !parse_number("pool-memory", store->memory, 0, &megabytes))
        return DZ_E_INVALID;
    options->memory_max = (uint64_t)megabytes << 20;
    options->run_limit_ns = seconds * second;
    return 0;
}

/* After the last request: the pool ends what still runs, then its workers. */
static void stop(dz_app *app, void *data)
{
    (void)app;
    bookstore *store = data;
    dz_pool_close(store->pool, 10 * second);
    dz_metrics_free(store->metrics);
}

static int start(dz_app *app, void *data)
{
    bookstore *store = data;
    dz_pool_options options;
    int rc = read_options(store, &options);
    if (rc == 0)
        rc = auth_init(&store->auth, store->secret_file);
    if (rc < 0)
        return rc;
    store->metrics = dz_metrics_new();
    store->pool = dz_pool_new(&options);
    if (!store->pool) {
        rc = -errno;
        fprintf(stderr, "bookstore: --pool %s can't be had: %s; see docs/pool.md\n",
                store->isolation, dz_strerror(rc));
    } else if (!store->metrics) {
        rc = DZ_E_NOMEM;
    }
    if (rc == 0)
        rc = dz_pool_add_task(store->pool, "validate", task_validate);
    if (rc == 0)
        rc = dz_pool_add_task(store->pool, "records", task_records);
    if (rc == 0)
        rc = dz_pool_register_metrics(store->pool, store->metrics, "catalog");
    if (rc < 0)
        stop(app, store);
    return rc;
}

static void add_options(dz_app *app, bookstore *store)
{
    dz_app_option(app, "jwt-secret-file", "FILE",
                  "holds the secret of the tokens, at least 32 bytes\n"
                  "(or BOOKSTORE_JWT_SECRET in the environment)",
                  &store->secret_file);
    dz_app_option(app, "pool", "KIND", "threads or processes (threads)", &store->isolation);
    dz_app_option(app, "pool-workers", "N", "workers that check catalogues; default: cores - 1",
                  &store->workers);
    dz_app_option(app, "max-queue", "N", "uploads that may wait for a worker (16); 503 beyond",
                  &store->queue);
    dz_app_option(app, "pool-memory", "MB", "what a worker process may allocate (1024); 0: any",
                  &store->memory);
    dz_app_option(app, "run-limit", "S", "seconds a check may take (60); 0: any",
                  &store->run_limit);
}

int main(int argc, char **argv)
{
    static bookstore store = {.secret_file = "",
                              .isolation = "threads",
                              .workers = "",
                              .queue = "16",
                              .run_limit = "60",
                              .memory = "1024"};
    dz_app *app = dz_app_new();
    if (!app)
        return 1;
    dz_app_set_data(app, &store);
    add_options(app, &store);
    dz_on_start(app, start);
    dz_on_stop(app, stop);
    dz_get(app, "/health", health);
    dz_get(app, "/metrics", metrics);
    dz_app *catalog = dz_group(app, "/api/catalog");
    if (catalog) {
        dz_use(catalog, auth_require_staff);
        dz_body_limit(dz_post(catalog, "/validate", validate), BODY_MAX);
        dz_body_limit(dz_post(catalog, "/records", records), BODY_MAX);
    }
    return dz_run(app, argc, argv);
}
