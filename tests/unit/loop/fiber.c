#include "rig.h"

#include <fenv.h>
#include <pthread.h>

static dz_runtime *runtime;

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

/* --- parking --- */

static _Atomic(dz_fiber *) parked;
static _Atomic int steps;

static void remember(dz_loop *loop, dz_fiber *fiber)
{
    (void)loop;
    assert_ptr_equal(fiber->after_arg, &steps);
    atomic_store(&parked, fiber);
}

static void park_twice(dz_fiber *fiber)
{
    assert_ptr_equal(dz_fiber_current(), fiber);
    volatile uint64_t kept = 0x1234567890abcdef; /* on this stack across the parks */
    for (int i = 0; i < 2; i++) {
        atomic_fetch_add(&steps, 1);
        dz_fiber_park(remember, &steps);
        assert_ptr_equal(dz_fiber_current(), fiber);
        assert_true(kept == 0x1234567890abcdef);
    }
    atomic_fetch_add(&steps, 1);
}

static void wake_parked(dz_loop *loop, void *arg)
{
    (void)loop, (void)arg;
    dz_fiber_ready(atomic_exchange(&parked, NULL));
}

static void a_parked_fiber_goes_on_when_it_is_made_ready(void **state)
{
    (void)state;
    rig_fiber it = {0};
    rig_start(loop0(), &it, park_twice);
    for (int i = 1; i <= 2; i++) {
        wait_until(atomic_load(&parked));
        assert_int_equal(atomic_load(&steps), i);
        assert_int_equal(atomic_load(&it.done), 0);
        rig_call_on(loop0(), wake_parked, NULL);
    }
    wait_until(atomic_load(&it.done) == 1);
    assert_int_equal(atomic_load(&steps), 3);
    assert_null(dz_fiber_current());
}

/* --- on another thread --- */

static void *run_elsewhere(void *arg)
{
    dz_thread self = {0};
    dz_thread_enter(&self);
    dz_fiber_run_here(arg);
    dz_thread_leave(&self);
    return NULL;
}

static _Atomic int dispatched;

static void dispatch_to_thread(dz_fiber *fiber)
{
    pthread_t thread;
    atomic_fetch_add(&dispatched, 1);
    assert_int_equal(pthread_create(&thread, NULL, run_elsewhere, fiber), 0);
    pthread_detach(thread);
}

static pthread_t where[2];

static void note_where(dz_fiber *fiber)
{
    where[0] = pthread_self();
    assert_false(dz_loop_pin(fiber->loop)); /* this thread owns no loop */
    fiber->dispatch = dispatch_to_thread;
    dz_fiber_park(remember, &steps);
    where[1] = pthread_self();
}

static void start_elsewhere(dz_loop *loop, void *arg)
{
    dz_fiber *fiber = dz_fiber_new(loop);
    fiber->entry = note_where;
    fiber->done = rig_done;
    fiber->owner = arg;
    fiber->dispatch = dispatch_to_thread;
    dz_fiber_ready(fiber);
}

static void a_dispatched_fiber_runs_on_other_threads_and_ends_on_its_loop(void **state)
{
    (void)state;
    _Atomic int done = 0;
    rig_call_on(loop0(), start_elsewhere, &done);
    wait_until(atomic_load(&parked));
    rig_call_on(loop0(), wake_parked, NULL);
    wait_until(atomic_load(&done) == 1);
    assert_int_equal(atomic_load(&dispatched), 2);
    assert_false(pthread_equal(where[0], pthread_self()));
}

/* --- reuse --- */

static void make_and_free(dz_loop *loop, void *arg)
{
    (void)arg;
    dz_fiber *a = dz_fiber_new(loop), *b = dz_fiber_new(loop);
    assert_non_null(a);
    assert_non_null(b);
    assert_ptr_not_equal(a, b);
    a->label = "GET /gone";
    a->rescued = a->demoted = true;
    a->wall_ns = a->cpu_ns = 1;
    dz_fiber_free(b);
    dz_fiber_free(a);
    dz_fiber *again = dz_fiber_new(loop); /* the last one used is warm */
    assert_ptr_equal(again, a);
    assert_null(again->label);
    assert_false(again->rescued || again->demoted || again->measure_cpu);
    assert_int_equal(again->wall_ns + again->cpu_ns, 0);
    dz_fiber_free(again);
}

static void a_freed_fiber_is_used_again_and_knows_nothing_of_before(void **state)
{
    (void)state;
    rig_call_on(loop0(), make_and_free, NULL);
}

static void make_many(dz_loop *loop, void *arg)
{
    (void)arg;
    enum { MANY = DZ_LOOP_FREE_FIBERS + 50 };
    static dz_fiber *fibers[MANY];
    for (int i = 0; i < MANY; i++)
        assert_non_null(fibers[i] = dz_fiber_new(loop));
    assert_true(loop->fiber_count >= MANY);
    for (int i = 0; i < MANY; i++)
        dz_fiber_free(fibers[i]);
    assert_int_equal(loop->free_fiber_count, DZ_LOOP_FREE_FIBERS);
    assert_int_equal(loop->fiber_count, DZ_LOOP_FREE_FIBERS);
}

