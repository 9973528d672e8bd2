/* The end of a loop while another thread is still waking it. */
#include "rig.h"

#include <pthread.h>
#include <sys/socket.h>

static _Thread_local bool held;
static _Atomic bool waking, freeing, freed, freed_too_early;

ssize_t __real_write(int fd, const void *bytes, size_t len);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);
ssize_t __wrap_write(int fd, const void *bytes, size_t len)
{
    if (held) {
        atomic_store(&waking, true);
        wait_until(atomic_load(&freeing));
        for (int i = 0; i < 50 && !atomic_load(&freed); i++)
            usleep(200); /* an end that waits for nobody has this long to be seen */
        atomic_store(&freed_too_early, atomic_load(&freed));
    }
    return __real_write(fd, bytes, len);
}

static void on_stop(dz_loop *loop, dz_msg *msg)
{
    (void)msg;
    dz_loop_stop(loop);
}

static void *post_stop(void *arg)
{
    static dz_msg stop = {.fn = on_stop};
    held = true;
    dz_loop_post(arg, &stop);
    return NULL;
}

static dz_watch nudge;

static void on_nudge(dz_loop *loop, dz_watch *watch, uint32_t events)
{
    (void)loop, (void)watch, (void)events;
}

static void watch_nudge(dz_loop *loop, void *arg)
{
    const int *fd = arg;
    assert_int_equal(dz_watch_start(loop, &nudge, *fd, EPOLLIN | EPOLLET, on_nudge), 0);
}

static void a_loop_is_not_freed_under_a_thread_that_still_wakes_it(void **state)
{
    (void)state;
    dz_runtime *own = rig_new((dz_runtime_options){.loops = 1});
    dz_loop *loop = &own->loops[0];
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    rig_call_on(loop, watch_nudge, &ends[0]);
    wait_until(atomic_load(&loop->sleeping));
    pthread_t poster;
    assert_int_equal(pthread_create(&poster, NULL, post_stop, loop), 0);
    wait_until(atomic_load(&waking));
    assert_int_equal(send(ends[1], "", 1, 0), 1); /* wakes it before the poster does */
    assert_int_equal(dz_runtime_join(own, dz_now() + WAIT_SECONDS * DZ_SEC), 0);
    atomic_store(&freeing, true);
    dz_runtime_free(own);
    atomic_store(&freed, true);
    pthread_join(poster, NULL);
    assert_false(atomic_load(&freed_too_early));
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_is_not_freed_under_a_thread_that_still_wakes_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
