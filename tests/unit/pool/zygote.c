/* Worker processes that can't be made or are lost in other ways than by a task's own crash. The
 * linker puts a fork in front that fails when told to, in the zygote too. */
#include "on_loop.h"

#include "pool/pool.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static struct board {
    _Atomic bool refuse_fork;
    _Atomic int running, pid, zygote;
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

/* Tells its zygote's number, and computes for a while. */
static int task_tell(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task, (void)in, (void)out;
    atomic_store(&shared->zygote, getppid());
    for (volatile int n = 0; n < 2000; n = n + 1)
        ;
    return 7;
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

static int open_pool_of(unsigned workers)
{
    dz_pool_options options;
    dz_pool_options_init(&options);
    options.isolation = DZ_PROCESSES;
    options.max_workers = workers;
    atomic_store(&shared->running, 0);
    pool = dz_pool_new(&options);
    if (!pool)
        return DZ_E_UNAVAILABLE;
    static const struct {
        const char *name;
        dz_task_fn *fn;
    } tasks[] = {{"parent", task_parent}, {"pid", task_pid},       {"endless", task_endless},
                 {"tell", task_tell},     {"signal", task_signal}, {"overflow", task_overflow}};
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++)
        assert_int_equal(dz_pool_add_task(pool, tasks[i].name, tasks[i].fn), 0);
    start_loop();
    return 0;
}

static int open_pool(void)
{
    return open_pool_of(1);
}

typedef struct caller {
    handler handler;
    const char *task;
    char byte;
    int result;
    _Atomic int completions;
} caller;

static void call(void *arg)
{
    caller *self = arg;
    dz_buf in;
    self->result = dz_buf_copy(&in, dz_slice_make(&self->byte, 1));
    if (self->result == 0)
        self->result = dz_pool_run(pool, self->task, &in, NULL);
    dz_buf_release(&in);
    atomic_fetch_add(&self->completions, 1);
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

/* Its children go with it, and cost their tasks; what waits runs with the next zygote's children,
 * which see the program as it was when the pool was made. */
static void a_killed_zygote_costs_what_ran_and_is_replaced(void **state)
{
    (void)state;
    assert_int_equal(open_pool(), 0);
    int zygote = run("parent");
    for (int round = 0; round < 5; round++) {
        assert_true(zygote > 1 && zygote != getpid());
        static caller endless, waiting;
        endless = (caller){.task = "endless"};
        waiting = (caller){.task = "parent"};
        atomic_store(&shared->running, 0);
        begin_handler(&endless.handler, call, &endless);
        wait_until(atomic_load(&shared->running) == 1);
        begin_handler(&waiting.handler, call, &waiting);
        dz_pool_stats stats;
        wait_until((dz_pool_get_stats(pool, &stats), stats.queued == 1));
        assert_int_equal(kill(zygote, SIGKILL), 0);
        wait_until(atomic_load(&endless.handler.done) && atomic_load(&waiting.handler.done));
        assert_int_equal(endless.result, DZ_E_CRASHED);
        assert_int_equal(atomic_load(&endless.completions), 1);
        assert_int_equal(atomic_load(&waiting.completions), 1);
        assert_int_not_equal(waiting.result, zygote);
        zygote = waiting.result;
    }
    dz_pool_free(pool);
    stop_loop();
}

static void a_zygote_that_died_while_nothing_ran_is_not_missed(void **state)
{
    (void)state;
    assert_int_equal(open_pool(), 0);
    int zygote = run("parent"), worker = run("pid");
    assert_true(zygote > 1 && worker > 1);
    assert_int_equal(kill(zygote, SIGKILL), 0);
    wait_until(kill(worker, 0) < 0 || waitpid(worker, NULL, WNOHANG) == worker);
    int result = run("parent"); /* the worker is found dead when it is given the task */
    assert_true(result == DZ_E_CRASHED || result > 1);
    assert_true(run("parent") > 1);
    dz_pool_free(pool);
    stop_loop();
}

typedef struct killer_state {
    _Atomic bool stop;
    _Atomic int kills;
} killer_state;

static void *kill_zygotes(void *arg)
{
    killer_state *self = arg;
    unsigned seed = 7;
    while (!atomic_load(&self->stop)) {
        seed = seed * 1103515245 + 12345;
        nanosleep(&(struct timespec){.tv_nsec = seed % 3000000}, NULL);
        int pid = atomic_exchange(&shared->zygote, 0);
        /* An orphan's parent is the test: see main. */
        if (pid > 1 && pid != getpid() && kill(pid, SIGKILL) == 0)
            atomic_fetch_add(&self->kills, 1);
    }
    return NULL;
}

static void killing_zygotes_at_random_loses_no_task(void **state)
{
    (void)state;
    assert_int_equal(open_pool_of(2), 0);
    killer_state killer = {0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, kill_zygotes, &killer), 0);
    static caller callers[50];
    int fine = 0, crashed = 0;
    for (int round = 0; round < 200 && (crashed == 0 || atomic_load(&killer.kills) < 15); round++) {
        memset(callers, 0, sizeof callers);
        for (size_t i = 0; i < 50; i++) {
            callers[i].task = "tell";
            begin_handler(&callers[i].handler, call, &callers[i]);
        }
        for (size_t i = 0; i < 50; i++) {
            wait_until(atomic_load(&callers[i].handler.done));
            assert_int_equal(atomic_load(&callers[i].completions), 1);
            assert_true(callers[i].result == 7 || callers[i].result == DZ_E_CRASHED);
            fine += callers[i].result == 7;
            crashed += callers[i].result == DZ_E_CRASHED;
        }
    }
    atomic_store(&killer.stop, true);
    pthread_join(thread, NULL);
    assert_true(fine > 0);
    assert_true(crashed <= 2 * atomic_load(&killer.kills)); /* a worker's one task each */
    int result;
    do /* a worker whose zygote went last of all is found dead when it is given a task */
        result = run("pid");
    while (result == DZ_E_CRASHED);
    assert_true(result > 1);
    dz_pool_free(pool);
    stop_loop();
}

/* Nobody but the test adopts what the zygotes leave: at the end nothing of it is alive. */
static void nothing_is_left_of_killed_zygotes(void **state)
{
    (void)state;
    wait_until(waitpid(-1, NULL, WNOHANG) < 0);
    assert_int_equal(errno, ECHILD);
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
    /* Orphans of a killed zygote become children of the test, and of nobody whom it could hit. */
    if (!shared || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_zygote_there_is_no_pool),
        cmocka_unit_test(a_process_that_cannot_be_made_is_an_error_to_its_caller),
        cmocka_unit_test(a_worker_may_die_of_anything),
        cmocka_unit_test(a_killed_zygote_costs_what_ran_and_is_replaced),
        cmocka_unit_test(a_zygote_that_died_while_nothing_ran_is_not_missed),
        cmocka_unit_test(killing_zygotes_at_random_loses_no_task),
        cmocka_unit_test(destroying_ends_a_loop_that_never_looks),
        cmocka_unit_test(nothing_is_left_of_killed_zygotes),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    dz_shared_free(shared, sizeof *shared);
    return failed;
}
