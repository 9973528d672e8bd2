#include "../loop/create.h"
#include "../loop/rig.h"
#include "pool/pool.h"

#include <signal.h>

static dz_runtime *runtime;

static int set_up(void **state)
{
    (void)state;
    runtime = rig_new((dz_runtime_options){.loops = 1});
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rig_free(runtime);
    return 0;
}

static dz_pool *make(unsigned max_workers, unsigned max_queue)
{
    dz_pool_options options;
    dz_pool_options_init(&options);
    options.max_workers = max_workers;
    options.max_queue = max_queue;
    dz_pool *pool = dz_pool_new(&options);
    assert_non_null(pool);
    return pool;
}

static unsigned workers_of(dz_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    unsigned workers = pool->workers;
    pthread_mutex_unlock(&pool->lock);
    return workers;
}

static unsigned idle_of(dz_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    unsigned idle = pool->idle;
    pthread_mutex_unlock(&pool->lock);
    return idle;
}

/* --- jobs --- */

enum { JOBS = 300 };

typedef struct numbered {
    dz_job job;
    int number;
} numbered;

static numbered jobs[JOBS];
static int order[JOBS];
static _Atomic int ran, running;
static _Atomic bool let_go;

static void note_order(dz_job *job)
{
    order[atomic_load(&ran)] = DZ_CONTAINER(job, numbered, job)->number;
    atomic_fetch_add(&ran, 1);
}

static void hold(dz_job *job)
{
    (void)job;
    atomic_fetch_add(&running, 1);
    while (!atomic_load(&let_go))
        usleep(200);
    atomic_fetch_sub(&running, 1);
    atomic_fetch_add(&ran, 1);
}

static void prepare(void (*run)(dz_job *))
{
    for (int i = 0; i < JOBS; i++)
        jobs[i] = (numbered){.job.run = run, .number = i};
    atomic_store(&ran, 0);
    atomic_store(&running, 0);
    atomic_store(&let_go, false);
}

static void one_worker_takes_jobs_first_in_first_out(void **state)
{
    (void)state;
    prepare(note_order);
    dz_pool *pool = make(1, JOBS);
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(dz_pool_submit(pool, &jobs[i].job), 0);
    dz_pool_free(pool); /* waits for queued work */
    assert_int_equal(atomic_load(&ran), JOBS);
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(order[i], i);
}

static void the_queue_is_bounded_and_workers_are_too(void **state)
{
    (void)state;
    prepare(hold);
    dz_pool *pool = make(2, 3);
    for (int i = 0; i < 5; i++) /* two run, three wait */
        assert_int_equal(dz_pool_submit(pool, &jobs[i].job), 0);
    wait_until(atomic_load(&running) == 2);
    assert_int_equal(dz_pool_submit(pool, &jobs[5].job), DZ_E_QUEUE_FULL);
    assert_int_equal(workers_of(pool), 2);
    assert_int_equal(atomic_load(&pool->refused), 1);
    atomic_store(&let_go, true);
    wait_until(atomic_load(&ran) == 5);
    wait_until(idle_of(pool) == 2);
    assert_int_equal(dz_pool_submit(pool, &jobs[5].job), 0);
    dz_pool_free(pool);
    assert_int_equal(atomic_load(&ran), 6);
}

static void a_burst_that_fits_is_taken_before_any_worker_is_up(void **state)
{
    (void)state;
    prepare(hold);
    dz_pool *pool = make(4, 0); /* nothing may wait, but four may run */
    for (int i = 0; i < 4; i++)
        assert_int_equal(dz_pool_submit(pool, &jobs[i].job), 0);
    assert_int_equal(dz_pool_submit(pool, &jobs[4].job), DZ_E_QUEUE_FULL);
    wait_until(atomic_load(&running) == 4);
    assert_int_equal(dz_pool_submit(pool, &jobs[4].job), DZ_E_QUEUE_FULL);
    atomic_store(&let_go, true);
    dz_pool_free(pool);
    assert_int_equal(atomic_load(&ran), 4);
}

