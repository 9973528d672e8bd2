/* Timers of a loop, whose clock is the test's. */
#include "../check.h"
#include "../alloc.h"

#include "loop/turn.h"

#include <donmaz/error.h>
#include <donmaz/metrics.h>

enum { MANY = 500 };

static dz_loop loop;
static dz_timer timers[MANY];
static dz_timer *fired[MANY];
static int fired_count;

static void note(dz_loop *of, dz_timer *timer)
{
    assert_ptr_equal(of, &loop);
    assert_true(fired_count < MANY);
    fired[fired_count++] = timer;
}

static int set_up(void **state)
{
    (void)state;
    fired_count = 0;
    assert_int_equal(dz_loop_init(&loop, NULL, 0, 64 << 10), 0);
    loop.now = 1000;
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(dz_timer_reserve(&loop), 0);
        dz_timer_init(&timers[i], note);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    dz_loop_close(&loop);
    return 0;
}

static void run_at(uint64_t now)
{
    loop.now = now;
    dz_loop_run_timers(&loop);
}

static uint64_t next_due(void)
{
    return atomic_load(&loop.next_due);
}

/* --- firing --- */

static void timers_fire_once_in_the_order_of_their_times_and_none_early(void **state)
{
    (void)state;
    for (int i = 0; i < MANY; i++)
        dz_timer_start(&loop, &timers[i], 2000 + (uint64_t)(i * 7919 % MANY));
    run_at(1999);
    assert_int_equal(fired_count, 0);
    run_at(2000 + MANY / 2 - 1);
    assert_int_equal(fired_count, MANY / 2);
    run_at(2000 + MANY);
    assert_int_equal(fired_count, MANY);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(fired[i]->node.key, 2000 + i);
    run_at(UINT64_MAX - 1);
    assert_int_equal(fired_count, MANY);
}

static void lag_is_how_late_each_fired(void **state)
{
    (void)state;
    dz_timer_start(&loop, &timers[0], 1000);
    dz_timer_start(&loop, &timers[1], 1000 + 3 * DZ_MS);
    run_at(1000 + 5 * DZ_MS);
    assert_int_equal(dz_histogram_count(loop.stats.lag), 2);
    assert_int_equal(dz_histogram_sum(loop.stats.lag), 7 * DZ_MS);
}

/* --- changing --- */

static void a_timer_can_be_moved_either_way_while_it_runs(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        dz_timer_start(&loop, &timers[i], 2000 + (uint64_t)i);
    dz_timer_start(&loop, &timers[2], 1500);
    dz_timer_start(&loop, &timers[0], 3000);
    run_at(2999);
    assert_int_equal(fired_count, 2);
    assert_ptr_equal(fired[0], &timers[2]);
    assert_ptr_equal(fired[1], &timers[1]);
    run_at(3000);
    assert_int_equal(fired_count, 3);
}

static void a_stopped_timer_does_not_fire_and_stopping_twice_is_harmless(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        dz_timer_start(&loop, &timers[i], 2000 + (uint64_t)i);
    dz_timer_stop(&loop, &timers[1]);
    dz_timer_stop(&loop, &timers[1]);
    dz_timer_stop(&loop, &timers[3]); /* never started */
    run_at(5000);
    assert_int_equal(fired_count, 2);
    dz_timer_start(&loop, &timers[1], 6000); /* and it can be used again */
    run_at(6000);
    assert_ptr_equal(fired[2], &timers[1]);
}

static void stop_the_next(dz_loop *of, dz_timer *timer)
{
    note(of, timer);
    dz_timer_stop(of, timer + 1);
}

static void what_is_due_at_the_same_time_can_still_be_stopped_by_another(void **state)
{
    (void)state;
    dz_timer_init(&timers[0], stop_the_next);
    dz_timer_start(&loop, &timers[0], 2000);
    dz_timer_start(&loop, &timers[1], 2001);
    run_at(3000);
    assert_int_equal(fired_count, 1);
    assert_int_equal(next_due(), UINT64_MAX);
}

static void start_again(dz_loop *of, dz_timer *timer)
{
    note(of, timer);
    assert_false(dz_heap_has(&timer->node)); /* it is its owner's again: it may be freed */
    dz_timer_start(of, timer, of->now + 100);
}

