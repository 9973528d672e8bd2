/* both.h: a pool with some tasks, opened with whichever isolation is under test, and its callers.
 * Both isolations must behave alike, so every test that includes this runs with each. */
#ifndef DZ_TESTS_POOL_BOTH_H
#define DZ_TESTS_POOL_BOTH_H

#include "on_loop.h"

#include "pool/pool.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* What tasks and test agree on; seen by worker processes too. */
typedef struct board {
    _Atomic int gate;     /* tasks wait until it is set */
    _Atomic int running;  /* tasks begun */
    _Atomic int finished; /* tasks that came to their end by themselves */
    _Atomic int counter;
    _Atomic int begun, pids[16]; /* who ran the first of "gate" */
} board;

static board *shared;
static dz_isolation isolation;
static dz_pool *pool;

static void pause_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

static int task_upper(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task;
    int rc = dz_buf_copy(out, dz_buf_slice(in));
    for (size_t i = 0; rc == 0 && i < out->len; i++)
        out->data[i] = (char)(out->data[i] >= 'a' ? out->data[i] - 32 : out->data[i]);
    return rc;
}

static int task_shared_out(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task;
    int rc = dz_buf_alloc_shared(out, in->len + 5);
    return rc < 0 ? rc : dz_buf_append(out, dz_buf_slice(in));
}

static int task_copy(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task;
    return dz_buf_copy(out, dz_buf_slice(in));
}

static int task_give_back(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task;
    return dz_buf_transfer(out, in);
}

static int task_error(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task;
    (void)in;
    (void)out;
    return DZ_E_FORMAT;
}

/* Runs until the gate opens or it is cancelled. */
static int task_gate(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)in;
    (void)out;
    int at = atomic_fetch_add(&shared->begun, 1);
    if (at < 16)
        atomic_store(&shared->pids[at], getpid());
    atomic_fetch_add(&shared->running, 1);
    while (!atomic_load(&shared->gate)) {
        if (dz_task_cancelled(task))
            return DZ_E_CANCELLED;
        pause_a_little();
    }
    atomic_fetch_add(&shared->finished, 1);
    return 0;
}

static int task_messages(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)out;
    int count = atoi(in->data);
    for (int i = 0; i < count; i++) {
        char text[16];
        int n = snprintf(text, sizeof text, "%d", i);
        int rc = dz_task_post(task, dz_slice_make(text, (size_t)n));
        if (rc < 0 && rc != DZ_E_QUEUE_FULL)
            return rc;
    }
    return count;
}

static int task_count(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task;
    (void)in;
    (void)out;
    for (int i = 0; i < 100000; i++)
        atomic_fetch_add(&shared->counter, 1);
    return 0;
}

/* The how-manyeth it is, as a result. */
static int task_stamp(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task;
    (void)in;
    (void)out;
    return atomic_fetch_add(&shared->counter, 1);
}

static void open_pool(dz_pool_options options)
{
    dz_pool_options defaults;
    dz_pool_options_init(&defaults);
    options.isolation = isolation;
    if (options.max_workers == 0)
        options.max_workers = 1;
    if (options.max_queue == 0)
        options.max_queue = defaults.max_queue;
    options.idle_timeout_ns = defaults.idle_timeout_ns;
    memset(shared, 0, sizeof *shared);
    pool = dz_pool_new(&options);
    assert_non_null(pool);
    static const struct {
        const char *name;
        dz_task_fn *fn;
    } tasks[] = {{"upper", task_upper},         {"shared", task_shared_out}, {"copy", task_copy},
                 {"give back", task_give_back}, {"error", task_error},       {"gate", task_gate},
                 {"messages", task_messages},   {"count", task_count},       {"stamp", task_stamp}};
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++)
        assert_int_equal(dz_pool_add_task(pool, tasks[i].name, tasks[i].fn), 0);
    assert_int_equal(dz_pool_add_task(pool, "count", task_count), DZ_E_EXISTS);
    start_loop();
}

static inline void close_pool(void)
{
    dz_pool_close(pool, 30 * DZ_SEC);
    stop_loop();
    pool = NULL;
}

/* A caller of one task. */
typedef struct caller {
    handler handler;
    const char *task;
    dz_work_options options;
    bool shared_input;
    char text[32];
    int result;
    char output[32];
    _Atomic int completions;
} caller;

static void call(void *arg)
{
    caller *self = arg;
    dz_buf in, out;
    int rc = self->shared_input ? dz_buf_alloc_shared(&in, 64) : dz_buf_alloc(&in, 64);
    if (rc == 0)
        rc = dz_buf_append(&in, dz_slice_make(self->text, strlen(self->text) + 1));
    dz_work *work = NULL;
    if (rc == 0)
        rc = dz_pool_start(pool, self->task, &in, &self->options, &work);
    if (rc == 0)
        rc = in.data ? DZ_E_INVALID : dz_work_finish(work, &out);
    if (!work)
        out = (dz_buf){0};
    self->result = rc;
    if (out.len > 0 && out.len < sizeof self->output)
        memcpy(self->output, out.data, out.len);
    dz_buf_release(&out);
    dz_buf_release(&in);
    atomic_fetch_add(&self->completions, 1);
}

static void begin(caller *self, const char *task)
{
    self->task = task;
    begin_handler(&self->handler, call, self);
}

static void expect(caller *self, int result)
{
    wait_until(atomic_load(&self->handler.done));
    assert_int_equal(self->result, result);
    assert_int_equal(atomic_load(&self->completions), 1);
}

static int use(dz_isolation kind)
{
    isolation = kind;
    shared = dz_shared_new(sizeof *shared);
    return shared ? 0 : -1;
}

static int use_threads(void **state)
{
    (void)state;
    return use(DZ_THREADS);
}

static int use_processes(void **state)
{
    (void)state;
    return use(DZ_PROCESSES);
}

static int forget(void **state)
{
    (void)state;
    dz_shared_free(shared, sizeof *shared);
    return 0;
}

/* Runs `tests` with each isolation; only with threads when "threads" is the program's argument. */
#define RUN_BOTH(tests)                                                                            \
    do {                                                                                           \
        int failed_ = cmocka_run_group_tests_name("threads", tests, use_threads, forget);          \
        if (argc < 2 || strcmp(argv[1], "threads") != 0)                                           \
            failed_ += cmocka_run_group_tests_name("processes", tests, use_processes, forget);     \
        return failed_;                                                                            \
    } while (0)

#endif
