/* GET /parts/dispatch: the round trip of one trivial task at a time, what a bare futex needs for
 * the same between the same cores, and trivial tasks a second with 500 under way. The futex and the
 * tasks take turns. */
#include "reference.h"

#include "../pingpong.h"

#include <sched.h>

enum { TRIPS = 4000, ROUNDS = 5, AT_ONCE = 500, TASKS = 50000 };

static uint64_t times[TRIPS];

static void pin(size_t core)
{
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(core, &cpus);
    if (reference_state.two_cores)
        (void)sched_setaffinity(0, sizeof cpus, &cpus);
}

static void pin_to_second(void)
{
    pin(1);
}

/* --- the pool --- */

static double measure_trips(dz_pool *pool)
{
    for (size_t i = 0; i < TRIPS; i++) {
        uint64_t start = dz_now();
        if (dz_pool_run(pool, "nothing", NULL, NULL) < 0)
            return 0;
        times[i] = dz_now() - start;
    }
    return bench_median_us(times, TRIPS);
}

static double measure_throughput(dz_pool *pool)
{
    static dz_work *works[AT_ONCE];
    uint64_t start = dz_now();
    for (size_t sent = 0; sent < TASKS; sent += AT_ONCE) {
        for (size_t i = 0; i < AT_ONCE; i++)
            if (dz_pool_start(pool, "nothing", NULL, NULL, &works[i]) < 0)
                return 0;
        for (size_t i = 0; i < AT_ONCE; i++)
            dz_work_finish(works[i], NULL);
    }
    return TASKS / ((double)(dz_now() - start) / 1e9);
}

void reference_dispatch(dz_request *req, dz_response *res)
{
    (void)req;
    dz_pool *pool = reference_state.warm;
    pin(0);
    if (dz_pool_run(pool, reference_state.two_cores ? "pin" : "nothing", NULL, NULL) < 0) {
        dz_send_error(res, 500, DZ_E_STATE);
        return;
    }
    /* The median of the rounds' medians. */
    uint64_t trip[ROUNDS], futex[ROUNDS];
    double most = 0;
    for (int i = 0; i < ROUNDS; i++) {
        futex[i] = (uint64_t)(bench_futex_us(times, TRIPS, pin_to_second) * 1e3);
        trip[i] = (uint64_t)(measure_trips(pool) * 1e3);
        double rate = measure_throughput(pool);
        most = rate > most ? rate : most;
    }
    dz_send_json(res, 200,
                 "{\"round_trip_p50_us\":%.3f,\"futex_p50_us\":%.3f,\"tasks_per_second\":%.0f}",
                 bench_median_us(trip, ROUNDS), bench_median_us(futex, ROUNDS), most);
}
