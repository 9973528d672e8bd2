/* What only worker processes can bear: tasks that crash, never end, or eat all memory. */
#include "on_loop.h"

#include "pool/pool.h"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

typedef struct board {
    _Atomic int running, pid;
} board;

static board *shared;
static dz_pool *pool;

static int task_crash(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task;
    in->data[0] = 'x'; /* it holds the buffer */
    int rc = dz_buf_alloc_shared(out, 1 << 20);
    if (rc == 0)
        raise(SIGSEGV);
    return rc;
}

static int task_endless(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task;
    (void)in;
    (void)out;
    signal(SIGTERM, SIG_IGN);
    atomic_store(&shared->pid, getpid());
    atomic_fetch_add(&shared->running, 1);
    volatile uint64_t n = 0;
    while (n < UINT64_MAX)
        n = n + 1;
    return 0;
}

static int task_eat(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task;
    (void)in;
    (void)out;
    for (int i = 0; i < 512; i++) {
        char *memory = malloc(1 << 20);
        if (!memory)
            return DZ_E_NOMEM;
        memset(memory, i, 1 << 20); /* kept on purpose */
    }
    return 0;
}

static int task_pid(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task;
    (void)in;
    (void)out;
    return getpid();
}

static int task_exit(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task;
    (void)in;
    (void)out;
    _exit(0);
}

static int task_echo(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task;
    return dz_buf_copy(out, dz_buf_slice(in));
}

static void open_pool(dz_pool_options options)
{
    options.isolation = DZ_PROCESSES;
    options.max_queue = 10000;
    options.idle_timeout_ns = 60 * DZ_SEC;
    if (options.max_workers == 0)
        options.max_workers = 1;
    memset(shared, 0, sizeof *shared);
    pool = dz_pool_new(&options);
    assert_non_null(pool);
    static const struct {
        const char *name;
        dz_task_fn *fn;
    } tasks[] = {{"crash", task_crash}, {"endless", task_endless}, {"eat", task_eat},
                 {"pid", task_pid},     {"exit", task_exit},       {"echo", task_echo}};
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++)
        assert_int_equal(dz_pool_add_task(pool, tasks[i].name, tasks[i].fn), 0);
    start_loop();
}

static void close_pool(void)
{
    dz_pool_close(pool, 30 * DZ_SEC);
    stop_loop();
}

typedef struct caller {
    handler handler;
    const char *task;
    int result;
    size_t out_len;
    _Atomic int completions;
} caller;

static void call(void *arg)
{
    caller *self = arg;
    dz_buf in, out;
    self->result = dz_buf_alloc_shared(&in, 4096);
    if (self->result < 0)
        return;
    in.len = 4096;
    self->result = dz_pool_run(pool, self->task, &in, &out);
    self->out_len = out.len;
    dz_buf_release(&out);
    dz_buf_release(&in);
    atomic_fetch_add(&self->completions, 1);
}

static int run(const char *task)
{
    caller self = {.task = task};
    run_handler_to_end(call, &self);
    assert_int_equal(atomic_load(&self.completions), 1);
    return self.result;
}

static size_t open_descriptors(void)
{
    size_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* cases/pool 5 */
static void a_crash_costs_one_task_and_leaks_nothing(void **state)
{
    (void)state;
    open_pool((dz_pool_options){0});
    int first = run("pid");
    assert_true(first > 0 && first != getpid());
    assert_int_equal(run("pid"), first); /* a warm worker is kept */
    assert_int_equal(run("crash"), DZ_E_CRASHED);
    int second = run("pid");
    assert_true(second > 0 && second != first);
    size_t before = open_descriptors();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run("crash"), DZ_E_CRASHED);
        assert_int_equal(run("exit"), DZ_E_CRASHED);
        assert_true(run("pid") > 0);
    }
    wait_until(open_descriptors() <= before); /* the last worker's may still be closing */
    close_pool();
}

static void others_do_not_notice_a_crash(void **state)
{
    (void)state;
    open_pool((dz_pool_options){.max_workers = 3});
    static caller callers[60];
    memset(callers, 0, sizeof callers);
    for (int i = 0; i < 60; i++) {
        callers[i].task = i % 10 == 3 ? "crash" : "echo";
        begin_handler(&callers[i].handler, call, &callers[i]);
    }
    for (int i = 0; i < 60; i++) {
        wait_until(atomic_load(&callers[i].handler.done));
        assert_int_equal(callers[i].result, i % 10 == 3 ? DZ_E_CRASHED : 0);
        assert_int_equal(callers[i].out_len, i % 10 == 3 ? 0 : 4096);
        assert_int_equal(atomic_load(&callers[i].completions), 1);
    }
    close_pool();
}

