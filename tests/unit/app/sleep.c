/* dz_sleep: parks its fiber, for as long as asked, for ever, or until the loop is cut. */
#include "../loop/rig.h"

#include "loop/loop.h"

#include <donmaz/app.h>
#include <donmaz/error.h>

static dz_runtime *runtime;
static uint64_t wanted_ms;
static _Atomic int result;
static _Atomic uint64_t slept_ns;

static int set_up(void **state)
{
    (void)state;
    runtime = rig_new((dz_runtime_options){.loops = 1});
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rig_free(runtime);
    return 0;
}

static dz_loop *loop0(void)
{
    return &runtime->loops[0];
}

static void sleep_so_long(dz_fiber *fiber)
{
    (void)fiber;
    uint64_t begun = dz_now();
    atomic_store(&result, dz_sleep(wanted_ms));
    atomic_store(&slept_ns, dz_now() - begun);
}

typedef struct view {
    uint64_t due; /* of the loop's first timer */
    bool sleeping;
} view;

static void look(dz_loop *loop, void *arg)
{
    *(view *)arg = (view){atomic_load(&loop->next_due), !dz_list_empty(&loop->sleepers)};
}

static void cut(dz_loop *loop, void *arg)
{
    (void)arg;
    dz_loop_wake_sleepers(loop);
    loop->cut = false; /* for the next test */
}

static void outside_a_handler_it_is_refused(void **state)
{
    (void)state;
    assert_int_equal(dz_sleep(1), DZ_E_STATE);
    assert_int_equal(dz_sleep(0), DZ_E_STATE);
}

static void it_sleeps_at_least_as_long_as_asked(void **state)
{
    (void)state;
    static const uint64_t times[] = {0, 1, 20};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        rig_fiber it = {0};
        wanted_ms = times[i];
        rig_start(loop0(), &it, sleep_so_long);
        wait_until(atomic_load(&it.done) == 1);
        assert_int_equal(atomic_load(&result), 0);
        assert_true(atomic_load(&slept_ns) >= wanted_ms * DZ_MS);
    }
}

/* In nanoseconds these do not fit in 64 bits: a time that wrapped around would be over at once, or
 * far too soon. */
static void a_time_without_end_has_no_end(void **state)
{
    (void)state;
    static const uint64_t times[] = {UINT64_MAX, UINT64_MAX / DZ_MS, UINT64_MAX / DZ_MS + 1,
                                     UINT64_MAX - 1};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        rig_fiber it = {0};
        view seen = {0};
        wanted_ms = times[i];
        atomic_store(&result, 1);
        rig_start(loop0(), &it, sleep_so_long);
        rig_call_on(loop0(), look, &seen); /* in the tick after: it has parked */
        assert_true(seen.sleeping);
        assert_true(seen.due == UINT64_MAX);
        assert_int_equal(atomic_load(&it.done), 0);
        rig_call_on(loop0(), cut, NULL);
        wait_until(atomic_load(&it.done) == 1);
        assert_int_equal(atomic_load(&result), DZ_E_SHUTDOWN);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outside_a_handler_it_is_refused),
        cmocka_unit_test(it_sleeps_at_least_as_long_as_asked),
        cmocka_unit_test(a_time_without_end_has_no_end),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
