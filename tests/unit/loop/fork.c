/* A handler that forks: its child has a copy of the loop and of every connection. */
#include "../check.h"
#include "loop/runtime.h"

#include <sys/wait.h>
#include <unistd.h>

static int child_status;

static void fork_and_come_back(dz_fiber *fiber)
{
    (void)fiber;
    pid_t child = fork();
    if (child > 0)
        assert_int_equal(waitpid(child, &child_status, 0), child);
}

static void fork_and_exit(dz_fiber *fiber)
{
    (void)fiber;
    pid_t child = fork();
    if (child == 0)
        _exit(7);
    assert_int_equal(waitpid(child, &child_status, 0), child);
}

/* Runs `entry` on a fiber of a loop that nobody else carries; returns how its child ended. */
static int ended_with(dz_fiber_fn *entry)
{
    int error = 0;
    dz_runtime *runtime =
        dz_runtime_new(&(dz_runtime_options){.loops = 1, .stack_size = 256 << 10}, &error);
    assert_non_null(runtime);
    dz_thread thread = {.runtime = runtime};
    dz_thread_enter(&thread);
    pid_t self = getpid();
    dz_fiber *fiber = dz_fiber_new(&runtime->loops[0]);
    assert_non_null(fiber);
    fiber->entry = entry;
    fiber->label = "GET /fork";
    dz_fiber_switch_in(fiber);
    if (getpid() != self)
        _exit(99); /* the child came back */
    dz_fiber_free(fiber);
    dz_thread_leave(&thread);
    dz_runtime_free(runtime);
    return WIFEXITED(child_status) ? WEXITSTATUS(child_status) : -1;
}

static void a_child_does_not_go_on_with_the_loop(void **state)
{
    (void)state;
    assert_int_equal(ended_with(fork_and_come_back), 1);
}

static void a_child_that_exits_is_left_alone(void **state)
{
    (void)state;
    assert_int_equal(ended_with(fork_and_exit), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_does_not_go_on_with_the_loop),
        cmocka_unit_test(a_child_that_exits_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
