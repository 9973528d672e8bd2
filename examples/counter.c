/* counter: why shared memory needs atomic operations. Four workers add a million each to one
 * number.
 *
 *   GET /plain    load, add, store: what two workers do at a time is counted once
 *   GET /atomic   atomic additions: 4,000,000, always
 *   {"kind":"plain","expected":4000000,"counted":2063770}
 *
 * --pool threads|processes: the number lies in memory that both see. */
#include <donmaz.h>

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

enum { WORKERS = 4, ADDITIONS = 1000000 };
static const char *isolation = "threads";

static dz_pool *pool;
static struct board {
    _Atomic uint64_t counter;
    _Atomic unsigned arrived;
} * board;

/* So that all add at the same time. */
static void wait_for_the_others(dz_task *task)
{
    atomic_fetch_add(&board->arrived, 1);
    while (atomic_load(&board->arrived) < WORKERS && !dz_task_cancelled(task))
        sched_yield();
}

/* What `counter++` is without atomic operations, written so that the compiler can't merge the
 * additions into one. */
static int add_plainly(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)in, (void)out;
    wait_for_the_others(task);
    for (int i = 0; i < ADDITIONS; i++) {
        uint64_t value = atomic_load_explicit(&board->counter, memory_order_relaxed);
        atomic_store_explicit(&board->counter, value + 1, memory_order_relaxed);
    }
    return 0;
}

static int add_atomically(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)in, (void)out;
    wait_for_the_others(task);
    for (int i = 0; i < ADDITIONS; i++)
        atomic_fetch_add_explicit(&board->counter, 1, memory_order_relaxed);
    return 0;
}

/* Starts the task on all workers, then waits for each. */
static int run_on_all(const char *kind)
{
    dz_work *works[WORKERS] = {0};
    int rc = 0;
    for (int i = 0; i < WORKERS && rc == 0; i++)
        rc = dz_pool_start(pool, kind, NULL, NULL, &works[i]);
    for (int i = 0; i < WORKERS; i++) {
        if (!works[i])
            continue;
        if (rc < 0)
            dz_work_cancel(works[i]); /* it would wait for those that could not start */
        int one = dz_work_finish(works[i], NULL);
        rc = rc < 0 ? rc : one;
    }
    return rc;
}

static void count(dz_request *req, dz_response *res)
{
    static _Atomic bool busy;
    const char *kind = dz_req_pattern(req) + 1;
    if (atomic_exchange(&busy, true)) {
        dz_res_header(res, "Retry-After", "1");
        dz_send_text(res, 503, "the workers count for somebody else");
        return;
    }
    atomic_store(&board->counter, 0);
    atomic_store(&board->arrived, 0);
    int rc = run_on_all(kind);
    unsigned long long counted = atomic_load(&board->counter);
    atomic_store(&busy, false);
    if (rc < 0)
        dz_send_error(res, 503, rc);
    else
        dz_send_json(res, 200, "{\"kind\":\"%s\",\"expected\":%d,\"counted\":%llu}", kind,
                     WORKERS * ADDITIONS, counted);
}

static void stop(dz_app *app, void *data)
{
    (void)app, (void)data;
    dz_pool_destroy(pool);
    dz_shared_free(board, sizeof *board);
}

static int start(dz_app *app, void *data)
{
    dz_pool_options options;
    dz_pool_options_init(&options);
    options.max_workers = WORKERS; /* all at a time, on however few cores */
    options.isolation = strcmp(isolation, "processes") == 0 ? DZ_PROCESSES : DZ_THREADS;
    if (options.isolation == DZ_THREADS && strcmp(isolation, "threads") != 0) {
        fprintf(stderr, "counter: --pool is threads or processes, not '%s'\n", isolation);
        return DZ_E_INVALID;
    }
    board =
        dz_shared_new(sizeof *board); /* before the pool: its processes are copies of this one */
    pool = board ? dz_pool_new(&options) : NULL;
    int rc = pool ? dz_pool_add_task(pool, "plain", add_plainly) : -errno;
    if (!pool)
        fprintf(stderr, "counter: --pool %s can't be had: %s; see docs/pool.md\n", isolation,
                dz_strerror(rc));
    if (rc == 0)
        rc = dz_pool_add_task(pool, "atomic", add_atomically);
    if (rc < 0)
        stop(app, data);
    return rc;
}

int main(int argc, char **argv)
{
    dz_app *app = dz_app_new();
    if (!app)
        return 1;
    dz_app_option(app, "pool", "KIND", "threads or processes (threads)", &isolation);
    dz_on_start(app, start);
    dz_on_stop(app, stop);
    dz_get(app, "/plain", count);
    dz_get(app, "/atomic", count);
    return dz_run(app, argc, argv);
}