static void a_pool_without_workers_is_given_one(void **state)
{
    (void)state;
    prepare(note_order);
    dz_pool *pool = make(0, 10);
    assert_int_equal(dz_pool_submit(pool, &jobs[0].job), 0);
    wait_until(atomic_load(&ran) == 1);
    dz_pool_free(pool);
}

static void idle_workers_end_down_to_the_minimum_and_come_back(void **state)
{
    (void)state;
    prepare(hold);
    dz_pool_options options;
    dz_pool_options_init(&options);
    options.min_workers = 1;
    options.max_workers = 3;
    options.idle_timeout_ns = 20 * DZ_MS;
    dz_pool *pool = dz_pool_new(&options);
    for (int round = 0; round < 3; round++) {
        prepare(hold);
        for (int i = 0; i < 3; i++)
            assert_int_equal(dz_pool_submit(pool, &jobs[i].job), 0);
        wait_until(atomic_load(&running) == 3);
        atomic_store(&let_go, true);
        wait_until(workers_of(pool) == 1);
    }
    dz_pool_free(pool);
    dz_pool_free(NULL);
}

/* --- needs drain, drain --- */

typedef struct pressure {
    _Atomic int calls;
    bool news[8];
    _Atomic unsigned queued; /* seen from the last call */
} pressure;

static void note_pressure(dz_pool *pool, bool needs_drain, void *data)
{
    pressure *seen = data;
    dz_pool_stats stats;
    dz_pool_get_stats(pool, &stats); /* which is allowed */
    atomic_store(&seen->queued, stats.queued);
    int call = atomic_load(&seen->calls);
    if (call < 8)
        seen->news[call] = needs_drain;
    atomic_store(&seen->calls, call + 1);
}

static void a_full_queue_is_told_and_so_is_an_empty_one_in_turns(void **state)
{
    (void)state;
    pressure seen = {0};
    prepare(hold);
    dz_pool *pool = make(1, 2);
    dz_pool_on_pressure(pool, note_pressure, &seen);
    for (int round = 0; round < 2; round++) {
        prepare(hold);
        assert_int_equal(dz_pool_submit(pool, &jobs[0].job), 0);
        wait_until(atomic_load(&running) == 1);
        assert_int_equal(dz_pool_submit(pool, &jobs[1].job), 0);
        assert_int_equal(atomic_load(&seen.calls), 2 * round); /* there is room yet */
        assert_int_equal(dz_pool_submit(pool, &jobs[2].job), 0);
        assert_int_equal(atomic_load(&seen.calls), 2 * round + 1);
        assert_true(seen.news[2 * round]);
        assert_int_equal(atomic_load(&seen.queued), 2);
        assert_int_equal(dz_pool_submit(pool, &jobs[3].job), DZ_E_QUEUE_FULL);
        assert_int_equal(atomic_load(&seen.calls), 2 * round + 1); /* it is known */
        atomic_store(&let_go, true);
        wait_until(atomic_load(&seen.calls) == 2 * round + 2);
        assert_false(seen.news[2 * round + 1]);
        assert_int_equal(atomic_load(&seen.queued), 0);
        wait_until(atomic_load(&ran) == 3 && idle_of(pool) == 1);
    }
    dz_pool_free(pool);
    assert_int_equal(atomic_load(&seen.calls), 4);
}

static void taking_the_last_waiting_job_back_drains_too(void **state)
{
    (void)state;
    pressure seen = {0};
    prepare(hold);
    dz_pool *pool = make(1, 1);
    assert_int_equal(dz_pool_submit(pool, &jobs[0].job), 0);
    wait_until(atomic_load(&running) == 1);
    assert_int_equal(dz_pool_submit(pool, &jobs[1].job), 0);
    dz_pool_on_pressure(pool, note_pressure, &seen); /* full already: told at once */
    assert_int_equal(atomic_load(&seen.calls), 1);
    assert_true(seen.news[0]);
    assert_true(dz_pool_withdraw(pool, &jobs[1].job));
    assert_int_equal(atomic_load(&seen.calls), 2);
    assert_false(seen.news[1]);
    atomic_store(&let_go, true);
    dz_pool_free(pool);
}

