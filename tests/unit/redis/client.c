/* The client against a real redis-server: what the calls do, the cache, and every way a server can
 * go away. */
#include "../check.h"

#include "harness.h"

#include <donmaz/redis.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

static dz_redis_server *server;
static char url[128];
static dz_redis *redis; /* the client under test */

/* The private server's process, for the tests that harm it: the first member of the struct. */
static pid_t server_pid(void)
{
    pid_t pid;
    memcpy(&pid, server, sizeof pid);
    return pid;
}

static int set_up(void **state)
{
    int rc = dz_redis_server_start(&server, url, sizeof url);
    if (rc == -ENOENT)
        server = NULL;
    else if (rc < 0)
        return rc;
    return harness_start(state);
}

static int tear_down(void **state)
{
    (void)state;
    harness_join();
    dz_redis_close(redis);
    redis = NULL;
    dz_runtime_free(harness);
    dz_redis_server_stop(server);
    server = NULL;
    return 0;
}

/* Unless time is what it is about, a slow machine may have as much of it as it needs. */
static const dz_redis_options patient = {.timeout_ms = 60000, .connect_timeout_ms = 60000};

static void open_client(dz_redis_options options)
{
    if (!server)
        skip();
    options.timeout_ms = options.timeout_ms ? options.timeout_ms : patient.timeout_ms;
    if (options.connect_timeout_ms == 0)
        options.connect_timeout_ms = patient.connect_timeout_ms;
    assert_int_equal(dz_redis_open(&redis, url, &options), 0);
}

static dz_redis_stats stats_now(void)
{
    dz_redis_stats stats;
    dz_redis_get_stats(redis, &stats);
    return stats;
}

/* A command that need not succeed. */
static int run_command(dz_redis *with, const char *const *words, size_t count)
{
    dz_slice args[8];
    for (size_t i = 0; i < count; i++)
        args[i] = dz_slice_of(words[i]);
    dz_reply *reply;
    int rc = dz_redis_command(with, 0, args, count, &reply);
    dz_reply_free(reply);
    return rc;
}

