/* fib: a light route and a heavy one on the same loop (docs/concurrency.md).
 *
 *   /fast    fibonacci(30): a few milliseconds
 *   /slow    fibonacci(37): a few hundred
 *   /health  nothing to compute
 *
 * --work burn spends the same CPU time per request on every machine instead (6 ms and 200 ms), for
 * comparing mechanisms and not languages. --mode tells what keeps /fast answering while /slow
 * computes: nothing (plain), a declaration (workers), or donmaz itself (rescue, the default). */
#include <donmaz.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { FAST_N = 30, SLOW_N = 37, FAST_MS = 6, SLOW_MS = 200 };

static const char *mode = "rescue", *work = "fib";

/* noinline and a plain recursion: the compiler must not find the closed form. */
__attribute__((noinline)) static uint64_t fib(unsigned n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

static uint64_t thread_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t burn(uint64_t ms)
{
    uint64_t until = thread_cpu_ns() + ms * 1000000, rounds = 0;
    while (thread_cpu_ns() < until)
        rounds += fib(12);
    return rounds;
}

static void compute(dz_response *res, unsigned n, uint64_t ms)
{
    uint64_t value = strcmp(work, "burn") == 0 ? (burn(ms), ms) : fib(n);
    dz_send_json(res, 200, "{\"value\":%llu}", (unsigned long long)value);
}

static void fast(dz_request *req, dz_response *res)
{
    (void)req;
    compute(res, FAST_N, FAST_MS);
}

static void slow(dz_request *req, dz_response *res)
{
    (void)req;
    compute(res, SLOW_N, SLOW_MS);
}

static void health(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_json(res, 200, "{\"ok\":true}");
}

static bool is(const char *text, const char *word)
{
    return strcmp(text, word) == 0;
}

/* Before the sockets open: the options are known. */
static int start(dz_app *app, void *data)
{
    dz_route *slow_route = data;
    if (!is(work, "fib") && !is(work, "burn")) {
        fprintf(stderr, "fib: --work is fib or burn\n");
        return DZ_E_INVALID;
    }
    if (is(mode, "rescue"))
        return 0;
    if (!is(mode, "plain") && !is(mode, "workers")) {
        fprintf(stderr, "fib: --mode is plain, workers or rescue\n");
        return DZ_E_INVALID;
    }
    if (is(mode, "workers"))
        dz_blocking(slow_route);
    return dz_app_set(app, "rescue-after", "0");
}

int main(int argc, char **argv)
{
    dz_app *app = dz_app_new();
    dz_get(app, "/fast", fast);
    dz_route *slow_route = dz_get(app, "/slow", slow);
    dz_get(app, "/health", health);
    if (app) {
        dz_app_set_data(app, slow_route);
        dz_app_option(app, "mode", "NAME", "plain, workers or rescue (rescue)", &mode);
        dz_app_option(app, "work", "NAME", "fib or burn (fib)", &work);
        dz_on_start(app, start);
    }
    return dz_run(app, argc, argv);
}
