#include "rig.h"

#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>

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

/* --- timers --- */

enum { TIMERS = 200 };

typedef struct clocked {
    dz_timer timer;
    uint64_t due;
} clocked;

static clocked timers[TIMERS];
static uint64_t fired_due[TIMERS];
static _Atomic int fired;
static _Atomic bool early;

static void on_timer(dz_loop *loop, dz_timer *timer)
{
    clocked *it = DZ_CONTAINER(timer, clocked, timer);
    if (dz_now() < it->due || loop->now < it->due)
        atomic_store(&early, true);
    fired_due[atomic_load(&fired)] = it->due;
    dz_timer_unreserve(loop);
    atomic_fetch_add(&fired, 1);
}

static void start_many(dz_loop *loop, void *arg)
{
    (void)arg;
    uint64_t now = dz_now();
    for (int i = 0; i < TIMERS; i++) {
        assert_int_equal(dz_timer_reserve(loop), 0);
        dz_timer_init(&timers[i].timer, on_timer);
        timers[i].due = now + (uint64_t)(i * 7919 % TIMERS) * DZ_MS / 10;
        dz_timer_start(loop, &timers[i].timer, timers[i].due);
    }
}

static void timers_fire_in_order_and_never_early(void **state)
{
    (void)state;
    atomic_store(&fired, 0);
    rig_call_on(loop0(), start_many, NULL);
    wait_until(atomic_load(&fired) == TIMERS);
    assert_false(atomic_load(&early));
    for (int i = 1; i < TIMERS; i++)
        assert_true(fired_due[i - 1] <= fired_due[i]);
}

static void nothing(dz_loop *loop, void *arg)
{
    (void)loop, (void)arg;
}

/* --- descriptors --- */

typedef struct pair {
    dz_watch watch;
    int ends[2];
    _Atomic int called;
    struct pair *other;
} pair;

static pair pairs[2];

static void open_pair(pair *it)
{
    *it = (pair){0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, it->ends), 0);
}

static void close_pair(pair *it)
{
    close(it->ends[0]);
    close(it->ends[1]);
}

static void on_readable(dz_loop *loop, dz_watch *watch, uint32_t events)
{
    (void)loop, (void)events;
    atomic_fetch_add(&DZ_CONTAINER(watch, pair, watch)->called, 1);
}

static void start_watch(dz_loop *loop, void *arg)
{
    pair *it = arg;
    assert_int_equal(dz_watch_start(loop, &it->watch, it->ends[0], EPOLLIN | EPOLLET, on_readable),
                     0);
    assert_int_equal(dz_watch_start(loop, &(dz_watch){0}, -1, EPOLLIN, on_readable), -EBADF);
}

static void stop_watch(dz_loop *loop, void *arg)
{
    dz_watch_stop(loop, &((pair *)arg)->watch);
}

static void an_edge_is_told_once_per_arrival(void **state)
{
    (void)state;
    pair *it = &pairs[0];
    open_pair(it);
    rig_call_on(loop0(), start_watch, it);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(write(it->ends[1], "x", 1), 1);
        wait_until(atomic_load(&it->called) == i);
    }
    rig_call_on(loop0(), stop_watch, it);
    assert_int_equal(write(it->ends[1], "x", 1), 1);
    rig_call_on(loop0(), nothing, NULL);
    rig_call_on(loop0(), nothing, NULL);
    assert_int_equal(atomic_load(&it->called), 3);
    close_pair(it);
}

static void stop_the_other(dz_loop *loop, dz_watch *watch, uint32_t events)
{
    (void)events;
    pair *it = DZ_CONTAINER(watch, pair, watch);
    atomic_fetch_add(&it->called, 1);
    dz_watch_stop(loop, &it->other->watch);
    dz_watch_stop(loop, &it->watch);
}

/* Both become ready in one message, so one epoll_wait fetches both. */
static void make_both_ready(dz_loop *loop, void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            dz_watch_start(loop, &pairs[i].watch, pairs[i].ends[0], EPOLLIN, stop_the_other), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(write(pairs[i].ends[1], "x", 1), 1);
}

static void a_stopped_watch_is_not_called_even_if_its_event_was_fetched(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        open_pair(&pairs[i]);
        pairs[i].other = &pairs[1 - i];
    }
    pairs[0].other = &pairs[1];
    pairs[1].other = &pairs[0];
    rig_call_on(loop0(), make_both_ready, NULL);
    wait_until(atomic_load(&pairs[0].called) + atomic_load(&pairs[1].called) >= 1);
    rig_call_on(loop0(), nothing, NULL);
    assert_int_equal(atomic_load(&pairs[0].called) + atomic_load(&pairs[1].called), 1);
    close_pair(&pairs[0]);
    close_pair(&pairs[1]);
}

/* --- deferred calls --- */

static dz_deferred first, second;
static _Atomic int first_ran, second_ran;

static void on_first(dz_loop *loop, dz_deferred *deferred)
{
    (void)deferred;
    atomic_fetch_add(&first_ran, 1);
    dz_defer(loop, &second); /* runs in the same round */
}

static void on_second(dz_loop *loop, dz_deferred *deferred)
{
    (void)loop, (void)deferred;
    atomic_fetch_add(&second_ran, 1);
}

static void defer_some(dz_loop *loop, void *arg)
{
    static dz_deferred cancelled;
    (void)arg;
    dz_deferred_init(&first, on_first);
    dz_deferred_init(&second, on_second);
    dz_deferred_init(&cancelled, on_first);
    dz_defer(loop, &first);
    dz_defer(loop, &first);
    dz_defer(loop, &cancelled);
    dz_defer_cancel(loop, &cancelled);
    dz_defer_cancel(loop, &cancelled);
    assert_int_equal(atomic_load(&loop->waiting), 1);
}

static void deferred_calls_run_once_at_the_end_of_the_tick(void **state)
{
    (void)state;
    rig_call_on(loop0(), defer_some, NULL);
    wait_until(atomic_load(&second_ran) == 1);
    assert_int_equal(atomic_load(&first_ran), 1);
    wait_until(atomic_load(&loop0()->waiting) == 0);
}

/* --- messages --- */

enum { POSTERS = 3, POSTS = 5000 };
static dz_msg messages[POSTERS][POSTS];
static _Atomic int received;

static void on_message(dz_loop *loop, dz_msg *msg)
{
    (void)loop, (void)msg;
    atomic_fetch_add(&received, 1);
}

static void *post_all(void *arg)
{
    dz_msg *mine = arg;
    for (int i = 0; i < POSTS; i++) {
        mine[i].fn = on_message;
        dz_loop_post(loop0(), &mine[i]);
        if (i % 50 == 0)
            usleep(20); /* so that the loop falls asleep again and again */
    }
    return NULL;
}

static void no_wake_up_is_lost_between_posting_and_falling_asleep(void **state)
{
    (void)state;
    pthread_t threads[POSTERS];
    for (int i = 0; i < POSTERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, post_all, messages[i]), 0);
    for (int i = 0; i < POSTERS; i++)
        pthread_join(threads[i], NULL);
    wait_until(atomic_load(&received) == POSTERS * POSTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_fire_in_order_and_never_early),
        cmocka_unit_test(an_edge_is_told_once_per_arrival),
        cmocka_unit_test(a_stopped_watch_is_not_called_even_if_its_event_was_fetched),
        cmocka_unit_test(deferred_calls_run_once_at_the_end_of_the_tick),
        cmocka_unit_test(no_wake_up_is_lost_between_posting_and_falling_asleep),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
