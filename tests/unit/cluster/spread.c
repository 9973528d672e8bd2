#include "cluster/spread.h"

#include "../check.h"

static void equals_take_turns(void **state)
{
    (void)state;
    dz_load loads[3] = {{true, 0}, {true, 0}, {true, 0}};
    unsigned last = 2;
    for (unsigned i = 0; i < 9; i++) {
        last = dz_spread_pick(loads, 3, last);
        assert_int_equal(last, i % 3);
        loads[last].open++;
    }
}

static void an_idle_cluster_takes_turns_too(void **state)
{
    (void)state;
    const dz_load loads[2] = {{true, 0}, {true, 0}};
    assert_int_equal(dz_spread_pick(loads, 2, 0), 1);
    assert_int_equal(dz_spread_pick(loads, 2, 1), 0);
}

static void the_fewest_win_wherever_they_are(void **state)
{
    (void)state;
    const dz_load loads[4] = {{true, 5}, {true, 4}, {true, 3}, {true, 4}};
    for (unsigned last = 0; last < 4; last++)
        assert_int_equal(dz_spread_pick(loads, 4, last), 2);
}

static void those_that_take_none_are_passed_over(void **state)
{
    (void)state;
    const dz_load loads[3] = {{false, 0}, {true, 9}, {false, 0}};
    for (unsigned last = 0; last < 3; last++)
        assert_int_equal(dz_spread_pick(loads, 3, last), 1);
}

static void nobody_is_an_answer(void **state)
{
    (void)state;
    const dz_load loads[2] = {{false, 0}, {false, 0}};
    assert_int_equal(dz_spread_pick(loads, 2, 0), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_take_turns),
        cmocka_unit_test(an_idle_cluster_takes_turns_too),
        cmocka_unit_test(the_fewest_win_wherever_they_are),
        cmocka_unit_test(those_that_take_none_are_passed_over),
        cmocka_unit_test(nobody_is_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
