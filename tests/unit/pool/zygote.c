/* Worker processes that can't be made or are lost in other ways than by a task's own crash. The
 * linker puts a fork in front that fails when told to, in the zygote too. */
#include "on_loop.h"

#include "pool/pool.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

static struct board {
    _Atomic bool refuse_fork;
    _Atomic int running, pid;
} * shared;
static dz_pool *pool;

pid_t __real_fork(void);
pid_t __wrap_fork(void);

pid_t __wrap_fork(void)
{
    if (!atomic_load(&shared->refuse_fork))
        return __real_fork();
    errno = EAGAIN;
    return -1;
}

static int task_parent(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task, (void)in, (void)out;
    return getppid();
}

static int task_pid(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task, (void)in, (void)out;
    return getpid();
}

static int task_endless(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task, (void)in, (void)out;
    atomic_store(&shared->pid, getpid());
    atomic_fetch_add(&shared->running, 1);
    for (volatile unsigned n = 0; atomic_load(&shared->running) > 0; n = n + 1)
        ;
    return 0;
}

static int task_signal(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task, (void)out;
    raise(in->data[0]);
    return 0;
}

/* Each call needs its frame after the next one has returned. */
static int dig(int depth) // NOLINT(misc-no-recursion)
{
    volatile char frame[4096];
    frame[0] = (char)depth;
    return depth == INT32_MAX ? 0 : dig(depth + 1) + frame[0];
}

static int task_overflow(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task, (void)in, (void)out;
    return dig(0);
}

static int open_pool(void)
{
    dz_pool_options options;
    dz_pool_options_init(&options);
    options.isolation = DZ_PROCESSES;
    options.max_workers = 1;
    atomic_store(&shared->running, 0);
    pool = dz_pool_new(&options);
    if (!pool)
        return DZ_E_UNAVAILABLE;
    static const struct {
        const char *name;
        dz_task_fn *fn;
    } tasks[] = {{"parent", task_parent},
                 {"pid", task_pid},
                 {"endless", task_endless},
                 {"signal", task_signal},
                 {"overflow", task_overflow}};
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++)
        assert_int_equal(dz_pool_add_task(pool, tasks[i].name, tasks[i].fn), 0);
    start_loop();
    return 0;
}

typedef struct caller {
    handler handler;
    const char *task;
    char byte;
    int result;
} caller;

static void call(void *arg)
{
    caller *self = arg;
    dz_buf in;
    self->result = dz_buf_copy(&in, dz_slice_make(&self->byte, 1));
    if (self->result == 0)
        self->result = dz_pool_run(pool, self->task, &in, NULL);
    dz_buf_release(&in);
}

static int run_with(const char *task, char byte)
{
    caller self = {.task = task, .byte = byte};
    run_handler_to_end(call, &self);
    return self.result;
}

static int run(const char *task)
{
    return run_with(task, 0);
}

static void without_a_zygote_there_is_no_pool(void **state)
{
    (void)state;
    atomic_store(&shared->refuse_fork, true);
    assert_int_equal(open_pool(), DZ_E_UNAVAILABLE);
    atomic_store(&shared->refuse_fork, false);
}

/* cases/pool 7, for processes */
static void a_process_that_cannot_be_made_is_an_error_to_its_caller(void **state)
{
    (void)state;
    assert_int_equal(open_pool(), 0);
    atomic_store(&shared->refuse_fork, true);
    assert_int_equal(run("pid"), DZ_E_UNAVAILABLE);
    assert_int_equal(run("pid"), DZ_E_UNAVAILABLE);
    atomic_store(&shared->refuse_fork, false);
    assert_true(run("pid") > 0);
    dz_pool_free(pool);
    stop_loop();
}

/* cases/pool 5, whatever it dies of */
static void a_worker_may_die_of_anything(void **state)
{
    (void)state;
    static const char signals[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
                                   SIGABRT, SIGKILL, SIGSYS, SIGXCPU};
    assert_int_equal(open_pool(), 0);
    for (size_t i = 0; i < sizeof signals; i++) {
        assert_int_equal(run_with("signal", signals[i]), DZ_E_CRASHED);
        assert_true(run("pid") > 0);
    }
    assert_int_equal(run("overflow"), DZ_E_CRASHED);
    assert_true(run("pid") > 0);
    dz_pool_stats stats;
    dz_pool_get_stats(pool, &stats);
    assert_int_equal(stats.crashed, sizeof signals + 1);
    dz_pool_free(pool);
    stop_loop();
}

/* Its children go with it; from then on callers are told at once, and the pool still ends. */
static void a_killed_zygote_fails_tasks_but_holds_nobody(void **state)
{
    (void)state;
    assert_int_equal(open_pool(), 0);
    int zygote = run("parent");
    assert_true(zygote > 1);
    static caller endless;
    endless = (caller){.task = "endless"};
    begin_handler(&endless.handler, call, &endless);
    wait_until(atomic_load(&shared->running) == 1);
    assert_int_equal(kill(zygote, SIGKILL), 0);
    wait_until(atomic_load(&endless.handler.done));
    assert_int_equal(endless.result, DZ_E_CRASHED);
    assert_int_equal(run("pid"), DZ_E_UNAVAILABLE);
    dz_pool_free(pool);
    stop_loop();
}

static void destroying_ends_a_loop_that_never_looks(void **state)
{
    (void)state;
    assert_int_equal(open_pool(), 0);
    static caller endless, waiting;
    endless = waiting = (caller){.task = "endless"};
    begin_handler(&endless.handler, call, &endless);
    begin_handler(&waiting.handler, call, &waiting);
    wait_until(atomic_load(&shared->running) == 1);
    dz_pool_stats stats;
    wait_until((dz_pool_get_stats(pool, &stats), stats.queued == 1));
    dz_pool_destroy(pool);
    wait_until(atomic_load(&endless.handler.done) && atomic_load(&waiting.handler.done));
    assert_int_equal(endless.result, DZ_E_CANCELLED);
    assert_int_equal(waiting.result, DZ_E_CANCELLED);
    assert_true(kill(atomic_load(&shared->pid), 0) < 0 && errno == ESRCH);
    assert_int_equal(atomic_load(&shared->running), 1);
    stop_loop();
}

int main(void)
{
    shared = dz_shared_new(sizeof *shared);
    if (!shared)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_zygote_there_is_no_pool),
        cmocka_unit_test(a_process_that_cannot_be_made_is_an_error_to_its_caller),
        cmocka_unit_test(a_worker_may_die_of_anything),
        cmocka_unit_test(a_killed_zygote_fails_tasks_but_holds_nobody),
        cmocka_unit_test(destroying_ends_a_loop_that_never_looks),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    dz_shared_free(shared, sizeof *shared);
    return failed;
}
