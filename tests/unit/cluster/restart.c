#include "cluster/restart.h"

#include "../check.h"

static void the_first_death_is_followed_by_a_start_at_once(void **state)
{
    (void)state;
    dz_restart restart = {0};
    assert_int_equal(dz_restart_after_death(&restart, DZ_SEC, true), 0);
}

static void the_delay_doubles_up_to_a_limit(void **state)
{
    (void)state;
    dz_restart restart = {0};
    dz_restart_after_death(&restart, 0, true);
    uint64_t expected = DZ_RESTART_FIRST;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(dz_restart_after_death(&restart, DZ_RESTART_STEADY - 1, true), expected);
        expected = expected * 2 < DZ_RESTART_MOST ? expected * 2 : DZ_RESTART_MOST;
    }
    assert_int_equal(expected, DZ_RESTART_MOST);
}

static void a_steady_life_is_a_new_beginning(void **state)
{
    (void)state;
    dz_restart restart = {0};
    for (int i = 0; i < 5; i++)
        dz_restart_after_death(&restart, 0, true);
    assert_int_equal(dz_restart_after_death(&restart, DZ_RESTART_STEADY, true), 0);
    assert_int_equal(dz_restart_after_death(&restart, 0, true), DZ_RESTART_FIRST);
}

static void a_long_start_that_fails_is_not_a_steady_life(void **state)
{
    (void)state;
    dz_restart restart = {0};
    dz_restart_after_death(&restart, 0, false);
    assert_int_equal(dz_restart_after_death(&restart, 2 * DZ_RESTART_STEADY, false),
                     DZ_RESTART_FIRST);
}

static void only_deaths_before_ready_count_as_failed_starts(void **state)
{
    (void)state;
    dz_restart restart = {0};
    dz_restart_after_death(&restart, 0, false);
    dz_restart_after_death(&restart, 0, true);
    dz_restart_after_death(&restart, 0, false);
    assert_int_equal(restart.failed_starts, 2);
    dz_restart_note_ready(&restart);
    assert_int_equal(restart.failed_starts, 0);
}

static void a_failed_fork_is_never_tried_again_at_once(void **state)
{
    (void)state;
    dz_restart restart = {0};
    assert_int_equal(dz_restart_after_failed_fork(&restart), DZ_RESTART_FIRST);
    assert_int_equal(dz_restart_after_failed_fork(&restart), 2 * DZ_RESTART_FIRST);
    assert_int_equal(restart.failed_starts, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_death_is_followed_by_a_start_at_once),
        cmocka_unit_test(the_delay_doubles_up_to_a_limit),
        cmocka_unit_test(a_steady_life_is_a_new_beginning),
        cmocka_unit_test(a_long_start_that_fails_is_not_a_steady_life),
        cmocka_unit_test(only_deaths_before_ready_count_as_failed_starts),
        cmocka_unit_test(a_failed_fork_is_never_tried_again_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