#define COMMAND(with, ...)                                                                         \
    run_command(with, (const char *const[]){__VA_ARGS__},                                          \
                sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void assert_value(const char *key, const char *expected)
{
    dz_buf value;
    assert_int_equal(dz_redis_get(redis, dz_slice_of(key), &value), 0);
    assert_slice(dz_buf_slice(&value), expected);
    dz_buf_release(&value);
}

/* --- the calls */

static void do_calls(void *arg)
{
    (void)arg;
    dz_buf value, values[3];
    int64_t number;
    assert_int_equal(dz_redis_get(redis, DZ_LIT("none"), &value), DZ_E_NOT_FOUND);
    assert_null(value.block);
    assert_int_equal(dz_redis_set(redis, DZ_LIT("k"), DZ_LIT("v\r\n1"), 0), 0);
    assert_value("k", "v\r\n1");
    assert_int_equal(dz_redis_set(redis, DZ_LIT("empty"), DZ_LIT(""), 0), 0);
    assert_value("empty", "");
    assert_int_equal(dz_redis_set(redis, DZ_LIT("brief"), DZ_LIT("x"), 60000), 0);
    const dz_slice ttl[] = {DZ_LIT("PTTL"), DZ_LIT("brief")};
    dz_reply *reply;
    assert_int_equal(dz_redis_command(redis, DZ_REDIS_READ, ttl, 2, &reply), 0);
    assert_in_range(dz_reply_integer(reply), 1, 60000);
    dz_reply_free(reply);
    assert_int_equal(dz_redis_incr(redis, DZ_LIT("n"), 41, NULL), 0);
    assert_int_equal(dz_redis_incr(redis, DZ_LIT("n"), -1, &number), 0);
    assert_int_equal(number, 40);
    const dz_slice keys[] = {DZ_LIT("k"), DZ_LIT("none"), DZ_LIT("empty")};
    assert_int_equal(dz_redis_mget(redis, keys, 3, values), 0);
    assert_slice(dz_buf_slice(&values[0]), "v\r\n1");
    assert_null(values[1].block);
    assert_non_null(values[2].block);
    for (size_t i = 0; i < 3; i++)
        dz_buf_release(&values[i]);
    assert_int_equal(dz_redis_del(redis, keys, 3, &number), 0);
    assert_int_equal(number, 2);
    assert_int_equal(dz_redis_get(redis, DZ_LIT("k"), &value), DZ_E_NOT_FOUND);
}

static void the_calls_do_what_they_say(void **state)
{
    (void)state;
    open_client((dz_redis_options){0});
    on_fiber(do_calls, NULL);
}

static void do_errors(void *arg)
{
    (void)arg;
    dz_buf value;
    dz_reply *reply;
    assert_int_equal(COMMAND(redis, "LPUSH", "list", "a"), 0);
    assert_int_equal(dz_redis_get(redis, DZ_LIT("list"), &value), DZ_E_REPLY);
    const dz_slice wrong[] = {DZ_LIT("INCR"), DZ_LIT("list")};
    assert_int_equal(dz_redis_command(redis, 0, wrong, 2, &reply), DZ_E_REPLY);
    assert_int_equal(dz_reply_kind_of(reply), DZ_REPLY_ERROR);
    assert_memory_equal(dz_reply_text(reply).ptr, "WRONGTYPE", 9);
    dz_reply_free(reply);
    assert_int_equal(COMMAND(redis, "subscribe", "x"), DZ_E_INVALID);
    assert_int_equal(COMMAND(redis, "MULTI"), DZ_E_INVALID);
    assert_int_equal(dz_redis_command(redis, 0, NULL, 0, &reply), DZ_E_INVALID);
    /* Nothing of this harmed the connection. */
    assert_int_equal(dz_redis_set(redis, DZ_LIT("k"), DZ_LIT("v"), 0), 0);
    assert_value("k", "v");
    assert_int_equal(stats_now().connects, 1);
}

static void errors_are_told_apart(void **state)
{
    (void)state;
    open_client((dz_redis_options){0});
    dz_buf value;
    assert_int_equal(dz_redis_get(redis, DZ_LIT("k"), &value), DZ_E_STATE); /* no handler */
    on_fiber(do_errors, NULL);
}

static void do_nested(void *arg)
{
    (void)arg;
    assert_int_equal(COMMAND(redis, "HSET", "h", "a", "1", "b", "2"), 0);
    const dz_slice args[] = {DZ_LIT("HGETALL"), DZ_LIT("h")};
    dz_reply *reply;
    assert_int_equal(dz_redis_command(redis, DZ_REDIS_READ, args, 2, &reply), 0);
    assert_int_equal(dz_reply_kind_of(reply), DZ_REPLY_MAP);
    assert_int_equal(dz_reply_count(reply), 4);
    const dz_reply *key = dz_reply_first(reply);
    assert_slice(dz_reply_text(key), "a");
    assert_slice(dz_reply_text(dz_reply_next(key)), "1");
    dz_reply_free(reply);
}

static void nested_replies_can_be_walked(void **state)
{
    (void)state;
    open_client((dz_redis_options){0});
    on_fiber(do_nested, NULL);
}

/* --- many at once */

enum { MANY = 200, LONG = 102400 };

static void fill_long(char *text, unsigned n)
{
    memset(text, 'a' + (int)(n % 26), LONG);
    snprintf(text, 16, "%08u", n);
}

static void do_set_long(void *arg)
{
    static char text[LONG];
    char key[16];
    for (unsigned n = 0; n < 8; n++) {
        snprintf(key, sizeof key, "long%u", n);
        fill_long(text, n);
        assert_int_equal(dz_redis_set(redis, dz_slice_of(key), dz_slice_make(text, sizeof text), 0),
                         0);
    }
    (void)arg;
}

static void do_get_long(void *arg)
{
    unsigned n = (unsigned)(uintptr_t)arg % 8;
    char key[16], start[16];
    snprintf(key, sizeof key, "long%u", n);
    snprintf(start, sizeof start, "%08u", n);
    for (int round = 0; round < 20; round++) {
        dz_buf value;
        uint64_t hash;
        assert_int_equal(dz_redis_get_hash(redis, dz_slice_of(key), &value, &hash), 0);
        assert_int_equal(value.len, LONG);
        assert_memory_equal(value.data, start, 8); /* not another key's */
        assert_int_equal(value.data[LONG - 1], 'a' + (int)n);
        assert_true(hash == XXH3_64bits(value.data, value.len));
        dz_buf_release(&value);
    }
}

static void get_long_by_many(void)
{
    on_fiber(do_set_long, NULL);
    on_fibers_in_one_tick(do_get_long, MANY);
}

static void pipelined_long_values_never_mix(void **state)
{
    (void)state;
    open_client((dz_redis_options){.timeout_ms = 20000});
    get_long_by_many();
    dz_redis_stats stats = stats_now();
    assert_int_equal(stats.waiting, 0);
    assert_int_equal(stats.shared + stats.commands, 8 + (uint64_t)MANY * 20);
    assert_true(stats.shared > 0);
}

static void so_with_several_connections(void **state)
{
    (void)state;
    open_client((dz_redis_options){.connections = 4, .timeout_ms = 20000});
    get_long_by_many();
    assert_int_equal(stats_now().connected, 4);
}

static void so_with_the_cache(void **state)
{
    (void)state;
    open_client((dz_redis_options){.cache_bytes = 4 << 20, .timeout_ms = 20000});
    get_long_by_many();
    assert_true(stats_now().commands < 8 + 8 + 40);
    assert_true(stats_now().cache_hits > (uint64_t)MANY * 10);
}

static void do_flood(void *arg)
{
    dz_buf value;
    int *rc = arg;
    *rc = dz_redis_get(redis, DZ_LIT("k"), &value);
    dz_buf_release(&value);
}

static void do_set_k(void *arg)
{
    (void)arg;
    assert_int_equal(dz_redis_set(redis, DZ_LIT("k"), DZ_LIT("v"), 0), 0);
}

static void do_incr(void *arg)
{
    *(int *)arg = dz_redis_incr(redis, DZ_LIT("count"), 1, NULL);
}

static void too_many_commands_are_refused_not_queued_for_ever(void **state)
{
    (void)state;
    open_client((dz_redis_options){.max_waiting = 10, .timeout_ms = 20000});
    on_fiber(do_set_k, NULL);
    int rcs[MANY], refused = 0;
    void *args[MANY];
    for (size_t i = 0; i < MANY; i++)
        args[i] = &rcs[i];
    on_fibers(do_incr, args, MANY); /* all in one tick or few */
    for (size_t i = 0; i < MANY; i++) {
        assert_true(rcs[i] == 0 || rcs[i] == DZ_E_QUEUE_FULL);
        refused += rcs[i] != 0;
    }
    assert_true(refused <= MANY - 10);
    assert_int_equal(stats_now().waiting, 0);
}

static char large[40000];
static atomic_uint large_set, large_refused;

static void do_set_large(void *unused)
{
    (void)unused;
    int rc = dz_redis_set(redis, DZ_LIT("large"), dz_slice_make(large, sizeof large), 0);
    assert_true(rc == 0 || rc == DZ_E_QUEUE_FULL);
    atomic_fetch_add(rc == 0 ? &large_set : &large_refused, 1);
}

static void *set_large_by_many(void *unused)
{
    void *args[MANY] = {unused};
    on_fibers(do_set_large, args, MANY);
    return NULL;
}

static void too_many_bytes_are_refused_not_queued_for_ever(void **state)
{
    (void)state;
    pthread_t thread;
    open_client((dz_redis_options){.max_waiting_bytes = 100000, .timeout_ms = 60000});
    on_fiber(do_set_k, NULL);
    kill(server_pid(), SIGSTOP); /* so that none is answered meanwhile */
    assert_int_equal(pthread_create(&thread, NULL, set_large_by_many, NULL), 0);
    for (uint64_t end = dz_now() + HARNESS_PATIENCE_S * DZ_SEC;
         atomic_load(&large_refused) < MANY - 2 && dz_now() < end;)
        poll(NULL, 0, 1);
    kill(server_pid(), SIGCONT);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&large_set), 2); /* as many as fit */
    assert_int_equal(stats_now().waiting_bytes, 0);
}

