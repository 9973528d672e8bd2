#include "base/slice.h"

#include "../check.h"

#include <errno.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
} attributes;

static attributes attributes_now(void)
{
    attributes now = {.size = sizeof now};
    assert_int_equal(syscall(SYS_sched_getattr, 0, &now, sizeof now, 0), 0);
    return now;
}

static void sets_the_slice_and_nothing_else(void **state)
{
    (void)state;
    attributes before = attributes_now();
    assert_int_equal(dz_thread_slice(700000), 0);
    attributes after = attributes_now();
    assert_int_equal(after.policy, before.policy);
    assert_int_equal(after.nice, before.nice);
    if (before.runtime == 0) {
        print_message("this kernel has no slices of a thread's own (Linux 6.12 has)\n");
        assert_int_equal(after.runtime, 0);
        return;
    }
    assert_int_equal(after.runtime, 700000);
}

static void a_lowered_thread_stays_lowered(void **state)
{
    (void)state;
    assert_int_equal(setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + 2), 0);
    int nice = getpriority(PRIO_PROCESS, 0);
    assert_int_equal(dz_thread_slice(500000), 0);
    assert_int_equal(getpriority(PRIO_PROCESS, 0), nice);
}

static void leaves_other_policies_alone(void **state)
{
    (void)state;
    const struct sched_param none = {0};
    assert_int_equal(sched_setscheduler(0, SCHED_IDLE, &none), 0);
    assert_int_equal(dz_thread_slice(500000), -EINVAL);
    assert_int_equal(sched_getscheduler(0), SCHED_IDLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_the_slice_and_nothing_else),
        cmocka_unit_test(a_lowered_thread_stays_lowered),
        cmocka_unit_test(leaves_other_policies_alone), /* last: there may be no way back */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
