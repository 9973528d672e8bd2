/* A million answers while Redis is killed, paused, restarted, slowed, filled up, flushed, kept busy
 * and made to hang up. Values carry their key and a version:
 *   - no answer is another key's, half of one, or one that was never written;
 *   - none is older than a version that Redis had confirmed before it was asked for;
 *   - every call comes back, and when the fault is over all is well again by itself.
 *
 *     test-redis-million [--answers N] [--seed S] [--fault NAME]
 *
 * Each fault is met without and with the tracking cache, over one connection and over four. */
#include "../check.h"

#include "harness.h"

#include <donmaz/redis.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    READERS = 40,
    WRITERS = 8,
    KEYS = 200,
    LONGEST = 6000,
    TIMEOUT_MS = 150,
    HANG_S = 20, /* a call that takes that long hangs: it is 100 timeouts and more */
    PATIENCE_S = 60,
    LEAST_HARM = 2, /* in each round, however few answers are wanted */
};

/* --- the server --- */

static char folder[64], path[96], url[128];
static pid_t server;

static void start_server(void)
{
    server = fork();
    if (server != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", path, "--save", "",
           "--dir", folder, "--logfile", "/dev/null", "--enable-debug-command", "local",
           "--busy-reply-threshold", "20", (char *)NULL);
    _exit(127);
}

static void end_server(int signal)
{
    if (server <= 0)
        return;
    kill(server, SIGCONT);
    kill(server, signal);
    waitpid(server, NULL, 0);
    server = 0;
}

/* Sends one command over a connection of its own, as Redis reads it from people. The connection;
 * -1 when there is none. */
static int say(const char *command)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        send(fd, command, strlen(command), MSG_NOSIGNAL) > 0 &&
        send(fd, "\r\n", 2, MSG_NOSIGNAL) == 2)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* The answer's first bytes; empty when there is none within a second. */
static const char *tell(const char *command)
{
    static char reply[64];
    int fd = say(command);
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    ssize_t n = fd >= 0 && poll(&wait, 1, 1000) == 1 ? recv(fd, reply, sizeof reply - 1, 0) : -1;
    if (fd >= 0)
        close(fd);
    reply[n > 0 ? n : 0] = '\0';
    return reply;
}

static void wait_for_server(void)
{
    for (uint64_t end = dz_now() + PATIENCE_S * DZ_SEC; strncmp(tell("PING"), "+PONG", 5) != 0;
         poll(NULL, 0, 2))
        if (dz_now() > end)
            fail_msg("redis-server does not answer");
}

/* --- the values: "17:3:" and letters, as many as key and version say --- */

static size_t value_of(unsigned key, unsigned version, char *text)
{
    size_t head = (size_t)snprintf(text, 32, "%u:%u:", key, version);
    size_t len = ((size_t)key * 37 + (size_t)version * 101) % (LONGEST - 32);
    memset(text + head, 'a' + (int)((key + version) % 26), len);
    return head + len;
}

typedef struct state {
    _Atomic unsigned sent;      /* the newest version that went out */
    _Atomic unsigned confirmed; /* the newest that Redis said it has */
    /* A write has an unknown fate, and may still be executed: order proves nothing any more. */
    atomic_bool uncertain;
} key_state;

static key_state keys[KEYS];
static dz_redis *redis;
static atomic_bool may_be_missing, proven;
static atomic_uint goal, answered, failed, harmed;
static _Atomic uint64_t longest;

__attribute__((format(printf, 1, 2))) static void wrong(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    abort(); /* on a fiber cmocka can't end the test */
}

static void check(unsigned key, unsigned least, dz_slice got)
{
    char expected[LONGEST], head[32];
    unsigned theirs, version;
    snprintf(head, sizeof head, "%.*s", (int)(got.len < 31 ? got.len : 31), got.ptr);
    if (sscanf(head, "%u:%u:", &theirs, &version) != 2 || theirs != key)
        wrong("k%u gave %.30s", key, head);
    size_t len = value_of(key, version, expected);
    if (got.len != len || memcmp(got.ptr, expected, len) != 0)
        wrong("k%u gave something like %.30s, %zu bytes of %zu", key, head, got.len, len);
    if (version > atomic_load(&keys[key].sent))
        wrong("k%u gave version %u, which nobody wrote", key, version);
    if (version < least)
        wrong("k%u gave version %u after %u was confirmed", key, version, least);
}

static void note_time(uint64_t began)
{
    uint64_t took = dz_now() - began, most = atomic_load(&longest);
    while (took > most && !atomic_compare_exchange_weak(&longest, &most, took)) {
    }
}

static bool is_explained(int rc)
{
    return rc == DZ_E_UNAVAILABLE || rc == DZ_E_TIMEOUT || rc == DZ_E_CLOSED;
}

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