static void do_set_huge(void *arg)
{
    static char huge[300000];
    *(int *)arg = dz_redis_set(redis, DZ_LIT("huge"), dz_slice_make(huge, sizeof huge), 0);
}

static void one_command_alone_may_be_larger_than_the_limit(void **state)
{
    (void)state;
    open_client((dz_redis_options){.max_waiting_bytes = 100000, .timeout_ms = 20000});
    int rc = 1;
    on_fiber(do_set_huge, &rc);
    assert_int_equal(rc, 0);
}

/* --- the tracking cache */

static dz_redis *other; /* another client, which changes things */

static void do_read_k(void *arg)
{
    (void)arg;
    assert_value("k", "v1");
    assert_value("k", "v1");
}

static void do_change_k(void *arg)
{
    (void)arg;
    assert_int_equal(dz_redis_set(other, DZ_LIT("k"), DZ_LIT("v2"), 0), 0);
}

static void do_set_v1(void *arg)
{
    (void)arg;
    assert_int_equal(dz_redis_set(redis, DZ_LIT("k"), DZ_LIT("v1"), 0), 0);
}

static void wait_for_invalidations(uint64_t count)
{
    for (uint64_t end = dz_now() + HARNESS_PATIENCE_S * DZ_SEC;; poll(NULL, 0, 1)) {
        if (stats_now().cache_invalidations >= count)
            return;
        if (dz_now() > end)
            fail_msg("no invalidation came");
    }
}