static void a_timer_may_start_itself_again_and_waits_its_time(void **state)
{
    (void)state;
    dz_timer_init(&timers[0], start_again);
    dz_timer_start(&loop, &timers[0], 2000);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(next_due(), 2000 + i * 100);
        run_at(2000 + (uint64_t)i * 100);
        assert_int_equal(fired_count, i + 1);
    }
}

static void start_others(dz_loop *of, dz_timer *timer)
{
    note(of, timer);
    dz_timer_start(of, &timers[1], of->now);
    dz_timer_start(of, &timers[2], of->now + 1);
}

static void what_a_timer_starts_and_is_due_fires_in_the_same_turn(void **state)
{
    (void)state;
    dz_timer_init(&timers[0], start_others);
    dz_timer_start(&loop, &timers[0], 2000);
    run_at(2000);
    assert_int_equal(fired_count, 2);
    assert_ptr_equal(fired[1], &timers[1]);
    assert_int_equal(next_due(), 2001);
}

/* --- what the watchdog sees --- */

static void the_first_that_is_due_is_published(void **state)
{
    (void)state;
    assert_int_equal(next_due(), UINT64_MAX);
    dz_timer_start(&loop, &timers[0], 3000);
    assert_int_equal(next_due(), 3000);
    dz_timer_start(&loop, &timers[1], 2000);
    assert_int_equal(next_due(), 2000);
    dz_timer_start(&loop, &timers[1], 4000);
    assert_int_equal(next_due(), 3000);
    dz_timer_stop(&loop, &timers[0]);
    assert_int_equal(next_due(), 4000);
    run_at(3999);
    assert_int_equal(next_due(), 4000);
    run_at(4000);
    assert_int_equal(next_due(), UINT64_MAX);
}

/* --- memory --- */

static void what_was_reserved_can_be_started_without_memory(void **state)
{
    (void)state;
    allocs_left = 0;
    for (int i = 0; i < MANY; i++)
        dz_timer_start(&loop, &timers[i], 2000);
    run_at(2000);
    allocs_left = -1;
    assert_int_equal(fired_count, MANY);
}

static void without_memory_nothing_is_reserved_and_what_was_stays(void **state)
{
    (void)state;
    int rc, more = 0;
    allocs_left = 0;
    for (; (rc = dz_timer_reserve(&loop)) == 0; more++) /* there may be room for some */
        assert_true(more < 2 * MANY);
    allocs_left = -1;
    assert_int_equal(rc, DZ_E_NOMEM);
    assert_int_equal(loop.timers_reserved, MANY + more);
    for (int i = 0; i < MANY; i++)
        dz_timer_start(&loop, &timers[i], 2000);
    run_at(2000);
    assert_int_equal(fired_count, MANY);
    assert_int_equal(dz_timer_reserve(&loop), 0); /* memory is back */
}

static void what_is_given_back_is_reserved_again(void **state)
{
    (void)state;
    size_t cap = loop.timers.cap;
    allocs_left = 0;
    for (int i = 0; i < 10 * MANY; i++) {
        dz_timer_unreserve(&loop);
        assert_int_equal(dz_timer_reserve(&loop), 0);
    }
    allocs_left = -1;
    assert_int_equal(loop.timers.cap, cap);
    assert_int_equal(loop.timers_reserved, MANY);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(timers_fire_once_in_the_order_of_their_times_and_none_early),
        TEST(lag_is_how_late_each_fired),
        TEST(a_timer_can_be_moved_either_way_while_it_runs),
        TEST(a_stopped_timer_does_not_fire_and_stopping_twice_is_harmless),
        TEST(what_is_due_at_the_same_time_can_still_be_stopped_by_another),
        TEST(a_timer_may_start_itself_again_and_waits_its_time),
        TEST(what_a_timer_starts_and_is_due_fires_in_the_same_turn),
        TEST(the_first_that_is_due_is_published),
        TEST(what_was_reserved_can_be_started_without_memory),
        TEST(without_memory_nothing_is_reserved_and_what_was_stays),
        TEST(what_is_given_back_is_reserved_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
