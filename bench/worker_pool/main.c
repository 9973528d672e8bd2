/* Reference 2 on donmaz's pool: a service whose routes measure (reference.h).
 *   bench-worker-pool --catalogue FILE [--isolation processes] [--cores one|two] [--port N] ... */
#include "reference.h"

#include "catalogue.h"

#include <donmaz/csv.h>

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

reference reference_state;

static const char *catalogue_path = "", *isolation_name = "threads", *cores = "",
                  *worker_nice = "0";

int reference_alloc(dz_buf *buf, size_t len)
{
    bool shared = reference_state.isolation == DZ_PROCESSES;
    return shared ? dz_buf_alloc_shared(buf, len) : dz_buf_alloc(buf, len);
}

int reference_fresh(dz_buf *buf)
{
    int rc = reference_alloc(buf, reference_state.file.len);
    return rc < 0 ? rc : dz_buf_append(buf, reference_state.file);
}

/* --- routes --- */

/* One catalogue on a warm worker: handed over, checked, and the summary back. */
static void parse(dz_request *req, dz_response *res)
{
    (void)req;
    dz_buf in, out = {0};
    int rc = reference_fresh(&in);
    uint64_t start = dz_now();
    if (rc == 0)
        rc = dz_pool_run(reference_state.warm, "validate", &in, &out);
    double wall = reference_ms(dz_now() - start);
    char text[4096];
    int len = snprintf(text, sizeof text, "{\"wall_ms\":%.3f,\"summary\":%.*s}", wall, (int)out.len,
                       out.data);
    dz_buf_release(&out);
    dz_buf_release(&in);
    if (rc < 0 || len >= (int)sizeof text)
        dz_send_error(res, 500, rc);
    else
        dz_send_bytes(res, 200, "application/json", dz_slice_make(text, (size_t)len));
}

/* How long handing the file over keeps the loop busy, and what the sender keeps. */
static void copy(dz_request *req, dz_response *res)
{
    (void)req;
    dz_pool *pool = reference_state.warm;
    dz_buf bytes, copied = {0};
    dz_work *first, *second;
    if (reference_fresh(&bytes) < 0 || reference_alloc(&copied, bytes.len) < 0 ||
        dz_pool_run(pool, "nothing", NULL, NULL) < 0) {
        dz_send_error(res, 500, DZ_E_NOMEM);
        return;
    }
    uint64_t start = dz_now();
    int rc = dz_buf_append(&copied, dz_buf_slice(&bytes));
    if (rc == 0)
        rc = dz_pool_start(pool, "nothing", &copied, NULL, &first);
    uint64_t took_copy = dz_now() - start;
    size_t left_copy = bytes.len;
    if (rc == 0)
        dz_work_finish(first, NULL);
    start = dz_now();
    if (rc == 0)
        rc = dz_pool_start(pool, "nothing", &bytes, NULL, &second);
    uint64_t took_move = dz_now() - start;
    size_t left_move = bytes.len;
    if (rc == 0)
        dz_work_finish(second, NULL);
    dz_buf_release(&copied);
    dz_buf_release(&bytes);
    dz_send_json(res, rc < 0 ? 500 : 200,
                 "{\"copy_ms\":%.4f,\"copy_left\":%zu,\"transfer_ms\":%.4f,\"transfer_left\":%zu}",
                 reference_ms(took_copy), left_copy, reference_ms(took_move), left_move);
}

static void four_on_loop(dz_request *req, dz_response *res)
{
    (void)req;
    catalogue_result result = {0};
    uint64_t start = dz_now();
    for (int i = 0; i < 4; i++)
        catalogue_validate(reference_state.file, NULL, &result);
    dz_send_json(res, 200, "{\"ms\":%.3f}", reference_ms(dz_now() - start));
}

static int run_four(const char *task, dz_buf *in)
{
    dz_work *works[4] = {0};
    int rc = 0;
    for (int i = 0; i < 4 && rc == 0; i++)
        rc = dz_pool_start(reference_state.four, task, in ? &in[i] : NULL, NULL, &works[i]);
    for (int i = 0; i < 4; i++)
        if (works[i]) {
            int one = dz_work_finish(works[i], NULL);
            rc = rc < 0 ? rc : one;
        }
    return rc;
}

/* The copies are made before: /copies, with the loop not watched. */
static dz_buf copies[4];

static void make_copies(dz_request *req, dz_response *res)
{
    (void)req;
    int rc = 0;
    for (int i = 0; i < 4 && rc == 0; i++) {
        dz_buf_release(&copies[i]);
        rc = reference_fresh(&copies[i]);
    }
    dz_send_json(res, rc < 0 ? 500 : 200, "{}");
}