static void do_read_v2(void *arg)
{
    (void)arg;
    assert_value("k", "v2");
}

static void do_flush_server(void *arg)
{
    (void)arg;
    assert_int_equal(COMMAND(other, "FLUSHALL"), 0);
}

static void do_read_none(void *arg)
{
    (void)arg;
    dz_buf value;
    assert_int_equal(dz_redis_get(redis, DZ_LIT("k"), &value), DZ_E_NOT_FOUND);
}

static void cached_values_follow_changes_by_others(void **state)
{
    (void)state;
    open_client((dz_redis_options){.cache_bytes = 1 << 20});
    assert_int_equal(dz_redis_open(&other, url, &patient), 0);
    on_fiber(do_set_v1, NULL);
    on_fiber(do_read_k, NULL);
    dz_redis_stats before = stats_now();
    on_fiber(do_read_k, NULL);
    assert_int_equal(stats_now().commands, before.commands); /* from memory */
    assert_int_equal(stats_now().cache_hits, before.cache_hits + 2);
    on_fiber(do_change_k, NULL);
    wait_for_invalidations(1);
    on_fiber(do_read_v2, NULL);
    uint64_t flushes = stats_now().cache_flushes;
    on_fiber(do_flush_server, NULL);
    for (uint64_t end = dz_now() + HARNESS_PATIENCE_S * DZ_SEC;
         stats_now().cache_flushes == flushes; poll(NULL, 0, 1))
        assert_true(dz_now() < end);
    on_fiber(do_read_none, NULL);
    harness_join();
    dz_redis_close(other);
    other = NULL;
}

/* --- hashes, for ETags */

static const char *hashed = "v1";

static void do_hash_k(void *arg)
{
    (void)arg;
    dz_buf value;
    uint64_t hash;
    assert_int_equal(dz_redis_get_hash(redis, DZ_LIT("k"), &value, &hash), 0);
    assert_slice(dz_buf_slice(&value), hashed);
    assert_true(hash == XXH3_64bits(value.data, value.len));
    dz_buf_release(&value);
}

