#include "../check.h"

#include <target/spawn.h>
#include <target/tree.h>

#include <base/clock.h>
#include <donmaz/error.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int start(dz_target *t, const char *script, bool hold)
{
    dz_target_options o = {.hold = hold};
    return dz_target_start_shell(t, script, &o);
}

/* A tool that starts `script` and then waits to be killed; what the script prints comes to *out. */
static pid_t start_tool(const char *script, int *out)
{
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    pid_t tool = fork();
    if (tool == 0) {
        dz_target t;
        dup2(pipes[1], 1);
        close(pipes[0]);
        close(pipes[1]);
        if (start(&t, script, false) < 0)
            _exit(1);
        for (;;)
            pause();
    }
    close(pipes[1]);
    *out = pipes[0];
    return tool;
}

/* Only what the tool's command started keeps `out` open: it must end, not just the command. */
static void check_that_all_dies_with_the_tool(const char *script)
{
    int out;
    pid_t tool = start_tool(script, &out);
    char text[16];
    assert_int_equal(read(out, text, sizeof text), 8);
    kill(tool, SIGKILL);
    assert_int_equal(waitpid(tool, NULL, 0), tool);
    struct pollfd end = {.fd = out, .events = POLLIN};
    assert_int_equal(poll(&end, 1, 60000), 1);
    assert_int_equal(read(out, text, sizeof text), 0);
    close(out);
}

static void what_the_command_started_dies_with_a_killed_tool(void **state)
{
    (void)state;
    check_that_all_dies_with_the_tool("sleep 600 & echo started; exec sleep 600");
}

static void a_daemon_dies_with_a_killed_tool(void **state)
{
    (void)state;
    check_that_all_dies_with_the_tool("setsid sh -c 'sleep 600 & echo started' & wait; exit");
}

static void start_kept(dz_target *t, const char *script)
{
    dz_target_options o = {.output = DZ_TARGET_KEPT};
    assert_int_equal(dz_target_start_shell(t, script, &o), 0);
}

static void a_daemon_dies_with_a_killed_guard(void **state)
{
    (void)state;
    dz_target t;
    int pipes[2];
    char text[16];
    assert_int_equal(pipe(pipes), 0);
    dz_target_options o = {.output = DZ_TARGET_PIPED, .out = pipes[1], .err = 2};
    assert_int_equal(
        dz_target_start_shell(&t, "setsid sh -c 'sleep 600 & echo started; wait' & wait", &o), 0);
    close(pipes[1]);
    assert_int_equal(read(pipes[0], text, sizeof text), 8);
    kill(t.guard, SIGKILL);
    assert_true(dz_target_wait(&t, 60000));
    dz_target_describe(&t, text, sizeof text);
    assert_string_equal(text, "was lost: the p");
    dz_target_stop(&t, SIGTERM, 1000);
    assert_int_equal(read(pipes[0], text, sizeof text), 0);
    close(pipes[0]);
}

static void of_megabytes_printed_the_end_is_kept(void **state)
{
    (void)state;
    dz_target t;
    start_kept(&t, "head -c 3000000 /dev/zero | tr '\\0' x; printf end");
    assert_true(dz_target_wait(&t, 60000));
    dz_target_stop(&t, SIGTERM, 0);
    assert_int_equal(t.printed, 3000003);
    size_t len = strlen(t.tail);
    assert_int_equal(len, DZ_TARGET_TAIL - 1);
    assert_string_equal(t.tail + len - 4, "xend");
}

static void last_words_are_kept_with_the_end(void **state)
{
    (void)state;
    dz_target t;
    start_kept(&t, "echo first; echo last >&2; exit 3");
    assert_true(dz_target_wait(&t, 60000));
    assert_string_equal(t.tail, "first\nlast\n");
    dz_target_stop(&t, SIGTERM, 0);
}

static void who_prints_for_ever_after_the_command_ended_is_ended_too(void **state)
{
    (void)state;
    dz_target t;
    start_kept(&t, "yes & echo $!");
    assert_true(dz_target_wait(&t, 60000));
    assert_int_equal(t.status, 0);
    dz_target_stop(&t, SIGTERM, 60000);
    assert_int_equal(t.killed, 0);
    assert_int_equal(kill(-t.pid, 0), -1);
}

static void a_signal_is_named(void **state)
{
    (void)state;
    dz_target t;
    char text[64];
    assert_int_equal(start(&t, "kill -SEGV $$", false), 0);
    assert_true(dz_target_wait(&t, 60000));
    dz_target_describe(&t, text, sizeof text);
    assert_string_equal(text, "was killed by signal 11 (SIGSEGV)");
    dz_target_stop(&t, SIGTERM, 0);
}

/* A held command that is never released has run nothing. */
static void a_held_command_can_be_stopped(void **state)
{
    (void)state;
    dz_target t;
    assert_int_equal(start(&t, "exit 4", true), 0);
    dz_target_stop(&t, SIGTERM, 1000);
    assert_true(t.exited);
    assert_int_equal(WEXITSTATUS(t.status), 127);
}

static void exit_status_is_reported(void **state)
{
    (void)state;
    dz_target t;
    assert_int_equal(start(&t, "exit 3", false), 0);
    assert_true(dz_target_wait(&t, 60000));
    char text[64];
    dz_target_describe(&t, text, sizeof text);
    assert_string_equal(text, "exited with status 3");
    dz_target_stop(&t, SIGTERM, 0);
}