static int get(unsigned key)
{
    char name[16];
    dz_buf value;
    snprintf(name, sizeof name, "k%u", key);
    unsigned least = atomic_load(&keys[key].uncertain) ? 0 : atomic_load(&keys[key].confirmed);
    uint64_t began = dz_now();
    int rc = dz_redis_get(redis, dz_slice_of(name), &value);
    note_time(began);
    if (rc == 0)
        check(key, least, dz_buf_slice(&value));
    else if (rc == DZ_E_NOT_FOUND && !atomic_load(&may_be_missing))
        wrong("k%u is missing", key);
    else if (rc != DZ_E_NOT_FOUND && !is_explained(rc))
        wrong("k%u: %s", key, dz_error_name(rc));
    dz_buf_release(&value);
    return rc;
}

static int set(unsigned key)
{
    char name[16], text[LONGEST];
    snprintf(name, sizeof name, "k%u", key);
    unsigned version = atomic_fetch_add(&keys[key].sent, 1) + 1;
    size_t len = value_of(key, version, text);
    uint64_t began = dz_now();
    int rc = dz_redis_set(redis, dz_slice_of(name), dz_slice_make(text, len), 0);
    note_time(began);
    if (rc == 0)
        atomic_store(&keys[key].confirmed, version);
    else if (rc == DZ_E_CLOSED || rc == DZ_E_TIMEOUT)
        atomic_store(&keys[key].uncertain, true);
    else if (rc != DZ_E_UNAVAILABLE && rc != DZ_E_REPLY /* out of memory */)
        wrong("set k%u: %s", key, dz_error_name(rc));
    return rc;
}

static void count_answer(int rc)
{
    atomic_fetch_add(rc == 0 || rc == DZ_E_NOT_FOUND || rc == DZ_E_REPLY ? &answered : &failed, 1);
    if (is_explained(rc)) /* a service would not ask again at once, either */
        dz_fiber_sleep(dz_now() + DZ_MS);
}

static bool go_on(void)
{
    return atomic_load(&answered) < atomic_load(&goal) || atomic_load(&harmed) < LEAST_HARM ||
           !atomic_load(&proven);
}

static void keep_reading(void *arg)
{
    uint64_t seed = (uint64_t)(uintptr_t)arg;
    while (go_on())
        count_answer(get((unsigned)next_random(&seed) % KEYS));
}

/* Each writer has keys of its own, so that versions have an order. */
static void keep_writing(void *arg)
{
    unsigned first = (unsigned)(uintptr_t)arg % WRITERS;
    for (unsigned key = first; go_on(); key = key + WRITERS < KEYS ? key + WRITERS : first) {
        count_answer(set(key));
        dz_fiber_sleep(dz_now() + DZ_MS / 4);
    }
}

/* Again where the machine is too busy for the time limit. */
static void write_all(void *arg)
{
    (void)arg;
    const uint64_t end = dz_now() + PATIENCE_S * DZ_SEC;
    for (unsigned key = 0; key < KEYS; key++) {
        atomic_store(&keys[key].uncertain, false);
        while (set(key) != 0)
            if (dz_now() > end)
                wrong("k%u can't be written before the fault", key);
    }
}

static void read_one(void *arg)
{
    *(int *)arg = get(0);
}

/* --- the faults, again and again until enough answers came --- */

static uint64_t fault_seed;

static void pause_ms(unsigned least, unsigned most)
{
    poll(NULL, 0, (int)(least + next_random(&fault_seed) % (most - least + 1)));
}

static void fault_kill(void)
{
    end_server(SIGKILL);
    pause_ms(0, 40);
    start_server();
    wait_for_server();
}

static void fault_restart(void)
{
    end_server(SIGTERM);
    start_server();
    wait_for_server();
}

static void fault_pause(void)
{
    kill(server, SIGSTOP);
    pause_ms(1, 4 * TIMEOUT_MS); /* shorter and longer than what gives it up */
    kill(server, SIGCONT);
}

static void fault_slow(void)
{
    tell("DEBUG SLEEP 0.03");
}

static void fault_fill(void)
{
    tell("CONFIG SET maxmemory 1");
    pause_ms(10, 60);
    tell("CONFIG SET maxmemory 0");
}

static void fault_output(void)
{
    tell("CONFIG SET client-output-buffer-limit \"normal 12000 0 0\"");
    pause_ms(10, 60);
    tell("CONFIG SET client-output-buffer-limit \"normal 0 0 0\"");
}

static void fault_cut(void)
{
    tell("CLIENT KILL TYPE normal SKIPME yes");
}

static void fault_busy(void)
{
    int fd = say("EVAL \"while true do end\" 0");
    if (fd < 0)
        return;
    pause_ms(10, TIMEOUT_MS); /* first it says nothing, then that it is busy */
    /* Until it is stopped, or was refused because the one before had not quite ended. */
    struct pollfd answer = {.fd = fd, .events = POLLIN};
    while (strncmp(tell("SCRIPT KILL"), "+OK", 3) != 0 && poll(&answer, 1, 1) == 0) {
    }
    close(fd);
}

static void fault_flush(void)
{
    tell("FLUSHALL");
}