static void a_hash_is_computed_once_for_a_reply_that_many_share(void **state)
{
    (void)state;
    open_client((dz_redis_options){.timeout_ms = 20000});
    hashed = "v1";
    on_fiber(do_set_v1, NULL);
    on_fibers_in_one_tick(do_hash_k, MANY);
    dz_redis_stats stats = stats_now();
    assert_int_equal(stats.shared, MANY - 1);
    assert_int_equal(stats.hashes, 1);
    on_fiber(do_hash_k, NULL); /* another reply: Redis does not say that it is the same value */
    assert_int_equal(stats_now().hashes, 2);
}

static void with_the_cache_a_hash_is_computed_once_for_each_version(void **state)
{
    (void)state;
    open_client((dz_redis_options){.cache_bytes = 1 << 20, .timeout_ms = 20000});
    assert_int_equal(dz_redis_open(&other, url, &patient), 0);
    hashed = "v1";
    on_fiber(do_set_v1, NULL);
    on_fiber(do_hash_k, NULL); /* fills the cache */
    for (int i = 0; i < 3; i++)
        on_fibers_in_one_tick(do_hash_k, MANY);
    assert_int_equal(stats_now().hashes, 1);
    hashed = "v2";
    on_fiber(do_change_k, NULL);
    wait_for_invalidations(1);
    on_fiber(do_hash_k, NULL);
    on_fibers_in_one_tick(do_hash_k, MANY);
    assert_int_equal(stats_now().hashes, 2);
    dz_redis_stats stats = stats_now(); /* each read is a hit or a miss, and only one of them */
    assert_int_equal(stats.cache_hits + stats.cache_misses, 1 + 3 * MANY + 1 + MANY);
    assert_int_equal(stats.cache_misses, 2);
    harness_join();
    dz_redis_close(other);
}

static void do_own_writes(void *arg)
{
    (void)arg;
    int64_t number;
    dz_buf value;
    const dz_slice key = DZ_LIT("w");
    for (int i = 0; i < 200; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", i);
        assert_int_equal(dz_redis_set(redis, key, dz_slice_of(text), 0), 0);
        assert_value("w", text);
        assert_value("w", text);
    }
    assert_int_equal(dz_redis_incr(redis, key, 1, &number), 0);
    assert_value("w", "200");
    assert_int_equal(COMMAND(redis, "APPEND", "w", "x"), 0);
    assert_value("w", "200x");
    assert_int_equal(COMMAND(redis, "MSET", "a", "1", "w", "2"), 0);
    assert_value("w", "2");
    assert_int_equal(COMMAND(redis, "RENAME", "w", "x"), 0);
    assert_int_equal(dz_redis_get(redis, key, &value), DZ_E_NOT_FOUND);
    assert_value("x", "2");
    /* A script and FLUSHALL write keys that they do not name. */
    for (int i = 0; i < 50; i++) {
        assert_value("x", i % 2 ? "3" : "2");
        assert_int_equal(COMMAND(redis, "EVAL",
                                 i % 2 ? "redis.call('set','x','2')" : "redis.call('set','x','3')",
                                 "0"),
                         0);
    }
    assert_value("x", "2");
    assert_int_equal(COMMAND(redis, "FLUSHALL"), 0);
    assert_int_equal(dz_redis_get(redis, DZ_LIT("x"), &value), DZ_E_NOT_FOUND);
    assert_int_equal(dz_redis_set(redis, key, DZ_LIT("y"), 0), 0);
    assert_int_equal(dz_redis_del(redis, &key, 1, &number), 0);
    assert_int_equal(dz_redis_get(redis, key, &value), DZ_E_NOT_FOUND);
    assert_int_equal(dz_redis_get(redis, key, &value), DZ_E_NOT_FOUND);
}

static void own_writes_are_seen_at_once(void **state)
{
    (void)state;
    open_client((dz_redis_options){.cache_bytes = 1 << 20});
    on_fiber(do_own_writes, NULL);
    assert_true(stats_now().cache_hits >= 200);
}

/* --- servers that go away */

static void do_get_rc(void *arg)
{
    do_flood(arg);
}

/* Gets until the answer is `wanted`; any other must be one of those that a broken server explains.
 */
