#include "target/proctree.h"

#include "../check.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* A child that has a child; both wait until killed. */
static pid_t start_family(pid_t *grandchild)
{
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        pid_t own = fork();
        if (own > 0)
            (void)!write(pipes[1], &own, sizeof own);
        for (;;)
            pause();
    }
    assert_int_equal(read(pipes[0], grandchild, sizeof *grandchild), sizeof *grandchild);
    close(pipes[0]);
    close(pipes[1]);
    return child;
}

static void holds_the_root_first_and_all_descendants(void **state)
{
    (void)state;
    pid_t grandchild;
    pid_t child = start_family(&grandchild);
    dz_proctree tree;
    assert_int_equal(dz_proctree_read(child, true, &tree), 0);
    assert_int_equal(tree.count, 2);
    assert_int_equal(tree.pids[0], child);
    assert_int_equal(tree.pids[1], grandchild);
    assert_true(tree.rss_kb > 0);
    uint64_t whole = tree.rss_kb;
    dz_proctree_refresh(&tree);
    assert_true(tree.rss_kb > 0 && tree.rss_kb <= 2 * whole);
    dz_proctree_free(&tree);
    assert_int_equal(dz_proctree_read(child, false, &tree), 0);
    assert_int_equal(tree.count, 1);
    assert_int_equal(tree.pids[0], grandchild);
    dz_proctree_free(&tree);
    kill(grandchild, SIGKILL);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void a_process_that_is_gone_or_a_zombie_is_left_out(void **state)
{
    (void)state;
    dz_proctree tree;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(dz_proctree_read(child, true, &tree), 0);
    assert_int_equal(tree.count, 0);
    dz_proctree_free(&tree);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holds_the_root_first_and_all_descendants),
        cmocka_unit_test(a_process_that_is_gone_or_a_zombie_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