static void four_on_pool(dz_request *req, dz_response *res)
{
    (void)req;
    uint64_t start = dz_now();
    int rc = run_four("validate", copies);
    dz_send_json(res, rc < 0 ? 500 : 200, "{\"ms\":%.3f}", reference_ms(dz_now() - start));
}

static uint64_t count(const char *kind)
{
    atomic_store(&reference_state.board->counter, 0);
    atomic_store(&reference_state.board->arrived, 0);
    return run_four(kind, NULL) < 0 ? 0 : atomic_load(&reference_state.board->counter);
}

static void counter(dz_request *req, dz_response *res)
{
    (void)req;
    uint64_t plain = count("plain"), atomic = count("atomic");
    dz_send_json(res, 200, "{\"plain\":%llu,\"atomic\":%llu}", (unsigned long long)plain,
                 (unsigned long long)atomic);
}

static double fifty_tasks(dz_pool *pool)
{
    uint64_t start = dz_now();
    for (int i = 0; i < 50; i++)
        if (dz_pool_run(pool, "nothing", NULL, NULL) < 0)
            return -1;
    return reference_ms(dz_now() - start);
}

static void warm(dz_request *req, dz_response *res)
{
    (void)req;
    double cold = fifty_tasks(reference_state.cold);
    (void)dz_pool_run(reference_state.warm, "nothing", NULL, NULL);
    dz_send_json(res, 200, "{\"new_worker_each_ms\":%.3f,\"warm_ms\":%.4f}", cold,
                 fifty_tasks(reference_state.warm));
}

static void books(dz_request *req, dz_response *res)
{
    (void)req;
    dz_buf in, out = {0};
    int rc = reference_fresh(&in);
    uint64_t start = dz_now();
    if (rc == 0)
        rc = dz_pool_run(reference_state.warm, "books", &in, &out);
    double total = reference_ms(dz_now() - start), parse_ms = reference_state.board->parse_ms;
    dz_send_json(res, rc < 0 ? 500 : 200,
                 "{\"total_ms\":%.3f,\"parse_ms\":%.3f,\"back_ms\":%.3f,\"bytes\":%zu}", total,
                 parse_ms, total - parse_ms, out.len);
    dz_buf_release(&out);
    dz_buf_release(&in);
}

static volatile size_t sink;

static void scan_rows(void)
{
    dz_csv csv;
    dz_csv_field fields[8];
    dz_csv_row row = {.fields = fields, .cap = 8};
    if (dz_csv_init(&csv, reference_state.file, &(dz_csv_options){.separator = ';'}) == 0)
        while (dz_csv_next(&csv, &row) > 0)
            sink += row.count;
}

static void find_nothing(void)
{
    sink += memchr(reference_state.file.ptr, '\x01', reference_state.file.len) != NULL;
}

/* CPU time, the best of rounds in turn, on one core. */
static void scan(dz_request *req, dz_response *res)
{
    (void)req;
    void (*const contenders[2])(void) = {scan_rows, find_nothing};
    double best[2] = {1e18, 1e18};
    for (int round = 0; round < 15; round++)
        for (int i = 0; i < 2; i++) {
            uint64_t start = dz_thread_cpu();
            contenders[i]();
            double took = (double)(dz_thread_cpu() - start);
            best[i] = took < best[i] ? took : best[i];
        }
    double len = (double)reference_state.file.len;
    dz_send_json(res, 200, "{\"scan_gb_s\":%.3f,\"memchr_gb_s\":%.3f}", len / best[0],
                 len / best[1]);
}

/* A client asks for this and goes away; /beat tells when the task last computed. */
static void burn(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_json(res, 200, "{\"rc\":%d}", dz_pool_run(reference_state.warm, "burn", NULL, NULL));
}

static void beat(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_json(res, 200, "{\"ns\":%llu}",
                 (unsigned long long)atomic_load(&reference_state.board->beat));
}

/* --- for the lab: one task a request --- */

static void one_task(dz_request *req, dz_response *res)
{
    (void)req;
    int rc = dz_pool_run(reference_state.warm, "nothing", NULL, NULL);
    dz_send_text(res, rc < 0 ? 503 : 200, "done");
}

static void one_cold_task(dz_request *req, dz_response *res)
{
    (void)req;
    int rc = dz_pool_run(reference_state.cold, "nothing", NULL, NULL);
    dz_send_text(res, rc < 0 ? 503 : 200, "done");
}

static void validate_held(dz_request *req, dz_response *res)
{
    (void)req;
    dz_buf out = {0};
    int rc = dz_pool_run(reference_state.four, "validate held", NULL, &out);
    if (rc < 0)
        dz_send_error(res, 503, rc);
    else
        dz_send_buf(res, 200, "application/json", &out);
    dz_buf_release(&out);
}

