/* A service for the tests of logging and metrics. */
#include <donmaz.h>

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void hello(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_text(res, 200, "hello");
}

static void pid(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_json(res, 200, "%d", (int)getpid());
}

static void log_secrets(dz_request *req, dz_response *res)
{
    dz_log_info(req, "headers", dz_field_group("headers"),
                dz_field_slice("Authorization", dz_req_header(req, "Authorization")),
                dz_field_slice("cookie", dz_req_header(req, "Cookie")), dz_field_end(),
                dz_field_slice("token", dz_req_query(req, "token")));
    dz_send_text(res, 200, "logged");
}

/* Logs ?n= and answers. */
static void note(dz_request *req, dz_response *res)
{
    dz_log_info(req, "noted", dz_field_slice("n", dz_req_query(req, "n")));
    dz_send_text(res, 200, "noted");
}

/* Holds the loop, as nothing may, until the file that ?until= names is there. */
static void block(dz_request *req, dz_response *res)
{
    dz_slice until = dz_req_query(req, "until");
    char path[512];
    snprintf(path, sizeof path, "%.*s", (int)until.len, until.ptr);
    while (access(path, F_OK) < 0)
        usleep(1000);
    dz_send_text(res, 200, "unblocked");
}

/* Waits without holding anything, until the file that ?until= names is there. */
static void park(dz_request *req, dz_response *res)
{
    dz_slice until = dz_req_query(req, "until");
    char path[512];
    snprintf(path, sizeof path, "%.*s", (int)until.len, until.ptr);
    while (access(path, F_OK) < 0 && dz_sleep(1) == 0)
        continue;
    dz_send_text(res, 200, "parked");
}

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void compute(dz_request *req, dz_response *res)
{
    (void)req;
    uint64_t until = cpu_ns() + 20000000;
    while (cpu_ns() < until)
        continue;
    dz_send_text(res, 200, "computed");
}

/* --- with --everything: a pool of processes and a Redis of its own --- */

static const char *everything;
static dz_pool *pool;
static dz_redis *redis;
static dz_redis_server *redis_server;

static int nothing(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task, (void)in, (void)out;
    return 0;
}

static void task(dz_request *req, dz_response *res)
{
    (void)req;
    int rc = dz_pool_run(pool, "nothing", NULL, NULL);
    if (rc < 0)
        dz_send_error(res, 503, rc);
    else
        dz_send_text(res, 200, "done");
}

static void value(dz_request *req, dz_response *res)
{
    (void)req;
    dz_buf text;
    int rc = dz_redis_get(redis, DZ_LIT("value"), &text);
    if (rc == DZ_E_NOT_FOUND)
        dz_send_text(res, 404, "none");
    else if (rc < 0)
        dz_send_error(res, 503, rc);
    else
        dz_send_buf(res, 200, "text/plain", &text);
}

static int start(dz_app *app, void *unused)
{
    (void)unused;
    if (!everything)
        return 0;
    dz_pool_options options;
    dz_pool_options_init(&options);
    options.isolation = DZ_PROCESSES;
    options.max_workers = 1;
    pool = dz_pool_new(&options);
    if (!pool)
        return DZ_E_NOMEM;
    char url[128];
    int rc = dz_pool_add_task(pool, "nothing", nothing);
    if (rc == 0)
        rc = dz_pool_register_metrics(pool, dz_app_metrics(app), "jobs");
    if (rc == 0)
        rc = dz_redis_server_start(&redis_server, url, sizeof url);
    if (rc == 0)
        rc = dz_redis_open(&redis, url, &(dz_redis_options){.cache_bytes = 1 << 20});
    return rc < 0 ? rc : dz_redis_register_metrics(redis, dz_app_metrics(app), "values");
}

static void stop(dz_app *app, void *unused)
{
    (void)unused;
    if (redis)
        dz_metrics_forget(dz_app_metrics(app), redis);
    dz_redis_close(redis);
    dz_redis_server_stop(redis_server);
    if (pool)
        dz_metrics_forget(dz_app_metrics(app), pool);
    dz_pool_free(pool);
}

/* The library alone: until standard input ends. Prints the port and nothing else. */
static int run_library(dz_app *app)
{
    unsigned port = 0;
    char byte;
    dz_app_set(app, "port", "0");
    dz_app_set(app, "request-log", "1");
    if (dz_app_start(app, &port) < 0)
        return 1;
    dprintf(3, "%u\n", port);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        continue;
    dz_app_stop(app);
    int rc = dz_app_wait(app);
    dz_app_free(app);
    return rc < 0;
}

int main(int argc, char **argv)
{
    dz_app *app = dz_app_new();
    dz_get(app, "/", hello);
    dz_get(app, "/pid", pid);
    dz_get(app, "/secrets", log_secrets);
    dz_get(app, "/note", note);
    dz_get(app, "/block", block);
    dz_get(app, "/compute/:what", compute);
    dz_get(app, "/park", park);
    dz_get(app, "/task", task);
    dz_get(app, "/value", value);
    dz_health_routes(app, "/livez", "/readyz");
    dz_app_option(app, "everything", NULL, "a pool and a Redis, too", &everything);
    dz_on_start(app, start);
    dz_on_stop(app, stop);
    if (argc > 1 && strcmp(argv[1], "--library") == 0)
        return run_library(app);
    return dz_run(app, argc, argv);
}
