/* A million GETs of values that carry their key, while connections are cut and the server is
 * paused: every answer belongs to its question. */
#include "../check.h"

#include "harness.h"

#include <donmaz/redis.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { FIBERS = 100, EACH = 10000, KEYS = 500, LONGEST = 6000 };

static dz_redis *redis;
static atomic_bool over;
static atomic_uint answered, failed;

/* "17:" and then as many letters as the key says. */
static size_t value_of(unsigned key, char *text)
{
    size_t len = (size_t)key * 37 % (LONGEST - 16);
    size_t head = (size_t)snprintf(text, 16, "%u:", key);
    memset(text + head, 'a' + (int)(key % 26), len);
    return head + len;
}

static void fill(void *arg)
{
    (void)arg;
    static char text[LONGEST];
    for (unsigned key = 0; key < KEYS; key++) {
        char name[16];
        size_t len = value_of(key, text);
        snprintf(name, sizeof name, "k%u", key);
        assert_int_equal(dz_redis_set(redis, dz_slice_of(name), dz_slice_make(text, len), 0), 0);
    }
}

static void check(unsigned key, dz_slice got)
{
    char expected[LONGEST];
    size_t len = value_of(key, expected);
    if (got.len != len || memcmp(got.ptr, expected, len) != 0) {
        fprintf(stderr, "k%u gave %.20s\n", key, got.ptr);
        abort();
    }
}

static void ask(void *arg)
{
    uint64_t seed = (uint64_t)(uintptr_t)arg;
    for (int i = 0; i < EACH; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        unsigned key = (unsigned)(seed >> 33) % KEYS;
        char name[16];
        dz_buf value;
        snprintf(name, sizeof name, "k%u", key);
        int rc = dz_redis_get(redis, dz_slice_of(name), &value);
        if (rc == 0) {
            check(key, dz_buf_slice(&value));
            dz_buf_release(&value);
            atomic_fetch_add(&answered, 1);
        } else if (rc == DZ_E_UNAVAILABLE || rc == DZ_E_TIMEOUT || rc == DZ_E_CLOSED) {
            atomic_fetch_add(&failed, 1);
        } else {
            fprintf(stderr, "k%u: %s\n", key, dz_error_name(rc));
            abort();
        }
    }
}

static void cut_connections(const char *path)
{
    static const char command[] = "CLIENT KILL TYPE normal SKIPME yes\r\n";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char reply[64];
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        send(fd, command, sizeof command - 1, MSG_NOSIGNAL) > 0)
        recv(fd, reply, sizeof reply, 0);
    if (fd >= 0)
        close(fd);
}

typedef struct victim {
    const char *path;
    pid_t pid;
} victim;

static void *disturb(void *arg)
{
    const victim *v = arg;
    for (int n = 0; !atomic_load(&over); n++) {
        poll(NULL, 0, 20);
        cut_connections(v->path);
        if (n % 10 == 9) { /* longer than the timeout */
            kill(v->pid, SIGSTOP);
            poll(NULL, 0, 150);
            kill(v->pid, SIGCONT);
        }
    }
    return NULL;
}

static void run(size_t cache_bytes, unsigned connections)
{
    dz_redis_server *server;
    char url[128];
    int rc = dz_redis_server_start(&server, url, sizeof url);
    if (rc == -ENOENT)
        skip();
    assert_int_equal(rc, 0);
    assert_int_equal(harness_start(NULL), 0);
    const dz_redis_options options = {.timeout_ms = 100,
                                      .connect_timeout_ms = 100,
                                      .connections = connections,
                                      .cache_bytes = cache_bytes};
    assert_int_equal(dz_redis_open(&redis, url, &options), 0);
    on_fiber(fill, NULL);
    victim v = {.path = url + strlen("unix://")};
    memcpy(&v.pid, server, sizeof v.pid);
    pthread_t disturber;
    atomic_store(&over, false);
    atomic_store(&answered, 0);
    atomic_store(&failed, 0);
    assert_int_equal(pthread_create(&disturber, NULL, disturb, &v), 0);
    void *args[FIBERS];
    for (uintptr_t i = 0; i < FIBERS; i++)
        args[i] = (void *)(i + 1);
    on_fibers(ask, args, FIBERS);
    atomic_store(&over, true);
    pthread_join(disturber, NULL);
    dz_redis_stats stats;
    dz_redis_get_stats(redis, &stats);
    print_message("%u answered, %u failed; %llu connections lost, %llu reads sent again\n",
                  atomic_load(&answered), atomic_load(&failed), (unsigned long long)stats.losses,
                  (unsigned long long)stats.retries);
    assert_int_equal(atomic_load(&answered) + atomic_load(&failed), FIBERS * EACH);
    assert_true(atomic_load(&answered) > 0);
    assert_int_equal(stats.waiting, 0);
    harness_join();
    dz_redis_close(redis);
    dz_runtime_free(harness);
    dz_redis_server_stop(server);
}

static void one_connection(void **state)
{
    (void)state;
    run(0, 1);
}

static void four_connections(void **state)
{
    (void)state;
    run(0, 4);
}

static void with_the_cache(void **state)
{
    (void)state;
    run(500000, 1); /* a third of the values fits */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_connection),
        cmocka_unit_test(four_connections),
        cmocka_unit_test(with_the_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
