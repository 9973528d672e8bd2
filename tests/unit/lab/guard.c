#include "lab/guard.h"

#include "../check.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void start_shell(dz_lab_target *target, const char *script)
{
    char copy[300];
    snprintf(copy, sizeof copy, "%s", script);
    char shell[] = "sh", flag[] = "-c";
    char *argv[] = {shell, flag, copy, NULL};
    assert_int_equal(dz_lab_target_start(target, argv, "/", NULL), 0);
}

static void wait_for_end(dz_lab_target *target)
{
    while (dz_lab_target_alive(target))
        usleep(1000);
}

static void a_missing_command_is_told_by_its_errno(void **state)
{
    (void)state;
    dz_lab_target target;
    char name[] = "/no/such/program";
    char *argv[] = {name, NULL};
    assert_int_equal(dz_lab_target_start(&target, argv, "/", NULL), -ENOENT);
    assert_int_equal(dz_lab_target_start(&target, argv, "/no/such/folder", NULL), -ENOENT);
}

static void an_end_is_told_with_status_and_last_words(void **state)
{
    (void)state;
    dz_lab_target target;
    start_shell(&target, "echo first; echo last >&2; exit 3");
    wait_for_end(&target);
    assert_true(WIFEXITED(target.end.status));
    assert_int_equal(WEXITSTATUS(target.end.status), 3);
    assert_string_equal(target.end.tail, "first\nlast\n");
    assert_string_equal(dz_lab_end_text(&target.end), "exited with status 3");
    dz_lab_target_stop(&target, 0);
}

static void a_signal_is_named(void **state)
{
    (void)state;
    dz_lab_target target;
    start_shell(&target, "kill -SEGV $$");
    wait_for_end(&target);
    assert_string_equal(dz_lab_end_text(&target.end), "was killed by SIGSEGV");
    dz_lab_target_stop(&target, 0);
}

static void of_megabytes_printed_the_end_is_kept(void **state)
{
    (void)state;
    dz_lab_target target;
    start_shell(&target, "head -c 3000000 /dev/zero | tr '\\0' x; printf end");
    wait_for_end(&target);
    dz_lab_target_stop(&target, 0);
    assert_int_equal(target.end.printed, 3000003);
    size_t len = strlen(target.end.tail);
    assert_int_equal(len, DZ_LAB_TAIL - 1);
    assert_string_equal(target.end.tail + len - 4, "xend");
}

static void the_environment_is_added(void **state)
{
    (void)state;
    dz_lab_target target;
    char shell[] = "sh", flag[] = "-c", script[] = "echo $GREETING; pwd";
    char *argv[] = {shell, flag, script, NULL};
    char greeting[] = "GREETING=hello";
    char *environment[] = {greeting, NULL};
    assert_int_equal(dz_lab_target_start(&target, argv, "/usr", environment), 0);
    wait_for_end(&target);
    dz_lab_target_stop(&target, 0);
    assert_string_equal(target.end.tail, "hello\n/usr\n");
}

static void one_that_ignores_sigterm_is_killed_with_its_children(void **state)
{
    (void)state;
    dz_lab_target target;
    start_shell(&target, "trap '' TERM; (setsid sleep 600)& echo up; sleep 600; sleep 600");
    while (target.end.printed == 0 && dz_lab_target_alive(&target)) {
        /* `printed` comes only with an end: the trap is set once the child is there. */
        char path[64], children[64] = "";
        snprintf(path, sizeof path, "/proc/%d/task/%d/children", target.pid, target.pid);
        FILE *file = fopen(path, "re");
        size_t n = file ? fread(children, 1, sizeof children - 1, file) : 0;
        if (file)
            fclose(file);
        if (n > 0)
            break;
        usleep(1000);
    }
    dz_lab_target_stop(&target, 20);
    assert_true(target.end.exited);
    assert_true(WIFSIGNALED(target.end.status));
    assert_int_equal(WTERMSIG(target.end.status), SIGKILL);
    assert_true(target.end.killed >= 2);
    assert_int_equal(kill(target.pid, 0), -1);
    dz_lab_target_stop(&target, 0); /* harmless */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_command_is_told_by_its_errno),
        cmocka_unit_test(an_end_is_told_with_status_and_last_words),
        cmocka_unit_test(a_signal_is_named),
        cmocka_unit_test(of_megabytes_printed_the_end_is_kept),
        cmocka_unit_test(the_environment_is_added),
        cmocka_unit_test(one_that_ignores_sigterm_is_killed_with_its_children),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
