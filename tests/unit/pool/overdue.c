/* A task that its worker has taken and can't begin: its process has died too often, and the next
 * one is made after a while. The linker puts a nanosleep in front with which a test holds that
 * while. */
#include "on_loop.h"

#include "pool/pool.h"

#include <signal.h>
#include <unistd.h>

static pthread_t test; /* which waits by the same call */
static _Atomic bool hold, held;
static _Atomic int *begun; /* seen by worker processes too */
static dz_pool *pool;

int __real_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    int rc = __real_nanosleep(time, left);
    while (!pthread_equal(pthread_self(), test) && atomic_load(&hold)) {
        atomic_store(&held, true);
        __real_nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
    return rc;
}

static int task_die(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task, (void)in, (void)out;
    return raise(SIGKILL);
}

static int task_begin(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task, (void)in, (void)out;
    return atomic_fetch_add(begun, 1);
}

typedef struct caller {
    handler handler;
    const char *task;
    dz_work_options options;
    int result;
} caller;

static void call(void *arg)
{
    caller *self = arg;
    dz_work *work;
    self->result = dz_pool_start(pool, self->task, NULL, &self->options, &work);
    if (self->result == 0)
        self->result = dz_work_finish(work, NULL);
}

static void begin(caller *self, const char *task)
{
    self->task = task;
    begin_handler(&self->handler, call, self);
}

static int end(const caller *self)
{
    wait_until(atomic_load(&self->handler.done));
    return self->result;
}

static int run(const char *task)
{
    static caller self;
    begin(&self, task);
    return end(&self);
}

/* On the loop: until what was due there when this began has been seen to. */
static void see_to_what_is_due(void *arg)
{
    (void)arg;
    (void)dz_fiber_sleep(dz_now() + 2 * DZ_MS);
}

/* Begins a task which `self`'s options leave a millisecond to start, on a worker that does not. */
static void begin_held(caller *self)
{
    do { /* a worker that gets no core until its pause is over begins it: then once more */
        atomic_store(&hold, false);
        for (int i = 0; i < 3; i++)
            assert_int_equal(run("die"), DZ_E_CRASHED);
        atomic_store(&held, false);
        atomic_store(&hold, true);
        begin(self, "begin");
        wait_until(atomic_load(&held) || atomic_load(&self->handler.done));
    } while (!atomic_load(&held));
    atomic_store(begun, 0);
    run_handler_to_end(see_to_what_is_due, NULL);
}

static void a_task_that_was_taken_and_not_begun_expires(void **state)
{
    (void)state;
    static caller late = {.options.queue_timeout_ns = DZ_MS};
    begin_held(&late);
    atomic_store(&hold, false);
    assert_int_equal(end(&late), DZ_E_EXPIRED);
    assert_int_equal(atomic_load(begun), 0);
    dz_pool_stats stats;
    dz_pool_get_stats(pool, &stats);
    assert_true(stats.expired >= 1);
    assert_int_equal(run("begin"), 0); /* the worker goes on */
}

static void without_a_deadline_it_waits_for_its_process(void **state)
{
    (void)state;
    static caller patient;
    begin_held(&patient);
    atomic_store(&hold, false);
    assert_int_equal(end(&patient), 0);
    assert_int_equal(atomic_load(begun), 1);
}

int main(void)
{
    test = pthread_self();
    begun = dz_shared_new(sizeof *begun);
    const dz_pool_options options = {.isolation = DZ_PROCESSES,
                                     .max_workers = 1,
                                     .max_queue = 10,
                                     .idle_timeout_ns = 60 * DZ_SEC};
    pool = begun ? dz_pool_new(&options) : NULL;
    if (!pool || dz_pool_add_task(pool, "die", task_die) < 0 ||
        dz_pool_add_task(pool, "begin", task_begin) < 0)
        return 1;
    start_loop();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_that_was_taken_and_not_begun_expires),
        cmocka_unit_test(without_a_deadline_it_waits_for_its_process),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    dz_pool_close(pool, 30 * DZ_SEC);
    stop_loop();
    dz_shared_free(begun, sizeof *begun);
    return failed;
}
