#include "base/clock.h"
#include "pool/pool.h"

static uint64_t read_counter(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit((_Atomic uint64_t *)(uintptr_t)counter, memory_order_relaxed);
}

static void read_stats(dz_pool *pool, dz_pool_stats *stats)
{
    *stats = (dz_pool_stats){
        .workers = pool->workers,
        .idle = pool->idle,
        .queued = pool->queued,
        .needs_drain = pool->full,
        .max_workers = pool->options.max_workers,
        .completed = read_counter(&pool->completed),
        .failed = read_counter(&pool->failed),
        .cancelled = read_counter(&pool->cancelled),
        .timed_out = read_counter(&pool->timed_out),
        .crashed = read_counter(&pool->crashed),
        .refused = read_counter(&pool->refused),
        .busy_ns = read_counter(&pool->busy_ns),
    };
}

void dz_pool_get_stats(dz_pool *pool, dz_pool_stats *stats)
{
    pthread_mutex_lock(&pool->lock);
    read_stats(pool, stats);
    uint64_t now = dz_now(), busy = stats->busy_ns - pool->window_busy;
    double possible = (double)(now - pool->window_start) * pool->options.max_workers;
    stats->utilisation = possible > 0 ? (double)busy / possible : 0;
    if (stats->utilisation > 1)
        stats->utilisation = 1; /* a task counts when it ends, for all its time */
    pool->window_start = now;
    pool->window_busy = stats->busy_ns;
    pthread_mutex_unlock(&pool->lock);
}

/* --- for the registry: one function a number --- */

#define READER(name, expression)                                                                   \
    static double name(void *data)                                                                 \
    {                                                                                              \
        dz_pool *pool = data;                                                                      \
        dz_pool_stats stats;                                                                       \
        pthread_mutex_lock(&pool->lock);                                                           \
        read_stats(pool, &stats);                                                                  \
        pthread_mutex_unlock(&pool->lock);                                                         \
        return (double)(expression);                                                               \
    }
READER(read_workers, stats.workers)
READER(read_running, stats.workers - stats.idle)
READER(read_queued, stats.queued)
READER(read_limit, stats.max_workers)
READER(read_busy, (double)stats.busy_ns / (double)DZ_SEC)
READER(read_completed, stats.completed)
READER(read_failed, stats.failed)
READER(read_cancelled, stats.cancelled)
READER(read_timed_out, stats.timed_out)
READER(read_crashed, stats.crashed)
READER(read_refused, stats.refused)
#undef READER

typedef struct series {
    const char *name, *help, *result; /* result: a second label, or NULL */
    dz_metric_fn read;
    bool counter;
} series;

#define TASKS      "donmaz_pool_tasks_total"
#define TASKS_HELP "Tasks that ended, by how."

static const series all_series[] = {
    {"donmaz_pool_workers", "Workers there are.", NULL, read_workers, false},
    {"donmaz_pool_workers_max", "Workers there may be.", NULL, read_limit, false},
    {"donmaz_pool_running", "Workers with a task.", NULL, read_running, false},
    {"donmaz_pool_queued", "Tasks that wait for a worker.", NULL, read_queued, false},
    {"donmaz_pool_busy_seconds_total", "Time workers spent on tasks.", NULL, read_busy, true},
    {TASKS, TASKS_HELP, "completed", read_completed, true},
    {TASKS, TASKS_HELP, "failed", read_failed, true},
    {TASKS, TASKS_HELP, "cancelled", read_cancelled, true},
    {TASKS, TASKS_HELP, "timed_out", read_timed_out, true},
    {TASKS, TASKS_HELP, "crashed", read_crashed, true},
    {TASKS, TASKS_HELP, "refused", read_refused, true},
};

int dz_pool_register_metrics(dz_pool *pool, dz_metrics *metrics, const char *name)
{
    int rc = 0;
    for (size_t i = 0; i < sizeof all_series / sizeof all_series[0] && rc == 0; i++) {
        const series *one = &all_series[i];
        const dz_label labels[] = {{"pool", name}, {"result", one->result}};
        const dz_metric metric = {one->name, one->help, labels, one->result ? 2 : 1};
        rc = one->counter ? dz_metrics_counter_fn(metrics, &metric, one->read, pool)
                          : dz_metrics_gauge_fn(metrics, &metric, one->read, pool);
    }
    const dz_label label = {"pool", name};
    const dz_metric wait = {"donmaz_pool_wait_seconds", "Time tasks waited for a worker.", &label,
                            1};
    const dz_metric run = {"donmaz_pool_run_seconds", "Time tasks ran.", &label, 1};
    if (rc == 0)
        rc = dz_metrics_histogram(metrics, &wait, pool->wait_ns, 1e-9, NULL, 0);
    if (rc == 0)
        rc = dz_metrics_histogram(metrics, &run, pool->run_ns, 1e-9, NULL, 0);
    return rc;
}
