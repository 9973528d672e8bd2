#include "base/clock.h"
#include "pool/worker.h"

static const uint64_t UTILISATION_WINDOW_NS = 10 * DZ_SEC;

static uint64_t read_counter(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit((_Atomic uint64_t *)(uintptr_t)counter, memory_order_relaxed);
}

/* With the lock held. */
static void read_stats(dz_pool *pool, dz_pool_stats *stats, uint64_t now)
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
        .expired = read_counter(&pool->expired),
        .crashed = read_counter(&pool->crashed),
        .refused = read_counter(&pool->refused),
        .busy_ns = dz_pool_busy(pool, now),
    };
}

/* Of the time that all workers had, 0 to 1. */
static double share(const dz_pool *pool, uint64_t busy, uint64_t time)
{
    double possible = (double)time * pool->options.max_workers;
    double part = possible > 0 ? (double)busy / possible : 0;
    return part > 1 ? 1 : part; /* a worker may work while the one it replaces is on its way out */
}

void dz_pool_get_stats(dz_pool *pool, dz_pool_stats *stats)
{
    pthread_mutex_lock(&pool->lock);
    uint64_t now = dz_now();
    read_stats(pool, stats, now);
    stats->utilisation = share(pool, stats->busy_ns - pool->window_busy, now - pool->window_start);
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
        read_stats(pool, &stats, dz_now());                                                        \
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
READER(read_expired, stats.expired)
READER(read_crashed, stats.crashed)
READER(read_refused, stats.refused)
#undef READER

/* Since the reading before the last, if that was some time ago: so several who read often see about
 * the same, and one who reads seldom sees all that was in between. */
static double read_utilisation(void *data)
{
    dz_pool *pool = data;
    pthread_mutex_lock(&pool->lock);
    const dz_pool_window now = {dz_now(), 0};
    const uint64_t busy = dz_pool_busy(pool, now.at);
    if (now.at - pool->windows[0].at >= UTILISATION_WINDOW_NS) {
        pool->windows[1] = pool->windows[0];
        pool->windows[0] = (dz_pool_window){now.at, busy};
    }
    double part = share(pool, busy - pool->windows[1].busy_ns, now.at - pool->windows[1].at);
    pthread_mutex_unlock(&pool->lock);
    return part;
}

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
    {"donmaz_pool_utilisation_ratio", "Share of the workers' time spent on tasks, of late.", NULL,
     read_utilisation, false},
    {"donmaz_pool_busy_seconds_total", "Time workers spent on tasks.", NULL, read_busy, true},
    {TASKS, TASKS_HELP, "completed", read_completed, true},
    {TASKS, TASKS_HELP, "failed", read_failed, true},
    {TASKS, TASKS_HELP, "cancelled", read_cancelled, true},
    {TASKS, TASKS_HELP, "timed_out", read_timed_out, true},
    {TASKS, TASKS_HELP, "expired", read_expired, true},
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