static const struct fault {
    const char *name;
    void (*apply)(void);
    unsigned pause_ms; /* between two */
    bool loses_values, breaks_connections;
} faults[] = {
    {"kill", fault_kill, 60, true, true},     {"restart", fault_restart, 60, true, true},
    {"pause", fault_pause, 60, false, false}, {"slow", fault_slow, 20, false, false},
    {"fill", fault_fill, 20, false, false},   {"output", fault_output, 20, false, true},
    {"cut", fault_cut, 15, false, true},      {"busy", fault_busy, 30, false, false},
    {"flush", fault_flush, 10, true, false},
};
enum { FAULTS = sizeof faults / sizeof *faults };

/* On a thread of its own, so that the servers are children of the main thread, which stays. */
static void *load(void *unused)
{
    (void)unused;
    on_fibers_of((harness_work[]){{keep_reading, READERS}, {keep_writing, WRITERS}}, 2);
    return NULL;
}

/* Whether the round has met what it is about. */
static bool is_proven(const struct fault *fault, bool cache)
{
    dz_redis_stats stats;
    dz_redis_get_stats(redis, &stats);
    return (!fault->breaks_connections || stats.losses > 0) && (!cache || stats.cache_hits > 0);
}

static void harm(const struct fault *fault, bool cache)
{
    pthread_t loader;
    const uint64_t end = dz_now() + PATIENCE_S * DZ_SEC;
    assert_int_equal(pthread_create(&loader, NULL, load, NULL), 0);
    while (go_on()) {
        pause_ms(fault->pause_ms / 2, fault->pause_ms);
        fault->apply();
        atomic_fetch_add(&harmed, 1);
        atomic_store(&proven, is_proven(fault, cache) || dz_now() > end);
    }
    pthread_join(loader, NULL);
}

/* --- a round --- */

static void wait_until_well(void)
{
    dz_redis_stats stats;
    for (uint64_t end = dz_now() + PATIENCE_S * DZ_SEC;; poll(NULL, 0, 2)) {
        int rc = 1;
        on_fiber(read_one, &rc);
        dz_redis_get_stats(redis, &stats);
        if ((rc == 0 || rc == DZ_E_NOT_FOUND) && stats.waiting == 0)
            return;
        if (dz_now() > end)
            fail_msg("it did not recover: %s, %llu wait", dz_error_name(rc),
                     (unsigned long long)stats.waiting);
    }
}

static void round_of(const struct fault *fault, dz_redis_options options, unsigned answers)
{
    options.timeout_ms = options.connect_timeout_ms = TIMEOUT_MS;
    start_server();
    wait_for_server();
    assert_int_equal(harness_start(NULL), 0);
    assert_int_equal(dz_redis_open(&redis, url, &options), 0);
    atomic_store(&may_be_missing, fault->loses_values);
    atomic_store(&answered, 0);
    atomic_store(&failed, 0);
    atomic_store(&harmed, 0);
    atomic_store(&longest, 0);
    atomic_store(&proven, false);
    atomic_store(&goal, answers);
    on_fiber(write_all, NULL);
    harm(fault, options.cache_bytes > 0);
    wait_until_well();
    dz_redis_stats stats;
    dz_redis_get_stats(redis, &stats);
    print_message("%-8s%2u connection%s%s: %u answered, %u failed, %llu lost, %llu sent again, "
                  "%llu hits, longest call %llu ms\n",
                  fault->name, options.connections, options.connections > 1 ? "s" : " ",
                  options.cache_bytes ? ", cache" : "       ", atomic_load(&answered),
                  atomic_load(&failed), (unsigned long long)stats.losses,
                  (unsigned long long)stats.retries, (unsigned long long)stats.cache_hits,
                  (unsigned long long)(atomic_load(&longest) / DZ_MS));
    assert_true(atomic_load(&longest) < HANG_S * DZ_SEC);
    assert_true(is_proven(fault, options.cache_bytes > 0));
    harness_join();
    dz_redis_close(redis);
    dz_runtime_free(harness);
    end_server(SIGKILL);
}

static unsigned answers = 20000;
static uint64_t seed = 1;
static const char *only;

static void every_answer_belongs_to_its_question(void **state)
{
    (void)state;
    static const dz_redis_options modes[] = {
        {.connections = 1},
        {.connections = 4},
        {.connections = 1, .cache_bytes = 300000}, /* half of the values fit */
    };
    snprintf(folder, sizeof folder, "/tmp/donmaz-million-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/sock", folder);
    snprintf(url, sizeof url, "unix://%s", path);
    unsigned rounds = FAULTS * 3;
    fault_seed = seed;
    for (size_t f = 0; f < FAULTS; f++)
        for (size_t m = 0; m < 3; m++)
            if (!only || strcmp(only, faults[f].name) == 0)
                round_of(&faults[f], modes[m], (answers + rounds - 1) / rounds);
    unlink(path);
    rmdir(folder);
}

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--answers") == 0)
            answers = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--fault") == 0)
            only = argv[i + 1];
    }
    if (system("command -v redis-server >/dev/null") != 0) {
        fprintf(stderr, "redis-server is not installed\n");
        return 77; /* skipped, as meson says it */
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_answer_belongs_to_its_question)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
