/* GET /parts/dispatch: the round trip of one trivial task at a time, what a bare futex needs for
 * the same between the same cores, and trivial tasks a second with 500 under way. The futex and the
 * tasks take turns. */
#include "reference.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TRIPS = 4000, ROUNDS = 5, AT_ONCE = 500, TASKS = 50000 };

static uint64_t times[TRIPS];

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double median_us(uint64_t *list, size_t count)
{
    qsort(list, count, sizeof list[0], compare);
    uint64_t middle = list[count / 2];
    return (double)middle / 1e3;
}

/* --- the least two threads need --- */

static _Atomic uint32_t ball;

static void wait_while(uint32_t value)
{
    while (atomic_load(&ball) == value)
        syscall(SYS_futex, &ball, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void hit(uint32_t value)
{
    atomic_store(&ball, value);
    syscall(SYS_futex, &ball, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void pin(size_t core)
{
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(core, &cpus);
    if (reference_state.two_cores)
        (void)sched_setaffinity(0, sizeof cpus, &cpus);
}

static void *pong(void *arg)
{
    pin(1);
    for (size_t i = 0; i < TRIPS; i++) {
        wait_while(0);
        hit(0);
    }
    return arg;
}

static double measure_futex(void)
{
    pthread_t thread;
    atomic_store(&ball, 0);
    if (pthread_create(&thread, NULL, pong, NULL) != 0)
        return 0;
    for (size_t i = 0; i < TRIPS; i++) {
        uint64_t start = dz_now();
        hit(1);
        wait_while(1);
        times[i] = dz_now() - start;
    }
    pthread_join(thread, NULL);
    return median_us(times, TRIPS);
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
    return median_us(times, TRIPS);
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
        futex[i] = (uint64_t)(measure_futex() * 1e3);
        trip[i] = (uint64_t)(measure_trips(pool) * 1e3);
        double rate = measure_throughput(pool);
        most = rate > most ? rate : most;
    }
    dz_send_json(res, 200,
                 "{\"round_trip_p50_us\":%.3f,\"futex_p50_us\":%.3f,\"tasks_per_second\":%.0f}",
                 median_us(trip, ROUNDS), median_us(futex, ROUNDS), most);
}
