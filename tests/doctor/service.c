/* donmaz servers, each with one known fault or none: what donmaz doctor is examined with.
 * usage: service --case NAME --port 0 [any setting of donmaz] */
#include <donmaz.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *name = "hello";

static uint64_t thread_cpu_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static volatile uint64_t sink;

/* CPU time, not wall time: on a busy machine the work stays the same. */
__attribute__((noinline)) static void burn_cpu(uint64_t us)
{
    uint64_t until = thread_cpu_us() + us;
    while (thread_cpu_us() < until)
        for (unsigned i = 0; i < 3000; i++)
            sink += i * sink;
}

static void answer(dz_response *res)
{
    dz_send_text(res, 200, "ok\n");
}

/* --- healthy --- */

static void hello(dz_request *req, dz_response *res)
{
    (void)req;
    answer(res);
}

static void quick_wait(dz_request *req, dz_response *res)
{
    (void)req;
    dz_sleep(3);
    answer(res);
}

/* Computes, but for one client only, and the loop goes on meanwhile. */
static void rescued(dz_request *req, dz_response *res)
{
    (void)req;
    burn_cpu(8000);
    dz_sleep(3);
    answer(res);
}

static void *keep(size_t size)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static void *last;
    void **block = malloc(size);
    if (!block)
        return NULL;
    memset(block, 1, size);
    pthread_mutex_lock(&lock);
    *block = last; /* a chain from the newest on: kept, and no tool takes it for lost */
    last = block;
    pthread_mutex_unlock(&lock);
    return block;
}

static void bounded_cache(dz_request *req, dz_response *res)
{
    static _Atomic unsigned entries;
    (void)req;
    dz_sleep(4);
    if (entries++ < 60)
        keep(400000);
    answer(res);
}

/* --- blocked loop (with rescue off) --- */

static void burn(dz_request *req, dz_response *res)
{
    (void)req;
    burn_cpu(30000);
    answer(res);
}

static void one_in_five(dz_request *req, dz_response *res)
{
    static _Atomic unsigned n;
    (void)req;
    if (n++ % 5 == 0)
        burn_cpu(90000);
    answer(res);
}

/* A synchronous call: nothing is computed. */
static void sync_call(dz_request *req, dz_response *res)
{
    (void)req;
    usleep(60000);
    answer(res);
}

/* Hardly ever, but then long: most clients never notice. */
static void rare_long(dz_request *req, dz_response *res)
{
    static _Atomic unsigned n;
    (void)req;
    dz_sleep(2);
    if (n++ % 150 == 149)
        burn_cpu(130000);
    answer(res);
}

/* --- too few cores: many processes, or many rescued handlers --- */

static void burn_4ms(dz_request *req, dz_response *res)
{
    (void)req;
    burn_cpu(4000);
    answer(res);
}

/* --- memory growth --- */

static void leak(dz_request *req, dz_response *res)
{
    (void)req;
    dz_sleep(4);
    keep(60000);
    answer(res);
}

/* --- waiting for an outside service --- */

static void slow_upstream(dz_request *req, dz_response *res)
{
    (void)req;
    dz_sleep(120);
    answer(res);
}

static void two_waits(dz_request *req, dz_response *res)
{
    (void)req;
    dz_sleep(30);
    burn_cpu(1000);
    dz_sleep(30);
    answer(res);
}

/* --- overloaded: many requests, each cheap --- */

static void cheap(dz_request *req, dz_response *res)
{
    (void)req;
    burn_cpu(700);
    answer(res);
}

static const struct {
    const char *name;
    dz_handler *handler;
} cases[] = {
    {"hello", hello},
    {"quick_wait", quick_wait},
    {"rescued", rescued},
    {"bounded_cache", bounded_cache},
    {"burn", burn},
    {"one_in_five", one_in_five},
    {"sync_call", sync_call},
    {"rare_long", rare_long},
    {"burn_4ms", burn_4ms},
    {"leak", leak},
    {"slow_upstream", slow_upstream},
    {"two_waits", two_waits},
    {"cheap", cheap},
};

static int start(dz_app *app, void *data)
{
    (void)data;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(cases[i].name, name) == 0)
            return dz_get(app, "/", cases[i].handler) ? 0 : DZ_E_NOMEM;
    fprintf(stderr, "service: there is no case '%s'\n", name);
    return DZ_E_NOT_FOUND;
}

int main(int argc, char **argv)
{
    dz_app *app = dz_app_new();
    if (app) {
        dz_app_option(app, "case", "NAME", "which server to be", &name);
        dz_on_start(app, start);
    }
    return dz_run(app, argc, argv);
}