static void wait_for_rc(int wanted)
{
    for (uint64_t end = dz_now() + HARNESS_PATIENCE_S * DZ_SEC;; poll(NULL, 0, 1)) {
        int rc = 1;
        on_fiber(do_get_rc, &rc);
        if (rc == wanted)
            return;
        assert_true(rc == DZ_E_UNAVAILABLE || rc == DZ_E_TIMEOUT || rc == DZ_E_NOT_FOUND ||
                    rc == 0);
        if (dz_now() > end)
            fail_msg("%s never came, last %s", dz_error_name(wanted), dz_error_name(rc));
    }
}

static void do_try_set_k(void *arg)
{
    *(int *)arg = dz_redis_set(redis, DZ_LIT("k"), DZ_LIT("v"), 0);
}

/* With a timeout of 50 ms, which may pass by itself on a slow machine. */
static void set_k_in_time(void)
{
    int rc = 1;
    for (uint64_t end = dz_now() + HARNESS_PATIENCE_S * DZ_SEC; rc != 0; poll(NULL, 0, 1)) {
        on_fiber(do_try_set_k, &rc);
        assert_true(rc == 0 || rc == DZ_E_TIMEOUT || rc == DZ_E_UNAVAILABLE || rc == DZ_E_CLOSED);
        assert_true(dz_now() < end);
    }
}

static void a_stopped_server_is_a_timeout_and_recovers(void **state)
{
    (void)state;
    open_client((dz_redis_options){.timeout_ms = 50, .connect_timeout_ms = 50});
    int rc = 1;
    do { /* on a slow machine the connection may be given up before: then once more */
        kill(server_pid(), SIGCONT);
        set_k_in_time();
        kill(server_pid(), SIGSTOP);
        on_fiber(do_get_rc, &rc);
    } while (rc == DZ_E_UNAVAILABLE);
    assert_int_equal(rc, DZ_E_TIMEOUT);
    wait_for_rc(DZ_E_UNAVAILABLE); /* after the silence it is given up, and fails at once */
    kill(server_pid(), SIGCONT);
    wait_for_rc(0);
    assert_int_equal(stats_now().waiting, 0);
}

static void a_cached_value_is_not_served_for_long_without_its_server(void **state)
{
    (void)state;
    open_client(
        (dz_redis_options){.timeout_ms = 50, .connect_timeout_ms = 50, .cache_bytes = 1 << 20});
    set_k_in_time();
    wait_for_rc(0);
    kill(server_pid(), SIGSTOP);
    wait_for_rc(DZ_E_UNAVAILABLE); /* hits until the server was found to be silent */
    assert_int_equal(stats_now().cache_values, 0);
    kill(server_pid(), SIGCONT);
    wait_for_rc(0);
}

static void a_killed_server_fails_at_once_and_a_new_one_is_found(void **state)
{
    (void)state;
    open_client((dz_redis_options){.cache_bytes = 1 << 20});
    on_fiber(do_set_k, NULL);
    wait_for_rc(0);
    kill(server_pid(), SIGKILL);
    wait_for_rc(DZ_E_UNAVAILABLE);
    assert_int_equal(stats_now().cache_values, 0);
    assert_int_equal(stats_now().connected, 0);
    /* Another one at the same place. */
    char path[128];
    snprintf(path, sizeof path, "%s", url + strlen("unix://"));
    pid_t again = fork();
    if (again == 0) {
        execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", path, "--save", "",
               "--logfile", "/dev/null", (char *)NULL);
        _exit(127);
    }
    wait_for_rc(DZ_E_NOT_FOUND); /* it is empty */
    assert_int_equal(stats_now().connected, 1);
    kill(again, SIGKILL);
    waitpid(again, NULL, 0);
}

static void do_fill_up(void *arg)
{
    (void)arg;
    assert_int_equal(dz_redis_set(redis, DZ_LIT("k"), DZ_LIT("v"), 0), 0);
    assert_int_equal(COMMAND(redis, "CONFIG", "SET", "maxmemory", "1"), 0);
    assert_int_equal(dz_redis_set(redis, DZ_LIT("k2"), DZ_LIT("v"), 0), DZ_E_REPLY);
    assert_value("k", "v"); /* reads go on */
    assert_int_equal(COMMAND(redis, "CONFIG", "SET", "maxmemory", "0"), 0);
    assert_int_equal(dz_redis_set(redis, DZ_LIT("k2"), DZ_LIT("v"), 0), 0);
}