static void a_missing_command_is_an_error_of_start(void **state)
{
    (void)state;
    char name[] = "/nonexistent/command";
    char *argv[] = {name, NULL};
    dz_target t;
    dz_target_options o = {.argv = argv};
    assert_int_equal(dz_target_start(&t, &o), -ENOENT);
    dz_target_stop(&t, SIGTERM, 1000); /* harmless */
    char sh[] = "/bin/sh";
    argv[0] = sh;
    o.cwd = "/nonexistent";
    assert_int_equal(dz_target_start(&t, &o), -ENOENT);
}

static void environment_is_set_on_top_of_ours(void **state)
{
    (void)state;
    setenv("DZ_TEST_A", "old", 1);
    const char *env[] = {"DZ_TEST_A=new", "DZ_TEST_B=b", NULL};
    dz_target t;
    dz_target_options o = {.env = env};
    assert_int_equal(
        dz_target_start_shell(&t, "test \"$DZ_TEST_A$DZ_TEST_B\" = newb && test -n \"$PATH\"", &o),
        0);
    assert_true(dz_target_wait(&t, 60000));
    assert_int_equal(t.status, 0);
    dz_target_stop(&t, SIGTERM, 0);
}

static void a_held_command_runs_only_when_released(void **state)
{
    (void)state;
    dz_target t;
    assert_int_equal(start(&t, "exit 4", true), 0);
    assert_false(dz_target_wait(&t, 30));
    assert_int_equal(dz_target_release(&t), 0);
    assert_true(dz_target_wait(&t, 60000));
    assert_int_equal(WEXITSTATUS(t.status), 4);
    dz_target_stop(&t, SIGTERM, 0);
}

/* Waits until the shell's children exist, so that stopping really meets them. */
static void await_processes(pid_t root, size_t count)
{
    uint64_t deadline = dz_now() + 60 * DZ_SEC;
    for (;;) {
        dz_tree tree;
        dz_tree_init(&tree, root);
        dz_tree_refresh(&tree);
        size_t got = tree.count;
        dz_tree_close(&tree);
        if (got >= count)
            return;
        assert_true(dz_now() < deadline);
        usleep(1000);
    }
}

static void stop_ends_the_whole_tree_even_when_it_ignores_sigterm(void **state)
{
    (void)state;
    dz_target t;
    assert_int_equal(start(&t, "trap '' TERM; sleep 60 & setsid sleep 60 & wait; wait", false), 0);
    await_processes(t.pid, 3);
    dz_target_stop(&t, SIGTERM, 50);
    assert_true(t.exited);
    assert_int_equal(WTERMSIG(t.status), SIGKILL);
    assert_true(t.killed >= 3); /* the one that left the group too */
    assert_int_equal(kill(-t.pid, 0), -1);
    assert_int_equal(errno, ESRCH);
    dz_target_stop(&t, SIGTERM, 0); /* harmless */
}

static void cpu_and_memory_of_children_and_threads_are_seen(void **state)
{
    (void)state;
    dz_target t;
    assert_int_equal(start(&t, "(while :; do :; done) & sleep 60; wait", false), 0);
    await_processes(t.pid, 3);
    dz_tree tree;
    dz_tree_init(&tree, t.pid);
    tree.from_start = true;
    uint64_t deadline = dz_now() + 60 * DZ_SEC, cpu = 0;
    while (cpu < 20 * DZ_MS) {
        assert_true(dz_now() < deadline);
        assert_int_equal(dz_tree_refresh(&tree), 0);
        dz_tree_sample(&tree);
        cpu = 0;
        for (size_t i = 0; i < tree.count; i++)
            cpu += tree.procs[i].cpu_ns;
        usleep(1000);
    }
    assert_true(tree.procs[0].rss > 4096);
    assert_true(tree.procs[0].fds >= 3);
    assert_int_equal(tree.procs[0].count, 1);
    dz_target_stop(&t, SIGKILL, 1000);
    assert_int_equal(dz_tree_refresh(&tree), DZ_E_NOT_FOUND);
    dz_tree_sample(&tree); /* what the dead have used still counts */
    uint64_t after = 0;
    for (size_t i = 0; i < tree.count; i++)
        after += tree.procs[i].cpu_ns;
    assert_true(after >= cpu);
    dz_tree_close(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit_status_is_reported),
        cmocka_unit_test(a_missing_command_is_an_error_of_start),
        cmocka_unit_test(environment_is_set_on_top_of_ours),
        cmocka_unit_test(a_held_command_runs_only_when_released),
        cmocka_unit_test(stop_ends_the_whole_tree_even_when_it_ignores_sigterm),
        cmocka_unit_test(cpu_and_memory_of_children_and_threads_are_seen),
        cmocka_unit_test(what_the_command_started_dies_with_a_killed_tool),
        cmocka_unit_test(a_daemon_dies_with_a_killed_tool),
        cmocka_unit_test(a_daemon_dies_with_a_killed_guard),
        cmocka_unit_test(of_megabytes_printed_the_end_is_kept),
        cmocka_unit_test(last_words_are_kept_with_the_end),
        cmocka_unit_test(who_prints_for_ever_after_the_command_ended_is_ended_too),
        cmocka_unit_test(a_signal_is_named),
        cmocka_unit_test(a_held_command_can_be_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
