/* The core under everything at once: thousands of takeovers, pipelined requests, tasks, streams,
 * clients that vanish, and a drain at the end. Every request must get exactly one response, in
 * order, and nothing may be left.
 *
 *   test-stress-stress [--seconds N] [--clients N] [--loops N] [--seed N] */
#include "stress.h"

#include "app/app.h"

#include <dirent.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void stress_fail(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    flockfile(stderr);
    fputs("stress: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    _exit(1);
}

static unsigned long option(int argc, char **argv, const char *name, unsigned long standard)
{
    for (int i = 1; i + 1 < argc; i += 2)
        if (strcmp(argv[i], name) == 0)
            return strtoul(argv[i + 1], NULL, 10);
    return standard;
}

static size_t open_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    size_t count = 0;
    while (folder && readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static void set(dz_app *app, const char *name, const char *value)
{
    if (dz_app_set(app, name, value) < 0)
        stress_fail("--%s %s is not accepted", name, value);
}

typedef struct totals {
    unsigned long long takeovers, capped, failed, fibers, free_fibers;
} totals;

static totals sum_up(const dz_app *app)
{
    totals sum = {0};
    const dz_runtime *runtime = app->core->runtime;
    for (unsigned i = 0; i < runtime->options.loops; i++) {
        const dz_loop *loop = &runtime->loops[i];
        sum.takeovers += atomic_load(&loop->stats.rescues);
        sum.capped += atomic_load(&loop->stats.rescues_capped);
        sum.failed += atomic_load(&loop->stats.rescues_failed);
        sum.fibers += loop->fiber_count;
        sum.free_fibers += loop->free_fiber_count;
    }
    return sum;
}

/* After the threads have ended. */
static void check_nothing_left(const dz_app *app)
{
    uint64_t begun = atomic_load(&stress_served.begun), ended = atomic_load(&stress_served.ended);
    if (begun != ended)
        stress_fail("%llu handlers did not end", (unsigned long long)(begun - ended));
    uint32_t open = atomic_load(&app->core->server->stats.open);
    if (open != 0)
        stress_fail("%u connections are left", open);
    totals sum = sum_up(app);
    if (sum.fibers != sum.free_fibers)
        stress_fail("%llu fibers are left", sum.fibers - sum.free_fibers);
    for (unsigned i = 0; i < app->core->server->loop_count; i++)
        if (!dz_list_empty(&app->core->server->loops[i].conns))
            stress_fail("loop %u still lists connections", i);
}

int main(int argc, char **argv)
{
    enum { CLIENTS_MAX = 256 };
    unsigned long seconds = option(argc, argv, "--seconds", 5);
    unsigned long clients = option(argc, argv, "--clients", 16);
    uint64_t seed = option(argc, argv, "--seed", (unsigned long)getpid());
    char loops[16];
    snprintf(loops, sizeof loops, "%lu", option(argc, argv, "--loops", 2));
    if (clients > CLIENTS_MAX)
        stress_fail("--clients is at most %d", CLIENTS_MAX);
    size_t fds = open_descriptors();

    dz_pool_options options;
    dz_pool_options_init(&options);
    options.max_queue = 4096;
    dz_pool *pool = dz_pool_new(&options);
    if (!pool || stress_add_tasks(pool) < 0)
        stress_fail("no pool");
    dz_app *app = stress_service(pool);
    set(app, "port", "0");
    set(app, "loops", loops);
    set(app, "rescue-after", "500us");
    set(app, "demote-after", "2ms");
    set(app, "drain-timeout", "120s");
    unsigned port;
    int rc = dz_app_start(app, &port);
    if (rc < 0)
        stress_fail("could not start: %s", dz_strerror(rc));

    static _Atomic bool over, draining;
    static stress_client each[CLIENTS_MAX];
    static pthread_t threads[CLIENTS_MAX];
    printf("stress: %lu clients for %lu s, --seed %llu\n", clients, seconds,
           (unsigned long long)seed);
    fflush(stdout);
    for (unsigned long i = 0; i < clients; i++) {
        each[i] = (stress_client){(seed + 1) * UINT64_C(0x9e3779b97f4a7c15) + i * 7919 + 1, port,
                                  &over, &draining};
        if (pthread_create(&threads[i], NULL, stress_client_run, &each[i]) != 0)
            stress_fail("no thread for a client");
    }
    sleep((unsigned)seconds);

    atomic_store(&draining, true);
    dz_app_stop(app); /* with requests in every state */
    rc = dz_app_wait(app);
    if (rc < 0)
        stress_fail("the drain did not end: %s", dz_strerror(rc));
    atomic_store(&over, true);
    for (unsigned long i = 0; i < clients; i++)
        pthread_join(threads[i], NULL);

    check_nothing_left(app);
    totals sum = sum_up(app);
    printf(
        "stress: %llu requests checked, %llu handlers run, %llu takeovers (%llu at the cap, %llu "
        "without a thread), %llu connections, %llu clients vanished\n",
        (unsigned long long)atomic_load(&stress_asked.responses),
        (unsigned long long)atomic_load(&stress_served.begun), sum.takeovers, sum.capped,
        sum.failed, (unsigned long long)atomic_load(&stress_asked.connections),
        (unsigned long long)atomic_load(&stress_asked.vanished));
    if (sum.takeovers == 0 || atomic_load(&stress_asked.vanished) == 0)
        stress_fail("too little happened to prove anything");
    dz_pool_free(pool);
    dz_app_free(app);
    if (open_descriptors() != fds)
        stress_fail("descriptors are left open");
    return 0;
}
