/* The three ways to end a pool: closing waits, with a limit; destroying does not. */
#include "both.h"

#include <errno.h>

static void closing_cancels_what_does_not_end_in_time(void **state)
{
    (void)state;
    open_pool((dz_pool_options){0});
    caller running = {0}, queued = {0};
    begin(&running, "gate");
    wait_until(atomic_load(&shared->running) == 1);
    begin(&queued, "gate");
    dz_pool_stats stats;
    wait_until((dz_pool_get_stats(pool, &stats), stats.queued == 1));
    dz_pool_close(pool, 20 * DZ_MS);
    expect(&running, DZ_E_CANCELLED);
    expect(&queued, DZ_E_CANCELLED);
    stop_loop();
}

static void closing_lets_tasks_end_that_run_and_that_wait(void **state)
{
    (void)state;
    open_pool((dz_pool_options){0});
    caller running = {0}, queued = {.text = "late"};
    begin(&running, "gate");
    wait_until(atomic_load(&shared->running) == 1);
    begin(&queued, "upper");
    dz_pool_stats stats;
    wait_until((dz_pool_get_stats(pool, &stats), stats.queued == 1));
    atomic_store(&shared->gate, 1);
    dz_pool_close(pool, 60 * DZ_SEC);
    expect(&running, 0);
    expect(&queued, 0);
    assert_string_equal(queued.output, "LATE");
    stop_loop();
}

/* Whether the process, which the pool made, is gone, and not even a zombie. */
static bool is_gone(int pid)
{
    return kill(pid, 0) < 0 && errno == ESRCH;
}

static void destroying_ends_what_runs_and_what_waits(void **state)
{
    (void)state;
    enum { RUNNING = 2, QUEUED = 5 };
    open_pool((dz_pool_options){.max_workers = RUNNING});
    caller callers[RUNNING + QUEUED] = {0};
    for (int i = 0; i < RUNNING; i++)
        begin(&callers[i], "gate");
    wait_until(atomic_load(&shared->running) == RUNNING);
    for (int i = RUNNING; i < RUNNING + QUEUED; i++)
        begin(&callers[i], i % 2 ? "gate" : "upper");
    dz_pool_stats stats;
    wait_until((dz_pool_get_stats(pool, &stats), stats.queued == QUEUED));
    dz_pool_destroy(pool);
    for (int i = 0; i < RUNNING + QUEUED; i++)
        expect(&callers[i], DZ_E_CANCELLED);
    assert_int_equal(atomic_load(&shared->running), RUNNING); /* none of the others began */
    assert_int_equal(atomic_load(&shared->finished), 0);
    for (int i = 0; i < RUNNING && isolation == DZ_PROCESSES; i++)
        assert_true(is_gone(atomic_load(&shared->pids[i])));
    stop_loop();
}

/* Those that rest are ended, too, and those that never ran anything do no harm. */
static void destroying_a_pool_at_rest_ends_its_workers(void **state)
{
    (void)state;
    open_pool((dz_pool_options){.max_workers = 2});
    dz_pool_destroy(pool);
    stop_loop();
    open_pool((dz_pool_options){.max_workers = 2});
    caller one = {0};
    atomic_store(&shared->gate, 1);
    begin(&one, "gate");
    expect(&one, 0);
    dz_pool_destroy(pool);
    if (isolation == DZ_PROCESSES)
        assert_true(is_gone(atomic_load(&shared->pids[0])));
    stop_loop();
    dz_pool_destroy(NULL);
    dz_pool_close(NULL, 0);
}

/* A handler that reads messages, and one that goes on only when the pool is no more. */
typedef struct keeper {
    handler handler;
    _Atomic bool done, go_on;
    int started, next, result;
} keeper;

static void keep_work(void *arg)
{
    keeper *self = arg;
    dz_buf message;
    dz_work *work;
    self->started = dz_pool_start(pool, "gate", NULL, NULL, &work);
    if (self->started < 0)
        return;
    self->next = dz_work_next(work, &message); /* parked here when the pool goes */
    atomic_store(&self->done, true);
    while (!atomic_load(&self->go_on))
        (void)dz_fiber_sleep(dz_now() + DZ_MS);
    dz_work_cancel(work); /* nothing is left to cancel, nor a pool */
    self->result = dz_work_finish(work, NULL);
}

static void works_outlive_the_pool_until_they_are_finished(void **state)
{
    (void)state;
    open_pool((dz_pool_options){0});
    static keeper one;
    one = (keeper){.next = -1};
    begin_handler(&one.handler, keep_work, &one);
    wait_until(atomic_load(&shared->running) == 1);
    dz_pool_destroy(pool);
    wait_until(atomic_load(&one.done));
    atomic_store(&one.go_on, true);
    wait_until(atomic_load(&one.handler.done));
    assert_int_equal(one.started, 0);
    assert_int_equal(one.next, 0);
    assert_int_equal(one.result, DZ_E_CANCELLED);
    stop_loop();
}

static void do_nothing(void *arg)
{
    (void)arg;
}

/* Destroying meets tasks at whatever stage they are; what ended before keeps its result. */
static void destroying_gives_each_caller_one_completion(void **state)
{
    (void)state;
    static caller callers[60];
    for (int round = 0; round < 10; round++) {
        open_pool((dz_pool_options){.max_workers = 3});
        memset(callers, 0, sizeof callers);
        for (int i = 0; i < 60; i++) {
            memcpy(callers[i].text, "ab", 3);
            begin(&callers[i], i % 4 == 3 ? "gate" : "upper");
        }
        run_handler_to_end(do_nothing, NULL); /* they were begun before it: all have asked */
        for (volatile int pause = 0; pause < round * 20000; pause = pause + 1)
            ;
        dz_pool_destroy(pool);
        for (int i = 0; i < 60; i++) {
            wait_until(atomic_load(&callers[i].handler.done));
            assert_int_equal(atomic_load(&callers[i].completions), 1);
            if (callers[i].result == 0)
                assert_string_equal(callers[i].output, "AB");
            else
                assert_int_equal(callers[i].result, DZ_E_CANCELLED);
        }
        assert_int_equal(atomic_load(&shared->finished), 0);
        stop_loop();
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closing_lets_tasks_end_that_run_and_that_wait),
        cmocka_unit_test(closing_cancels_what_does_not_end_in_time),
        cmocka_unit_test(destroying_ends_what_runs_and_what_waits),
        cmocka_unit_test(destroying_a_pool_at_rest_ends_its_workers),
        cmocka_unit_test(works_outlive_the_pool_until_they_are_finished),
        cmocka_unit_test(destroying_gives_each_caller_one_completion),
    };
    RUN_BOTH(tests);
}