/* --- without threads --- */

static void a_job_is_refused_when_no_worker_can_be_started_and_taken_later(void **state)
{
    (void)state;
    prepare(note_order);
    dz_pool *pool = make(2, 10);
    atomic_store(&threads_left, 0);
    assert_int_equal(dz_pool_submit(pool, &jobs[0].job), DZ_E_NO_THREAD);
    atomic_store(&threads_left, 1);
    assert_int_equal(dz_pool_submit(pool, &jobs[0].job), 0);
    assert_int_equal(dz_pool_submit(pool, &jobs[1].job), 0); /* the one worker comes to it */
    atomic_store(&threads_left, -1);
    wait_until(atomic_load(&ran) == 2);
    dz_pool_free(pool);
}

static void no_job_waits_beyond_the_bound_for_a_worker_that_cannot_start(void **state)
{
    (void)state;
    prepare(hold);
    dz_pool *pool = make(4, 2);
    atomic_store(&threads_left, 1);
    assert_int_equal(dz_pool_submit(pool, &jobs[0].job), 0);
    wait_until(atomic_load(&running) == 1);
    assert_int_equal(dz_pool_submit(pool, &jobs[1].job), 0);
    assert_int_equal(dz_pool_submit(pool, &jobs[2].job), 0);
    assert_true(dz_pool_submit(pool, &jobs[3].job) < 0);
    atomic_store(&threads_left, -1);
    atomic_store(&let_go, true);
    dz_pool_free(pool);
    assert_int_equal(atomic_load(&ran), 3);
}

/* --- tasks --- */

static dz_pool *tasks;
static _Atomic int result;
static _Atomic bool right;

static int upper(dz_task *task, dz_buf *in, dz_buf *out)
{
    assert_false(dz_task_cancelled(task));
    for (size_t i = 0; i < in->len; i++)
        in->data[i] = (char)(in->data[i] - 'a' + 'A');
    return dz_buf_transfer(out, in);
}

static int refuse(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task, (void)in, (void)out;
    return DZ_E_FORMAT;
}

static void run_upper(dz_fiber *fiber)
{
    (void)fiber;
    dz_buf in, out;
    assert_int_equal(dz_buf_copy(&in, DZ_LIT("moved")), 0);
    char *memory = in.data;
    int rc = dz_pool_run(tasks, "upper", &in, &out);
    atomic_store(&right, rc == 0 && !in.data && !in.block && out.data == memory &&
                             dz_slice_equal(dz_buf_slice(&out), DZ_LIT("MOVED")));
    dz_buf_release(&out);
    atomic_store(&result, rc);
}

static void run_refuse(dz_fiber *fiber)
{
    (void)fiber;
    dz_buf in, out;
    assert_int_equal(dz_buf_copy(&in, DZ_LIT("kept by nobody")), 0);
    int rc = dz_pool_run(tasks, "refuse", &in, &out);
    atomic_store(&right, !in.data && !out.data);
    atomic_store(&result, rc);
}

static void run_borrowed(dz_fiber *fiber)
{
    (void)fiber;
    dz_buf in = dz_buf_borrow(DZ_LIT("not mine"));
    int rc = dz_pool_run(tasks, "upper", &in, NULL);
    atomic_store(&right, in.data != NULL); /* unchanged */
    atomic_store(&result, rc);
}

static void run_unknown(dz_fiber *fiber)
{
    (void)fiber;
    atomic_store(&result, dz_pool_run(tasks, "unknown", NULL, NULL));
}

static void run_nothing(dz_fiber *fiber)
{
    (void)fiber;
    atomic_store(&result, dz_pool_run(tasks, "refuse", NULL, NULL));
}

