/* Names are looked up off the loop: getaddrinfo is replaced (by the linker) by one that answers
 * when the test lets it. */
#include "../check.h"

#include "harness.h"

#include <donmaz/redis.h>

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static unsigned asked, inside, allowed; /* lookups of names: begun, going on, let through */
static int outcome;                     /* of a lookup */
static bool dead_first;                 /* the first address is one where nobody listens */

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found);

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found)
{
    if (hints->ai_flags & AI_NUMERICHOST)
        return __real_getaddrinfo(host, port, hints, found);
    pthread_mutex_lock(&lock);
    unsigned mine = asked++;
    inside++;
    pthread_cond_broadcast(&change);
    while (allowed <= mine)
        pthread_cond_wait(&change, &lock);
    int rc = outcome;
    bool dead = dead_first;
    inside--;
    pthread_cond_broadcast(&change);
    pthread_mutex_unlock(&lock);
    if (rc != 0)
        return rc;
    rc = __real_getaddrinfo("127.0.0.1", port, hints, found);
    if (rc == 0 && dead) {
        struct addrinfo *second = *found;
        rc = __real_getaddrinfo("127.0.0.1", "1", hints, found);
        (*found)->ai_next = second;
    }
    return rc;
}

static atomic_bool no_threads;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *arg)
{
    return atomic_load(&no_threads) ? EAGAIN
                                    : __real_pthread_create(thread, attributes, start, arg);
}

static void allow(unsigned count)
{
    pthread_mutex_lock(&lock);
    allowed += count;
    pthread_cond_broadcast(&change);
    pthread_mutex_unlock(&lock);
}

/* Until so many lookups were begun. */
static void wait_asked(unsigned count)
{
    pthread_mutex_lock(&lock);
    while (asked < count)
        pthread_cond_wait(&change, &lock);
    pthread_mutex_unlock(&lock);
}

/* A server that answers all it is asked with what HELLO or GET would get. */
static int listener = -1;
static unsigned port;

static void *serve(void *unused)
{
    (void)unused;
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0)
            return NULL;
        char in[512];
        while (recv(fd, in, sizeof in, 0) > 0) {
            const char *out =
                memmem(in, sizeof in, "HELLO", 5) ? "%1\r\n+proto\r\n:3\r\n" : "$1\r\nv\r\n";
            memset(in, 0, sizeof in);
            if (send(fd, out, strlen(out), MSG_NOSIGNAL) < 0)
                break;
        }
        close(fd);
    }
}

static pthread_t server;
static dz_redis *redis;

static int set_up(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, len) < 0 || listen(listener, 8) < 0 ||
        getsockname(listener, (struct sockaddr *)&address, &len) < 0)
        return -1;
    port = ntohs(address.sin_port);
    asked = inside = allowed = 0;
    outcome = 0;
    dead_first = false;
    return pthread_create(&server, NULL, serve, NULL) != 0 ? -1 : harness_start(state);
}

static int tear_down(void **state)
{
    (void)state;
    harness_join();
    dz_redis_close(redis);
    redis = NULL;
    dz_runtime_free(harness);
    shutdown(listener, SHUT_RDWR);
    pthread_join(server, NULL);
    close(listener);
    /* Threads that outlived their loop end before the next test counts. */
    allow(1000);
    pthread_mutex_lock(&lock);
    while (inside > 0)
        pthread_cond_wait(&change, &lock);
    pthread_mutex_unlock(&lock);
    return 0;
}

static void open_client(uint64_t timeout_ms)
{
    char url[64];
    const dz_redis_options options = {.timeout_ms = timeout_ms, .connect_timeout_ms = timeout_ms};
    snprintf(url, sizeof url, "redis://redis.example:%u", port);
    assert_int_equal(dz_redis_open(&redis, url, &options), 0);
}

static void get(void *arg)
{
    dz_buf value;
    *(int *)arg = dz_redis_get(redis, DZ_LIT("k"), &value);
    dz_buf_release(&value);
}

static void *get_elsewhere(void *arg)
{
    on_fiber(get, arg);
    return NULL;
}

static void nothing(void *arg)
{
    *(int *)arg = 1;
}

