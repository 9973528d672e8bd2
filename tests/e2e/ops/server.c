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
    if (argc > 1 && strcmp(argv[1], "--library") == 0)
        return run_library(app);
    return dz_run(app, argc, argv);
}