/* The upload as the bookstore takes it, without its token. */
static void upload(dz_request *req, dz_response *res)
{
    dz_buf in, out = {0};
    if (dz_req_take_body_for(req, reference_state.sized, &in) < 0)
        return;
    int rc = dz_pool_run(reference_state.sized, "validate", &in, &out);
    dz_buf_release(&in);
    if (rc < 0)
        dz_send_error(res, 503, rc);
    else
        dz_send_buf(res, 200, "application/json", &out);
    dz_buf_release(&out);
}

static void health(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_json(res, 200, "{\"ok\":true}");
}

/* --- the service --- */

static int map_file(const char *name, dz_slice *out)
{
    struct stat info;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) < 0 || info.st_size == 0) {
        fprintf(stderr, "bench-worker-pool: --catalogue '%s': no such file, or empty\n", name);
        if (fd >= 0)
            close(fd);
        return DZ_E_INVALID;
    }
    size_t len = (size_t)info.st_size;
    char *data = mmap(NULL, len, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    close(fd);
    *out = dz_slice_make(data, len);
    return data == MAP_FAILED ? DZ_E_NOMEM : 0;
}

static dz_pool *make_pool(unsigned workers, uint64_t idle_timeout_ns)
{
    dz_pool_options options;
    dz_pool_options_init(&options);
    options.isolation = reference_state.isolation;
    options.max_workers = workers;
    options.min_workers = idle_timeout_ns ? workers : 0;
    options.idle_timeout_ns = idle_timeout_ns;
    options.max_queue = 1000;
    options.nice = (int)strtol(worker_nice, NULL, 10);
    dz_pool *pool = dz_pool_new(&options);
    if (pool && reference_add_tasks(pool) < 0) {
        dz_pool_free(pool);
        return NULL;
    }
    return pool;
}

static void stop(dz_app *app, void *data)
{
    (void)app, (void)data;
    dz_pool_free(reference_state.cold);
    dz_pool_free(reference_state.sized);
    dz_pool_free(reference_state.four);
    dz_pool_free(reference_state.warm);
    for (int i = 0; i < 4; i++)
        dz_buf_release(&copies[i]);
}

static int start(dz_app *app, void *data)
{
    (void)data;
    reference *state = &reference_state;
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    state->isolation = strcmp(isolation_name, "processes") == 0 ? DZ_PROCESSES : DZ_THREADS;
    state->two_cores = strcmp(cores, "two") == 0;
    if (strcmp(cores, "one") == 0 && sched_setaffinity(0, sizeof first, &first) < 0)
        return DZ_E_INVALID;
    int rc = map_file(catalogue_path, &state->file);
    if (rc < 0)
        return rc;
    state->board = dz_shared_new(sizeof *state->board);
    if (!state->board)
        return DZ_E_NOMEM;
    state->warm = make_pool(1, 3600 * DZ_SEC);
    state->four = make_pool(4, 3600 * DZ_SEC);
    dz_pool_options usual;
    dz_pool_options_init(&usual);
    state->sized = make_pool(usual.max_workers, 3600 * DZ_SEC);
    state->cold = make_pool(1, 0);
    if (state->warm && state->four && state->sized && state->cold)
        return 0;
    stop(app, NULL);
    return DZ_E_NOMEM;
}

int main(int argc, char **argv)
{
    dz_app *app = dz_app_new();
    if (!app)
        return 1;
    dz_app_option(app, "catalogue", "FILE", "from make-catalogue", &catalogue_path);
    dz_app_option(app, "isolation", "KIND", "threads or processes (threads)", &isolation_name);
    dz_app_option(app, "cores", "one|two", "where the loop and the worker run; default: anywhere",
                  &cores);
    dz_app_option(app, "worker-nice", "N", "added to the workers' nice value (0)", &worker_nice);
    dz_on_start(app, start);
    dz_on_stop(app, stop);
    static const struct {
        const char *path;
        dz_handler *handler;
    } routes[] = {{"/health", health},
                  {"/task", one_task},
                  {"/cold-task", one_cold_task},
                  {"/validate", validate_held},
                  {"/watch", reference_watch},
                  {"/watch/end", reference_watch_end},
                  {"/copies", make_copies},
                  {"/four/loop", four_on_loop},
                  {"/four/pool", four_on_pool},
                  {"/parts/parse", parse},
                  {"/parts/copy", copy},
                  {"/parts/counter", counter},
                  {"/parts/warm", warm},
                  {"/parts/books", books},
                  {"/parts/scan", scan},
                  {"/parts/dispatch", reference_dispatch},
                  {"/burn", burn},
                  {"/beat", beat}};
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++)
        dz_inline(dz_get(app, routes[i].path, routes[i].handler));
    dz_body_limit(dz_post(app, "/upload", upload), UINT64_C(64) << 20);
    return dz_run(app, argc, argv);
}
