/* What handing a trivial task to the pool and back costs, against the least two threads need to
 * wake each other in turn: a bare futex ping-pong in the same run, interleaved.
 *   bench-pool [TRIPS]   default 20000 */
#include "pingpong.h"

#include "base/clock.h"
#include "loop/runtime.h"

#include <donmaz/pool.h>

#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 3, FIBERS = 64, MOST_TRIPS = 1000000 };

static size_t trips = 20000;
static uint64_t *times;

/* --- the pool --- */

static dz_runtime *runtime;
static dz_pool *pool;
static _Atomic unsigned running;
static bool record;

static int nothing(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task;
    (void)in;
    (void)out;
    return 0;
}

static void make_trips(dz_fiber *fiber)
{
    size_t count = record ? trips : trips / FIBERS;
    (void)fiber;
    for (size_t i = 0; i < count; i++) {
        uint64_t start = dz_now();
        if (dz_pool_run(pool, "nothing", NULL, NULL) < 0)
            abort();
        if (record)
            times[i] = dz_now() - start;
    }
}

static void done(dz_loop *loop, dz_fiber *fiber)
{
    (void)loop;
    dz_fiber_free(fiber);
    atomic_fetch_sub(&running, 1);
}

static void start_fibers(dz_loop *loop, dz_msg *msg)
{
    (void)msg;
    unsigned count = record ? 1 : FIBERS;
    for (unsigned i = 0; i < count; i++) {
        dz_fiber *fiber = dz_fiber_new(loop);
        if (!fiber)
            abort();
        fiber->entry = make_trips;
        fiber->done = done;
        fiber->label = "bench";
        dz_fiber_ready(fiber);
    }
}

static double run_fibers(bool one)
{
    static dz_msg msg = {.fn = start_fibers};
    record = one;
    atomic_store(&running, one ? 1 : FIBERS);
    uint64_t start = dz_now();
    dz_loop_post(&runtime->loops[0], &msg);
    while (atomic_load(&running) > 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return (double)(dz_now() - start) / 1e9;
}

static void stop(dz_loop *loop, dz_msg *msg)
{
    (void)msg;
    dz_loop_stop(loop);
}

static void measure(const char *name, dz_isolation isolation)
{
    int error;
    dz_pool_options options;
    dz_pool_options_init(&options);
    options.isolation = isolation;
    options.max_workers = options.min_workers = 1;
    pool = dz_pool_new(&options);
    const dz_runtime_options loops = {.loops = 1, .stack_size = 64 << 10};
    runtime = dz_runtime_new(&loops, &error);
    if (!pool || !runtime || dz_pool_add_task(pool, "nothing", nothing) < 0 ||
        dz_runtime_start(runtime) < 0)
        exit(1);
    for (int round = 0; round < ROUNDS; round++) {
        double futex = bench_futex_us(times, trips, NULL);
        run_fibers(true);
        double trip = bench_median_us(times, trips);
        double took = run_fibers(false);
        printf("%-9s futex p50 %6.2f us   task p50 %6.2f us (%.2f x)   %8.0f tasks/s\n", name,
               futex, trip, trip / futex, (double)(trips - trips % FIBERS) / took);
    }
    dz_pool_free(pool);
    dz_msg msg = {.fn = stop};
    dz_loop_post(&runtime->loops[0], &msg);
    dz_runtime_join(runtime, dz_now() + 10 * DZ_SEC);
    dz_runtime_free(runtime);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        trips = strtoul(argv[1], NULL, 10);
    if (trips < FIBERS || trips > MOST_TRIPS) {
        fprintf(stderr, "usage: bench-pool [TRIPS], %d to %d\n", FIBERS, MOST_TRIPS);
        return 2;
    }
    times = calloc(trips, sizeof times[0]);
    if (!times)
        return 1;
    measure("threads", DZ_THREADS);
    measure("processes", DZ_PROCESSES);
    free(times);
    return 0;
}
