#include "catalogue.h"
#include "reference.h"
#include "tasks.h"

#include <sched.h>

enum { ADDITIONS = 1000000, COUNTERS = 4 };

static int nothing(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task, (void)in, (void)out;
    return 0;
}

/* Gives back what it got, so that a buffer can be handed over again. */
static int give_back(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task;
    return dz_buf_transfer(out, in);
}

/* The catalogue that the workers hold themselves: only the summary crosses. */
static int validate_held(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)in;
    dz_buf held = dz_buf_borrow(reference_state.file);
    return task_validate(task, &held, out);
}

static void wait_for_the_others(void)
{
    reference_board *board = reference_state.board;
    atomic_fetch_add(&board->arrived, 1);
    while (atomic_load(&board->arrived) < COUNTERS)
        sched_yield();
}

static int count_atomic(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task, (void)in, (void)out;
    wait_for_the_others();
    for (int i = 0; i < ADDITIONS; i++)
        atomic_fetch_add(&reference_state.board->counter, 1);
    return 0;
}

/* What `counter++` does: a load, an addition, a store. */
static int count_plain(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task, (void)in, (void)out;
    wait_for_the_others();
    _Atomic uint64_t *counter = &reference_state.board->counter;
    for (int i = 0; i < ADDITIONS; i++)
        atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                              memory_order_relaxed);
    return 0;
}

static int books(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task;
    catalogue_result result;
    int rc = catalogue_validate(dz_buf_slice(in), &(catalogue_options){.records = out}, &result);
    reference_state.board->parse_ms = result.parse_ms;
    return rc;
}

/* Computes until it is cancelled, and notes when it last did. In a process it never looks. */
static int burn(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)in, (void)out;
    do
        atomic_store(&reference_state.board->beat, dz_now());
    while (!dz_task_cancelled(task));
    return DZ_E_CANCELLED;
}

static int pin_to_second_core(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task, (void)in, (void)out;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(1, &cpus);
    return sched_setaffinity(0, sizeof cpus, &cpus) == 0 ? 0 : DZ_E_INVALID;
}

int reference_add_tasks(dz_pool *pool)
{
    static const struct {
        const char *name;
        dz_task_fn *fn;
    } tasks[] = {{"nothing", nothing},
                 {"give back", give_back},
                 {"atomic", count_atomic},
                 {"plain", count_plain},
                 {"books", books},
                 {"burn", burn},
                 {"pin", pin_to_second_core},
                 {"validate", task_validate},
                 {"validate held", validate_held}};
    int rc = 0;
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0] && rc == 0; i++)
        rc = dz_pool_add_task(pool, tasks[i].name, tasks[i].fn);
    return rc;
}