static void the_loop_goes_on_while_a_name_is_looked_up(void **state)
{
    (void)state;
    pthread_t thread;
    int rc = 1, ran = 0;
    open_client(60000);
    assert_int_equal(pthread_create(&thread, NULL, get_elsewhere, &rc), 0);
    wait_asked(1);
    on_fiber(nothing, &ran); /* getaddrinfo has not come back */
    assert_int_equal(ran, 1);
    allow(1);
    pthread_join(thread, NULL);
    assert_int_equal(rc, 0);
}

static void a_lookup_that_takes_too_long_is_a_timeout_and_not_repeated(void **state)
{
    (void)state;
    open_client(30);
    for (int i = 0; i < 5; i++) {
        int rc = 1;
        on_fiber(get, &rc);
        assert_true(rc == DZ_E_TIMEOUT || rc == DZ_E_UNAVAILABLE);
    }
    wait_asked(1);
    assert_int_equal(asked, 1); /* however often it was wanted */
    allow(1000);
    for (uint64_t end = dz_now() + 60 * DZ_SEC;; poll(NULL, 0, 2)) {
        int rc = 1;
        on_fiber(get, &rc);
        if (rc == 0)
            break;
        assert_true(dz_now() < end);
    }
}

static void a_name_that_does_not_exist(void **state)
{
    (void)state;
    char why[200];
    int rc = 1;
    outcome = EAI_NONAME;
    allow(1000);
    open_client(60000);
    on_fiber(get, &rc);
    assert_int_equal(rc, DZ_E_UNAVAILABLE);
    assert_true(dz_redis_why(redis, why, sizeof why) > 0);
    assert_non_null(strstr(why, "redis.example:"));
    assert_non_null(strstr(why, "the name does not resolve: Name or service not known"));
}

static void no_thread_for_a_lookup(void **state)
{
    (void)state;
    char why[200];
    int rc = 1;
    allow(1000);
    open_client(60000);
    atomic_store(&no_threads, true);
    on_fiber(get, &rc);
    atomic_store(&no_threads, false);
    assert_int_equal(rc, DZ_E_UNAVAILABLE);
    assert_true(dz_redis_why(redis, why, sizeof why) > 0);
    assert_non_null(strstr(why, "no thread could be started"));
    for (uint64_t end = dz_now() + 60 * DZ_SEC; rc != 0; poll(NULL, 0, 2)) {
        on_fiber(get, &rc);
        assert_true(dz_now() < end);
    }
}

static void each_connection_looks_the_name_up_anew(void **state)
{
    (void)state;
    int rc = 1;
    allow(1000);
    open_client(60000);
    outcome = EAI_AGAIN;
    on_fiber(get, &rc);
    assert_int_equal(rc, DZ_E_UNAVAILABLE);
    outcome = 0;
    for (uint64_t end = dz_now() + 60 * DZ_SEC; rc != 0; poll(NULL, 0, 2)) {
        on_fiber(get, &rc); /* after the back-off */
        assert_true(dz_now() < end);
    }
    assert_true(asked >= 2);
}

static void the_next_address_is_tried_at_once(void **state)
{
    (void)state;
    int rc = 1;
    dz_redis_stats stats;
    dead_first = true;
    allow(1000);
    open_client(60000);
    on_fiber(get, &rc);
    assert_int_equal(rc, 0);
    dz_redis_get_stats(redis, &stats);
    assert_int_equal(stats.connect_failures, 0);
}

static void a_client_is_closed_while_its_lookup_goes_on(void **state)
{
    (void)state;
    open_client(20);
    int rc = 1;
    on_fiber(get, &rc);
    assert_true(rc == DZ_E_TIMEOUT || rc == DZ_E_UNAVAILABLE);
    wait_asked(1);
    /* tear_down closes it; the thread comes back to nobody. */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_loop_goes_on_while_a_name_is_looked_up),
        TEST(a_lookup_that_takes_too_long_is_a_timeout_and_not_repeated),
        TEST(a_name_that_does_not_exist),
        TEST(no_thread_for_a_lookup),
        TEST(each_connection_looks_the_name_up_anew),
        TEST(the_next_address_is_tried_at_once),
        TEST(a_client_is_closed_while_its_lookup_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