static void a_full_server_refuses_writes_and_answers_reads(void **state)
{
    (void)state;
    open_client((dz_redis_options){0});
    on_fiber(do_fill_up, NULL);
}

static void a_server_that_was_never_there_is_unavailable(void **state)
{
    (void)state;
    int rc = 1;
    assert_int_equal(dz_redis_open(&redis, "unix:///nowhere/at/all", NULL), 0);
    on_fiber(do_get_rc, &rc);
    assert_int_equal(rc, DZ_E_UNAVAILABLE);
    on_fiber(do_get_rc, &rc); /* within the back-off: at once */
    assert_int_equal(rc, DZ_E_UNAVAILABLE);
    dz_redis *none;
    assert_int_equal(dz_redis_open(&none, "http://x", NULL), DZ_E_INVALID);
}

static void do_protect(void *arg)
{
    (void)arg;
    assert_int_equal(COMMAND(redis, "CONFIG", "SET", "requirepass", "geheim"), 0);
    assert_int_equal(COMMAND(redis, "ACL", "SETUSER", "app", "on", ">pw", "~*", "+@all"), 0);
}

static void do_get_with_other(void *arg)
{
    dz_buf value;
    *(int *)arg = dz_redis_get(other, DZ_LIT("k"), &value);
    dz_buf_release(&value);
}

static void passwords_users_and_databases(void **state)
{
    (void)state;
    open_client((dz_redis_options){0});
    on_fiber(do_protect, NULL);
    static const struct {
        const char *credentials, *query;
        int rc;
    } cases[] = {{"", "", DZ_E_UNAVAILABLE},        {":wrong@", "", DZ_E_UNAVAILABLE},
                 {":geheim@", "", DZ_E_NOT_FOUND},  {"app:pw@", "?db=3", DZ_E_NOT_FOUND},
                 {"app:no@", "", DZ_E_UNAVAILABLE}, {":geheim@", "?db=99", DZ_E_UNAVAILABLE}};
    dz_redis *all[6];
    for (size_t i = 0; i < 6; i++) {
        char with[256];
        int rc = 1;
        snprintf(with, sizeof with, "unix://%s%s%s", cases[i].credentials, url + 7, cases[i].query);
        assert_int_equal(dz_redis_open(&other, with, &patient), 0);
        on_fiber(do_get_with_other, &rc);
        if (rc != cases[i].rc)
            fail_msg("%s gave %s", with, dz_error_name(rc));
        all[i] = other;
    }
    harness_join();
    for (size_t i = 0; i < 6; i++)
        dz_redis_close(all[i]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_calls_do_what_they_say),
        TEST(errors_are_told_apart),
        TEST(nested_replies_can_be_walked),
        TEST(pipelined_long_values_never_mix),
        TEST(so_with_several_connections),
        TEST(so_with_the_cache),
        TEST(too_many_commands_are_refused_not_queued_for_ever),
        TEST(too_many_bytes_are_refused_not_queued_for_ever),
        TEST(one_command_alone_may_be_larger_than_the_limit),
        TEST(cached_values_follow_changes_by_others),
        TEST(a_hash_is_computed_once_for_a_reply_that_many_share),
        TEST(with_the_cache_a_hash_is_computed_once_for_each_version),
        TEST(own_writes_are_seen_at_once),
        TEST(a_stopped_server_is_a_timeout_and_recovers),
        TEST(a_cached_value_is_not_served_for_long_without_its_server),
        TEST(a_killed_server_fails_at_once_and_a_new_one_is_found),
        TEST(a_full_server_refuses_writes_and_answers_reads),
        TEST(a_server_that_was_never_there_is_unavailable),
        TEST(passwords_users_and_databases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
