/* What the options say of workers: priority, renewal; and what is told of their time. */
#include "both.h"

#include <sys/resource.h>
#include <sys/syscall.h>

static int task_nice(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task, (void)in, (void)out;
    return getpriority(PRIO_PROCESS, 0) + 100; /* of the thread that asks */
}

/* Which worker it is: the process, or the thread (whose number may be used again, so counted). */
static int task_who(dz_task *task, dz_buf *in, dz_buf *out)
{
    static _Thread_local int mine;
    (void)task, (void)in, (void)out;
    if (mine == 0)
        mine = atomic_fetch_add(&shared->counter, 1) + 1;
    return mine;
}

static void open_with(dz_pool_options options)
{
    open_pool(options);
    assert_int_equal(dz_pool_add_task(pool, "nice", task_nice), 0);
    assert_int_equal(dz_pool_add_task(pool, "who", task_who), 0);
}

static int result_of(const char *task)
{
    caller one = {0};
    begin(&one, task);
    wait_until(atomic_load(&one.handler.done));
    assert_int_equal(atomic_load(&one.completions), 1);
    return one.result;
}

static void workers_are_as_nice_as_they_should_be(void **state)
{
    (void)state;
    int own = getpriority(PRIO_PROCESS, 0) + 100;
    open_with((dz_pool_options){0});
    assert_int_equal(result_of("nice"), own);
    close_pool();
    open_with((dz_pool_options){.nice = 3});
    assert_int_equal(result_of("nice"), own + 3 > 119 ? 119 : own + 3);
    assert_int_equal(getpriority(PRIO_PROCESS, 0) + 100, own);
    close_pool();
}

static void a_worker_is_renewed_after_so_many_tasks(void **state)
{
    (void)state;
    open_with((dz_pool_options){.recycle_tasks = 3});
    for (int i = 0; i < 9; i++)
        assert_int_equal(result_of("who"), i / 3 + 1);
    close_pool();
    open_with((dz_pool_options){0});
    for (int i = 0; i < 9; i++)
        assert_int_equal(result_of("who"), 1);
    close_pool();
}

/* The last task of a worker that goes may be followed by others that wait for it. */
static void renewal_keeps_nobody_waiting(void **state)
{
    (void)state;
    open_with((dz_pool_options){.recycle_tasks = 1, .max_workers = 2, .min_workers = 1});
    static caller callers[50];
    memset(callers, 0, sizeof callers);
    for (int i = 0; i < 50; i++)
        begin(&callers[i], "who");
    for (int i = 0; i < 50; i++) {
        wait_until(atomic_load(&callers[i].handler.done));
        assert_in_range(callers[i].result, 1, 50);
        for (int k = 0; k < i; k++)
            assert_int_not_equal(callers[k].result, callers[i].result);
    }
    dz_pool_stats stats; /* one is kept, although the last has gone */
    wait_until((dz_pool_get_stats(pool, &stats), stats.idle >= 1 && stats.idle == stats.workers));
    close_pool();
}

/* A task counts while it runs, not only when it has ended. */
static void a_running_task_shows_in_the_utilisation(void **state)
{
    (void)state;
    open_pool((dz_pool_options){.max_workers = 2});
    dz_pool_stats before, after;
    dz_pool_get_stats(pool, &before);
    assert_int_equal(before.busy_ns, 0);
    caller one = {0};
    begin(&one, "gate");
    wait_until(atomic_load(&shared->running) == 1);
    dz_pool_get_stats(pool, &before);
    uint64_t begun = dz_now();
    wait_until(dz_now() - begun > 20 * DZ_MS);
    dz_pool_get_stats(pool, &after);
    /* One of two workers all the time: a half, but for the moment the clock is read. */
    assert_true(after.busy_ns - before.busy_ns >= 20 * DZ_MS);
    assert_true(after.utilisation > 0.49 && after.utilisation < 0.51);
    atomic_store(&shared->gate, 1);
    expect(&one, 0);
    wait_until((dz_pool_get_stats(pool, &after), after.idle == 1));
    dz_pool_get_stats(pool, &before);
    begun = dz_now();
    wait_until(dz_now() - begun > 2 * DZ_MS);
    dz_pool_get_stats(pool, &after);
    assert_int_equal(after.busy_ns, before.busy_ns);
    assert_true(after.utilisation == 0);
    close_pool();
}

static double gauge(dz_metrics *metrics, const char *line)
{
    dz_buf text = {0};
    assert_int_equal(dz_metrics_write(metrics, &text), 0);
    assert_int_equal(dz_buf_append(&text, dz_slice_make("", 1)), 0);
    char *at = strstr(text.data, line);
    assert_non_null(at);
    double value = strtod(at + strlen(line), NULL);
    dz_buf_release(&text);
    return value;
}

static void metrics_tell_of_workers_and_tasks(void **state)
{
    (void)state;
    open_pool((dz_pool_options){.max_workers = 1});
    dz_metrics *metrics = dz_metrics_new();
    assert_non_null(metrics);
    assert_int_equal(dz_pool_register_metrics(pool, metrics, "p"), 0);
    assert_int_equal(dz_pool_register_metrics(pool, metrics, "p"), DZ_E_EXISTS);
    caller running = {0}, queued = {.options.queue_timeout_ns = DZ_MS}, failing = {0};
    begin(&running, "gate");
    wait_until(atomic_load(&shared->running) == 1);
    assert_true(gauge(metrics, "donmaz_pool_running{pool=\"p\"} ") == 1);
    assert_true(gauge(metrics, "donmaz_pool_utilisation_ratio{pool=\"p\"} ") > 0);
    begin(&queued, "upper");
    expect(&queued, DZ_E_EXPIRED);
    begin(&failing, "error");
    wait_until(gauge(metrics, "donmaz_pool_queued{pool=\"p\"} ") == 1);
    atomic_store(&shared->gate, 1);
    expect(&running, 0);
    expect(&failing, DZ_E_FORMAT);
    wait_until(gauge(metrics, "donmaz_pool_running{pool=\"p\"} ") == 0);
    static const char tasks[] = "donmaz_pool_tasks_total{pool=\"p\",result=\"%s\"} ";
    static const struct {
        const char *result;
        int count;
    } expected[] = {{"completed", 1}, {"failed", 1},  {"expired", 1}, {"timed_out", 0},
                    {"cancelled", 0}, {"crashed", 0}, {"refused", 0}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        char line[128];
        snprintf(line, sizeof line, tasks, expected[i].result);
        assert_true(gauge(metrics, line) == expected[i].count);
    }
    assert_true(gauge(metrics, "donmaz_pool_wait_seconds_count{pool=\"p\"} ") == 2);
    assert_true(gauge(metrics, "donmaz_pool_run_seconds_count{pool=\"p\"} ") == 2);
    assert_true(gauge(metrics, "donmaz_pool_busy_seconds_total{pool=\"p\"} ") > 0);
    dz_metrics_free(metrics);
    close_pool();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_are_as_nice_as_they_should_be),
        cmocka_unit_test(a_worker_is_renewed_after_so_many_tasks),
        cmocka_unit_test(renewal_keeps_nobody_waiting),
        cmocka_unit_test(a_running_task_shows_in_the_utilisation),
        cmocka_unit_test(metrics_tell_of_workers_and_tasks),
    };
    RUN_BOTH(tests);
}