static int outcome_of(dz_fiber_fn *fn)
{
    rig_fiber it = {0};
    atomic_store(&right, false);
    rig_start(&runtime->loops[0], &it, fn);
    wait_until(atomic_load(&it.done) == 1);
    return atomic_load(&result);
}

static void a_task_gets_its_input_by_transfer_and_gives_its_output_back(void **state)
{
    (void)state;
    tasks = make(2, 10);
    assert_int_equal(dz_pool_add_task(tasks, "upper", upper), 0);
    assert_int_equal(dz_pool_add_task(tasks, "refuse", refuse), 0);
    assert_int_equal(dz_pool_add_task(tasks, "upper", refuse), DZ_E_EXISTS);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(outcome_of(run_upper), 0);
        assert_true(atomic_load(&right));
    }
    assert_int_equal(outcome_of(run_refuse), DZ_E_FORMAT);
    assert_true(atomic_load(&right));
    assert_int_equal(outcome_of(run_borrowed), DZ_E_NOT_OWNED);
    assert_true(atomic_load(&right));
    assert_int_equal(outcome_of(run_unknown), DZ_E_NOT_FOUND);
    assert_int_equal(outcome_of(run_nothing), DZ_E_FORMAT);
    assert_int_equal(dz_pool_run(tasks, "upper", NULL, NULL), DZ_E_STATE); /* not in a handler */
    dz_pool_free(tasks);
}

static void a_task_that_cannot_be_taken_is_an_error_to_its_caller(void **state)
{
    (void)state;
    tasks = make(1, 0);
    assert_int_equal(dz_pool_add_task(tasks, "upper", upper), 0);
    assert_int_equal(dz_pool_add_task(tasks, "refuse", refuse), 0);
    atomic_store(&threads_left, 0);
    assert_int_equal(outcome_of(run_upper), DZ_E_NO_THREAD);
    atomic_store(&threads_left, -1);
    prepare(hold);
    assert_int_equal(dz_pool_submit(tasks, &jobs[0].job), 0);
    wait_until(atomic_load(&running) == 1);
    assert_int_equal(outcome_of(run_upper), DZ_E_QUEUE_FULL);
    atomic_store(&let_go, true);
    wait_until(idle_of(tasks) == 1);
    assert_int_equal(outcome_of(run_upper), 0);
    dz_pool_free(tasks);
}

static sigset_t mask;

static void read_mask(dz_job *job)
{
    (void)job;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    atomic_fetch_add(&ran, 1);
}

static void workers_leave_signals_to_others_but_not_faults(void **state)
{
    (void)state;
    prepare(read_mask);
    dz_pool *pool = make(1, 1);
    assert_int_equal(dz_pool_submit(pool, &jobs[0].job), 0);
    dz_pool_free(pool);
    assert_int_equal(atomic_load(&ran), 1);
    assert_false(sigismember(&mask, SIGSEGV));
    assert_true(sigismember(&mask, SIGTERM));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_worker_takes_jobs_first_in_first_out),
        cmocka_unit_test(the_queue_is_bounded_and_workers_are_too),
        cmocka_unit_test(a_burst_that_fits_is_taken_before_any_worker_is_up),
        cmocka_unit_test(a_pool_without_workers_is_given_one),
        cmocka_unit_test(a_full_queue_is_told_and_so_is_an_empty_one_in_turns),
        cmocka_unit_test(taking_the_last_waiting_job_back_drains_too),
        cmocka_unit_test(idle_workers_end_down_to_the_minimum_and_come_back),
        cmocka_unit_test(a_job_is_refused_when_no_worker_can_be_started_and_taken_later),
        cmocka_unit_test(no_job_waits_beyond_the_bound_for_a_worker_that_cannot_start),
        cmocka_unit_test(a_task_gets_its_input_by_transfer_and_gives_its_output_back),
        cmocka_unit_test(a_task_that_cannot_be_taken_is_an_error_to_its_caller),
        cmocka_unit_test(workers_leave_signals_to_others_but_not_faults),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