/* The loop never looks at anything, and is ended all the same. */
static void an_abandoned_endless_loop_is_ended(void **state)
{
    (void)state;
    open_pool((dz_pool_options){0});
    static caller self;
    self = (caller){.task = "endless"};
    begin_handler(&self.handler, call, &self);
    wait_until(atomic_load(&shared->running) == 1);
    leave_handler(&self.handler);
    wait_until(atomic_load(&self.handler.done));
    assert_int_equal(self.result, DZ_E_CANCELLED);
    /* When the caller is told, the process is dead already; only its zombie may be left. */
    wait_until(kill(atomic_load(&shared->pid), 0) < 0);
    assert_true(run("pid") > 0);
    close_pool();
}

static void an_endless_loop_is_ended_at_the_run_limit(void **state)
{
    (void)state;
    open_pool((dz_pool_options){.run_limit_ns = 50 * DZ_MS});
    assert_int_equal(run("endless"), DZ_E_TIMEOUT);
    int pid;
    do /* which a slow machine may not do in 50 ms */
        pid = run("pid");
    while (pid == DZ_E_TIMEOUT);
    assert_true(pid > 0);
    close_pool();
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#ifndef SANITIZED /* whose allocators take memory from the system in a way no limit counts */
static void memory_is_capped(void **state)
{
    (void)state;
    open_pool((dz_pool_options){.memory_max = 64 << 20});
    int result = run("eat");
    assert_true(result == DZ_E_NOMEM || result == DZ_E_CRASHED);
    assert_true(run("pid") > 0);
    close_pool();
}

#endif

static void workers_are_replaced_after_so_many_tasks(void **state)
{
    (void)state;
    open_pool((dz_pool_options){.recycle_tasks = 2});
    int a = run("pid"), b = run("pid"), c = run("pid"), d = run("pid");
    assert_int_equal(a, b);
    assert_int_not_equal(b, c);
    assert_int_equal(c, d);
    close_pool();
}

static void workers_are_replaced_when_they_hold_much_memory(void **state)
{
    (void)state;
    open_pool((dz_pool_options){.recycle_memory = 1});
    int first = run("pid");
    assert_int_not_equal(run("pid"), first);
    close_pool();
    open_pool((dz_pool_options){.recycle_memory = UINT64_MAX}); /* no process holds so much */
    first = run("pid");
    assert_int_equal(run("pid"), first);
    close_pool();
}

typedef struct killer_state {
    _Atomic bool stop;
    _Atomic int kills;
} killer_state;

/* Kills whatever worker last told its number, at any instruction. */
static int task_tell(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task;
    atomic_store(&shared->pid, getpid());
    for (volatile int n = 0; n < 2000; n = n + 1)
        ;
    return dz_buf_copy(out, dz_buf_slice(in));
}

static void *kill_now_and_then(void *arg)
{
    killer_state *self = arg;
    unsigned seed = 5;
    while (!atomic_load(&self->stop)) {
        int pid = atomic_exchange(&shared->pid, 0);
        seed = seed * 1103515245 + 12345;
        nanosleep(&(struct timespec){.tv_nsec = seed % 400000}, NULL);
        if (pid > 0 && kill(pid, SIGKILL) == 0)
            atomic_fetch_add(&self->kills, 1);
    }
    return NULL;
}

static void killing_at_random_loses_no_task(void **state)
{
    (void)state;
    open_pool((dz_pool_options){.max_workers = 2});
    assert_int_equal(dz_pool_add_task(pool, "tell", task_tell), 0);
    killer_state killer = {0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, kill_now_and_then, &killer), 0);
    static caller callers[100];
    int crashed = 0, fine = 0;
    for (int round = 0; round < 100 && atomic_load(&killer.kills) < 40; round++) {
        memset(callers, 0, sizeof callers);
        for (int i = 0; i < 100; i++) {
            callers[i].task = "tell";
            begin_handler(&callers[i].handler, call, &callers[i]);
        }
        for (int i = 0; i < 100; i++) {
            wait_until(atomic_load(&callers[i].handler.done));
            assert_int_equal(atomic_load(&callers[i].completions), 1);
            assert_true(callers[i].result == 0 || callers[i].result == DZ_E_CRASHED);
            assert_true(callers[i].result != 0 || callers[i].out_len == 4096);
            crashed += callers[i].result == DZ_E_CRASHED;
            fine += callers[i].result == 0;
        }
    }
    atomic_store(&killer.stop, true);
    pthread_join(thread, NULL);
    assert_true(fine > 0 && crashed > 0 && crashed <= atomic_load(&killer.kills));
    close_pool();
}

int main(void)
{
    shared = dz_shared_new(sizeof *shared);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crash_costs_one_task_and_leaks_nothing),
        cmocka_unit_test(others_do_not_notice_a_crash),
        cmocka_unit_test(an_abandoned_endless_loop_is_ended),
        cmocka_unit_test(an_endless_loop_is_ended_at_the_run_limit),
#ifndef SANITIZED
        cmocka_unit_test(memory_is_capped),
#endif
        cmocka_unit_test(workers_are_replaced_after_so_many_tasks),
        cmocka_unit_test(workers_are_replaced_when_they_hold_much_memory),
        cmocka_unit_test(killing_at_random_loses_no_task),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    dz_shared_free(shared, sizeof *shared);
    return failed;
}
