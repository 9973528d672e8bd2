#include "create.h"
#include "rig.h"

#include <donmaz/error.h>

#include <dirent.h>

static size_t entries_of(const char *path)
{
    DIR *folder = opendir(path);
    assert_non_null(folder);
    size_t count = 0;
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static void starting_and_stopping_leaves_no_thread_and_no_descriptor(void **state)
{
    (void)state;
    const dz_runtime_options options = {.loops = 3, .rescue_after_ns = DZ_MS, .rescue_max = 4};
    rig_free(rig_new(options)); /* what the first use of a library opens is open now */
    size_t fds = entries_of("/proc/self/fd");
    /* A thread that was joined may be listed for a moment longer. */
    size_t threads = entries_of("/proc/self/task");
    for (int i = 0; i < 20; i++)
        rig_free(rig_new(options));
    assert_int_equal(entries_of("/proc/self/fd"), fds);
    wait_until(entries_of("/proc/self/task") <= threads);
}

static void a_runtime_that_never_started_can_be_freed(void **state)
{
    (void)state;
    int error;
    dz_runtime *runtime =
        dz_runtime_new(&(dz_runtime_options){.loops = 2, .stack_size = 64 << 10}, &error);
    assert_non_null(runtime);
    dz_runtime_free(runtime);
    dz_runtime_free(NULL);
}

/* --- the end --- */

static _Atomic bool let_go;

static void spin(dz_fiber *fiber)
{
    (void)fiber;
    while (!atomic_load(&let_go))
        usleep(100);
}

static void joining_times_out_while_a_handler_runs_and_works_once_it_has_returned(void **state)
{
    (void)state;
    dz_runtime *runtime = rig_new((dz_runtime_options){.loops = 1});
    atomic_store(&let_go, false);
    rig_fiber it = {0};
    rig_start(&runtime->loops[0], &it, spin);
    assert_int_equal(dz_runtime_join(runtime, dz_now() + 5 * DZ_MS), DZ_E_TIMEOUT);
    assert_int_equal(dz_runtime_join(runtime, 0), DZ_E_TIMEOUT); /* a time long past */
    atomic_store(&let_go, true);
    rig_free(runtime);
    assert_int_equal(it.done, 1);
}

/* --- no threads --- */

static void a_start_that_gets_too_few_threads_fails_and_leaves_nothing(void **state)
{
    (void)state;
    const dz_runtime_options options = {
        .loops = 2, .stack_size = 64 << 10, .rescue_after_ns = DZ_MS, .rescue_max = 4};
    rig_free(rig_new(options));
    size_t threads = entries_of("/proc/self/task"), fds = entries_of("/proc/self/fd");
    enum { NEEDED = 4 }; /* two loops, the watchdog, one that stands by */
    for (int allowed = 0; allowed < NEEDED; allowed++) {
        int error;
        dz_runtime *runtime = dz_runtime_new(&options, &error);
        assert_non_null(runtime);
        atomic_store(&threads_left, allowed);
        assert_int_equal(dz_runtime_start(runtime), DZ_E_NO_THREAD);
        atomic_store(&threads_left, -1);
        dz_runtime_free(runtime);
    }
    wait_until(entries_of("/proc/self/task") <= threads);
    assert_int_equal(entries_of("/proc/self/fd"), fds);
    atomic_store(&threads_left, NEEDED);
    dz_runtime *runtime = rig_new(options);
    atomic_store(&threads_left, -1);
    rig_free(runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starting_and_stopping_leaves_no_thread_and_no_descriptor),
        cmocka_unit_test(a_runtime_that_never_started_can_be_freed),
        cmocka_unit_test(joining_times_out_while_a_handler_runs_and_works_once_it_has_returned),
        cmocka_unit_test(a_start_that_gets_too_few_threads_fails_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
