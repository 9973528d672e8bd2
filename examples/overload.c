/* overload: a route that costs CPU time, and what keeps it answering when too much is asked of it
 * (docs/shed.md).
 *
 *   /work     computes for --burn-us of CPU time
 *   /report   the same, but the first to be refused
 *   /livez    never refused: is the process alive?
 *   /readyz   never refused: should it get requests? 503 while it refuses
 *
 * Protected by default; --shed off shows what happens without. */
#include <donmaz.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const char *burn_us = "5000";
static uint64_t burn_ns;

static uint64_t thread_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void work(dz_request *req, dz_response *res)
{
    (void)req;
    uint64_t until = thread_cpu_ns() + burn_ns;
    volatile uint32_t x = 1;
    do {
        for (int i = 0; i < 1000; i++)
            x = x * 1664525 + 1013904223;
    } while (thread_cpu_ns() < until);
    dz_send_json(res, 200, "{\"worked\":true}\n");
}

static int start(dz_app *app, void *data)
{
    (void)app, (void)data;
    char *end;
    burn_ns = strtoull(burn_us, &end, 10) * 1000;
    if (end == burn_us || *end != '\0' || burn_ns > UINT64_C(10000000000)) {
        fprintf(stderr, "overload: --burn-us is a number of microseconds, at most 10000000\n");
        return DZ_E_INVALID;
    }
    return 0;
}

int main(int argc, char **argv)
{
    dz_app *app = dz_app_new();
    dz_get(app, "/work", work);
    dz_shed_priority(dz_get(app, "/report", work), DZ_SHED_LOW);
    if (app) {
        dz_health_routes(app, "/livez", "/readyz");
        dz_app_set(app, "shed", "adaptive");
        dz_app_option(app, "burn-us", "N", "CPU time of a request in microseconds (5000)",
                      &burn_us);
        dz_on_start(app, start);
    }
    return dz_run(app, argc, argv);
}
