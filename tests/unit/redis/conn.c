/* How a connection writes and when it comes back. sendmsg is counted (by the linker's help). */
#include "../check.h"

#include "harness.h"
#include "redis/conn.h"

#include <donmaz/redis.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_uint writes;

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    atomic_fetch_add(&writes, 1);
    return __real_sendmsg(fd, message, flags);
}

static void the_pause_doubles_and_is_random(void **state)
{
    (void)state;
    static const unsigned most_ms[] = {25, 50, 100, 200, 400, 800, 1600, 1600, 1600};
    for (unsigned failures = 0; failures < 9; failures++) {
        uint64_t most = most_ms[failures] * DZ_MS, first = dz_redis_backoff(failures, 1);
        bool differs = false;
        for (uint32_t random = 0; random < UINT32_MAX - 9999999; random += 9999999) {
            uint64_t pause = dz_redis_backoff(failures, random);
            assert_in_range(pause, most / 2, most);
            differs |= pause > first + most / 10;
        }
        assert_true(differs);
    }
    assert_in_range(dz_redis_backoff(UINT32_MAX, UINT32_MAX), 800 * DZ_MS, 1600 * DZ_MS);
}

enum { MANY = 60 };

static dz_redis *redis;

static void incr(void *arg)
{
    char key[16];
    int64_t value;
    snprintf(key, sizeof key, "k%u", (unsigned)(uintptr_t)arg);
    assert_int_equal(dz_redis_incr(redis, dz_slice_of(key), (int64_t)(uintptr_t)arg, &value), 0);
    assert_int_equal(value % (int64_t)(uintptr_t)arg, 0);
}

static void get_one(void *arg)
{
    (void)arg;
    dz_buf value;
    assert_int_equal(dz_redis_get(redis, DZ_LIT("k1"), &value), 0);
    dz_buf_release(&value);
}

static void commands_of_one_tick_go_out_together(void **state)
{
    (void)state;
    dz_redis_server *server;
    dz_redis_stats stats;
    char url[128];
    int rc = dz_redis_server_start(&server, url, sizeof url);
    if (rc == -ENOENT)
        skip();
    assert_int_equal(rc, 0);
    assert_int_equal(harness_start(NULL), 0);
    const dz_redis_options options = {.timeout_ms = 60000, .connect_timeout_ms = 60000};
    assert_int_equal(dz_redis_open(&redis, url, &options), 0);
    on_fiber(incr, (void *)1);
    unsigned before = atomic_load(&writes);
    on_fibers_in_one_tick(incr, MANY);
    /* One, unless the machine stopped the loop for so long that it was taken over meanwhile. */
    assert_in_range(atomic_load(&writes) - before, 1, MANY / 4);
    dz_redis_get_stats(redis, &stats);
    assert_int_equal(stats.commands, 1 + MANY);
    /* GETs of one key: one command, likewise. */
    on_fibers_in_one_tick(get_one, MANY);
    dz_redis_get_stats(redis, &stats);
    assert_in_range(stats.shared, MANY - MANY / 4, MANY - 1);
    assert_int_equal(stats.commands + stats.shared, 1 + 2 * MANY);
    harness_join();
    dz_redis_close(redis);
    dz_runtime_free(harness);
    dz_redis_server_stop(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_pause_doubles_and_is_random),
        cmocka_unit_test(commands_of_one_tick_go_out_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