static void only_so_many_free_stacks_are_kept(void **state)
{
    (void)state;
    rig_call_on(loop0(), make_many, NULL);
}

/* --- what belongs to a stack --- */

static _Atomic int rounding_kept;

static void change_rounding(dz_fiber *fiber)
{
    (void)fiber;
    fesetround(FE_UPWARD);
    dz_fiber_park(remember, &steps);
    if (fegetround() == FE_UPWARD)
        atomic_fetch_add(&rounding_kept, 1);
    fesetround(FE_TONEAREST);
}

static void rounding_of_the_loop(dz_loop *loop, void *arg)
{
    (void)loop;
    *(int *)arg = fegetround();
}

static void a_fibers_rounding_mode_stays_its_own(void **state)
{
    (void)state;
    rig_fiber it = {0};
    rig_start(loop0(), &it, change_rounding);
    wait_until(atomic_load(&parked));
    int mode = -1;
    rig_call_on(loop0(), rounding_of_the_loop, &mode);
    assert_int_equal(mode, FE_TONEAREST);
    rig_call_on(loop0(), wake_parked, NULL);
    wait_until(atomic_load(&it.done) == 1);
    assert_int_equal(atomic_load(&rounding_kept), 1);
}

static _Atomic int depth_reached;

__attribute__((noinline)) static int use_stack(int depth)
{
    volatile char room[256];
    room[0] = (char)depth;
    return depth == 0 ? room[0] : use_stack(depth - 1) + room[0];
}

static void go_deep(dz_fiber *fiber)
{
    /* Three quarters of the stack, in frames that even a sanitizer keeps below 1 KB. */
    (void)use_stack((int)(fiber->stack_size / 4 * 3 / 1024));
    atomic_fetch_add(&depth_reached, 1);
}

static void the_stack_has_the_size_asked_for(void **state)
{
    (void)state;
    rig_fiber it = {0};
    rig_start(loop0(), &it, go_deep);
    wait_until(atomic_load(&it.done) == 1);
    assert_int_equal(atomic_load(&depth_reached), 1);
}

/* --- order --- */

static _Atomic int order[3], ran;

static void note_order(dz_fiber *fiber)
{
    atomic_store(&order[atomic_fetch_add(&ran, 1)], (int)(fiber->label[0] - '0'));
}

static void start_three(dz_loop *loop, void *arg)
{
    static const char *const labels[] = {"0", "1", "2"};
    for (int i = 0; i < 3; i++) {
        dz_fiber *fiber = dz_fiber_new(loop);
        fiber->entry = note_order;
        fiber->done = rig_done;
        fiber->owner = arg;
        fiber->label = labels[i];
        dz_fiber_ready(fiber);
    }
}

static void ready_fibers_run_first_in_first_out(void **state)
{
    (void)state;
    _Atomic int done = 0;
    rig_call_on(loop0(), start_three, &done);
    wait_until(atomic_load(&done) == 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(atomic_load(&order[i]), i);
}

/* --- time --- */

static _Atomic uint64_t ended;
static _Atomic bool clock_behind;

static void compute_5_ms(dz_fiber *fiber)
{
    (void)fiber;
    uint64_t until = dz_now() + 5 * DZ_MS;
    while (dz_now() < until)
        ;
    atomic_store(&ended, dz_now());
}

static void look_at_clock(dz_loop *loop, dz_fiber *fiber)
{
    if (loop->now < atomic_load(&ended))
        atomic_store(&clock_behind, true);
    rig_done(loop, fiber);
}

static void start_computing(dz_loop *loop, void *arg)
{
    dz_fiber *fiber = dz_fiber_new(loop);
    fiber->entry = compute_5_ms;
    fiber->done = look_at_clock;
    fiber->owner = arg;
    dz_fiber_ready(fiber);
}

/* Deadlines are counted from loop->now: with the time before the handler ran, the idle timeout of
 * its connection could be over when it begins. */
static void the_loops_clock_has_gone_on_when_a_handler_returns(void **state)
{
    (void)state;
    _Atomic int done = 0;
    rig_call_on(loop0(), start_computing, &done);
    wait_until(atomic_load(&done) == 1);
    assert_false(atomic_load(&clock_behind));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_parked_fiber_goes_on_when_it_is_made_ready),
        cmocka_unit_test(a_dispatched_fiber_runs_on_other_threads_and_ends_on_its_loop),
        cmocka_unit_test(a_freed_fiber_is_used_again_and_knows_nothing_of_before),
        cmocka_unit_test(only_so_many_free_stacks_are_kept),
        cmocka_unit_test(a_fibers_rounding_mode_stays_its_own),
        cmocka_unit_test(the_stack_has_the_size_asked_for),
        cmocka_unit_test(ready_fibers_run_first_in_first_out),
        cmocka_unit_test(the_loops_clock_has_gone_on_when_a_handler_returns),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
