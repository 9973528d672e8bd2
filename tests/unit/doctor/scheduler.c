#include "../check.h"

#include <doctor/scheduler.h>

#include <math.h>

static dz_sched s;

/* Lets every thread compute for `ms`; what each had. */
static void pass(double ms, double *had)
{
    double end = s.now + ms;
    while (s.now < end) {
        double to = fmin(end, dz_sched_next(&s));
        for (size_t i = 0; i < s.thread_count; i++)
            if (dz_sched_runs(&s, i))
                had[i] += to - s.now;
        dz_sched_advance(&s, to);
    }
}

static void as_many_threads_as_cores_each_have_one(void **state)
{
    (void)state;
    double had[2] = {0};
    dz_sched_init(&s, 2, 2);
    dz_sched_wake(&s, 0);
    dz_sched_wake(&s, 1);
    assert_true(dz_sched_next(&s) == INFINITY); /* nothing to decide */
    pass(100, had);
    assert_true(had[0] == 100 && had[1] == 100);
}

static void three_threads_have_two_thirds_of_two_cores_each(void **state)
{
    (void)state;
    double had[3] = {0};
    dz_sched_init(&s, 2, 3);
    for (size_t i = 0; i < 3; i++)
        dz_sched_wake(&s, i);
    pass(6000, had);
    for (size_t i = 0; i < 3; i++)
        assert_true(had[i] > 3600 && had[i] < 4400);
}

static void a_computing_thread_keeps_its_core_until_a_tick(void **state)
{
    (void)state;
    double had[2] = {0};
    dz_sched_init(&s, 1, 2);
    dz_sched_wake(&s, 0);
    dz_sched_wake(&s, 1);
    assert_true(dz_sched_runs(&s, 0));
    assert_true(dz_sched_next(&s) > 3 && dz_sched_next(&s) <= 4);
    pass(4, had);
    assert_true(dz_sched_runs(&s, 1));
    assert_true(had[0] > 3.9 && had[1] < 0.1);
}

static void a_thread_that_slept_interrupts_one_that_has_had_its_slice(void **state)
{
    (void)state;
    double had[2] = {0};
    dz_sched_init(&s, 1, 2);
    dz_sched_wake(&s, 0);
    pass(0.5, had);
    dz_sched_wake(&s, 1);
    assert_true(dz_sched_runs(&s, 0)); /* its slice has just begun */
    dz_sched_sleep(&s, 1);
    pass(30, had);
    dz_sched_wake(&s, 1);
    assert_true(dz_sched_runs(&s, 1));
}

static void a_core_without_work_takes_a_waiting_thread(void **state)
{
    (void)state;
    dz_sched_init(&s, 2, 3);
    for (size_t i = 0; i < 3; i++)
        dz_sched_wake(&s, i);
    size_t alone = s.threads[0].core == s.threads[2].core ? 1 : 0;
    dz_sched_sleep(&s, alone);
    size_t running = 0;
    for (size_t i = 0; i < 3; i++)
        running += dz_sched_runs(&s, i);
    assert_int_equal(running, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_threads_as_cores_each_have_one),
        cmocka_unit_test(three_threads_have_two_thirds_of_two_cores_each),
        cmocka_unit_test(a_computing_thread_keeps_its_core_until_a_tick),
        cmocka_unit_test(a_thread_that_slept_interrupts_one_that_has_had_its_slice),
        cmocka_unit_test(a_core_without_work_takes_a_waiting_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
