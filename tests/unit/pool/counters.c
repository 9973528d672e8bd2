/* The lost update: what several workers add to one number plainly is counted once; what they add
 * atomically is all there. Without chance: both are made to read before either writes. */
#include "both.h"

/* Waits until both tasks have come as far as this. */
static int meet(dz_task *task, _Atomic int *at)
{
    atomic_fetch_add(at, 1);
    while (atomic_load(at) < 2) {
        if (dz_task_cancelled(task))
            return DZ_E_CANCELLED;
        pause_a_little();
    }
    return 0;
}

static int task_add_plainly(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)in, (void)out;
    int value = atomic_load(&shared->counter); /* `counter++` as the machine does it: load, */
    int rc = meet(task, &shared->running);
    atomic_store(&shared->counter, value + 1); /* add, store */
    return rc;
}

static int task_add_atomically(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)in, (void)out;
    int rc = meet(task, &shared->running);
    atomic_fetch_add(&shared->counter, 1);
    return rc;
}

static int sum_of_two(const char *task)
{
    open_pool((dz_pool_options){.max_workers = 2});
    assert_int_equal(dz_pool_add_task(pool, "plainly", task_add_plainly), 0);
    assert_int_equal(dz_pool_add_task(pool, "atomically", task_add_atomically), 0);
    caller callers[2] = {0};
    for (int i = 0; i < 2; i++)
        begin(&callers[i], task);
    for (int i = 0; i < 2; i++)
        expect(&callers[i], 0);
    close_pool();
    return atomic_load(&shared->counter);
}

static void plain_additions_lose_an_update(void **state)
{
    (void)state;
    assert_int_equal(sum_of_two("plainly"), 1);
}

static void atomic_additions_lose_none(void **state)
{
    (void)state;
    assert_int_equal(sum_of_two("atomically"), 2);
}

static void atomic_counters_lose_nothing(void **state)
{
    (void)state;
    open_pool((dz_pool_options){.max_workers = 4});
    caller callers[4] = {0};
    for (int i = 0; i < 4; i++)
        begin(&callers[i], "count");
    for (int i = 0; i < 4; i++)
        expect(&callers[i], 0);
    assert_int_equal(atomic_load(&shared->counter), 400000);
    close_pool();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_additions_lose_an_update),
        cmocka_unit_test(atomic_additions_lose_none),
        cmocka_unit_test(atomic_counters_lose_nothing),
    };
    RUN_BOTH(tests);
}
