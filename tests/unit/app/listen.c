/* The socket a service listens on. */
#include "../check.h"
#include "app/app.h"

#include <donmaz/error.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- a system that is told to refuse (--wrap=getaddrinfo,--wrap=socket,--wrap=listen) --- */

static int resolve_error, socket_error, listen_error;
static struct addrinfo *given; /* instead of what the name means */

int __real_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found);
int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found);
int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found)
{
    if (resolve_error)
        return resolve_error;
    if (!given)
        return __real_getaddrinfo(host, service, hints, found);
    *found = given;
    given = NULL;
    return 0;
}

int __real_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol)
{
    errno = socket_error;
    return socket_error ? -1 : __real_socket(family, type, protocol);
}

int __real_listen(int fd, int backlog);
int __wrap_listen(int fd, int backlog);
int __wrap_listen(int fd, int backlog)
{
    errno = listen_error;
    return listen_error ? -1 : __real_listen(fd, backlog);
}

/* --- the service --- */

static dz_app *app;
static unsigned port;

static int set_up(void **state)
{
    (void)state;
    resolve_error = socket_error = listen_error = 0;
    given = NULL;
    port = 12345;
    app = dz_app_new();
    return app && dz_app_set(app, "port", "0") == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    dz_app_free(app);
    return 0;
}

static int listen_as_set(void)
{
    return dz_core_listen(app->core, &port);
}

static int open_count(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void assert_fails(int error)
{
    int count = open_count();
    assert_int_equal(listen_as_set(), error);
    assert_int_equal(port, 12345);
    assert_int_equal(open_count(), count);
}

static int option(int fd, int name)
{
    int value = -1;
    socklen_t len = sizeof value;
    assert_int_equal(getsockopt(fd, SOL_SOCKET, name, &value, &len), 0);
    return value;
}

static void any_free_port_is_taken_and_told(void **state)
{
    (void)state;
    int fd = listen_as_set();
    assert_true(fd >= 0);
    assert_in_range(port, 1, 65535);
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int client = __real_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(client, (struct sockaddr *)&at, sizeof at), 0);
    close(client);
    close(fd);
}

static void the_socket_never_blocks_and_no_child_program_gets_it(void **state)
{
    (void)state;
    int fd = listen_as_set();
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(option(fd, SO_ACCEPTCONN), 1);
    assert_int_equal(option(fd, SO_REUSEADDR), 1); /* a restart need not wait for old connections */
    close(fd);
}

static void a_port_that_is_taken_is_an_error(void **state)
{
    (void)state;
    unsigned taken;
    int fd = dz_core_listen(app->core, &taken);
    assert_true(fd >= 0);
    app->core->settings.port = taken;
    assert_fails(-EADDRINUSE);
    assert_int_equal(dz_app_start(app, NULL), -EADDRINUSE);
    close(fd);
}

static void an_address_of_another_machine_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(dz_app_set(app, "host", "192.0.2.1"), 0); /* TEST-NET: nobody's */
    assert_fails(-EADDRNOTAVAIL);
}

static void a_name_without_an_address_is_an_error(void **state)
{
    (void)state;
    resolve_error = EAI_NONAME;
    assert_fails(-EADDRNOTAVAIL);
}

static void an_ipv6_address_has_its_port_told_as_well(void **state)
{
    (void)state;
    assert_int_equal(dz_app_set(app, "host", "::1"), 0);
    int fd = listen_as_set();
    if (fd == -EADDRNOTAVAIL || fd == -EAFNOSUPPORT)
        skip(); /* a machine without */
    assert_true(fd >= 0);
    struct sockaddr_in6 at = {0};
    socklen_t len = sizeof at;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    assert_int_equal(port, ntohs(at.sin6_port));
    close(fd);
}

/* What the resolver answers for `first`, then for `second`: freeaddrinfo frees such a list. */
static struct addrinfo *both(const char *first, const char *second)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *list, *rest;
    assert_int_equal(__real_getaddrinfo(first, "0", &hints, &list), 0);
    assert_int_equal(__real_getaddrinfo(second, "0", &hints, &rest), 0);
    struct addrinfo *last = list;
    while (last->ai_next)
        last = last->ai_next;
    last->ai_next = rest;
    return list;
}

static void of_a_name_s_addresses_the_first_that_can_be_had_is_taken(void **state)
{
    (void)state;
    given = both("192.0.2.1", "127.0.0.1");
    int count = open_count(), fd = listen_as_set();
    assert_true(fd >= 0);
    assert_int_equal(open_count(), count + 1);
    struct sockaddr_in at = {0};
    socklen_t len = sizeof at;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    assert_int_equal(at.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    assert_int_equal(ntohs(at.sin_port), port);
    close(fd);
    given = both("127.0.0.1", "192.0.2.1");
    fd = listen_as_set();
    assert_true(fd >= 0); /* and nothing more is tried */
    close(fd);
}

static void without_descriptors_or_memory_the_reason_is_told(void **state)
{
    (void)state;
    static const int errors[] = {EMFILE, ENFILE, ENOBUFS, ENOMEM};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        socket_error = errors[i];
        assert_fails(-errors[i]);
    }
    assert_int_equal(dz_app_start(app, NULL), -ENOMEM);
}

static void a_socket_that_can_t_listen_is_closed(void **state)
{
    (void)state;
    listen_error = EADDRINUSE; /* another one was quicker */
    assert_fails(-EADDRINUSE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(any_free_port_is_taken_and_told),
        TEST(the_socket_never_blocks_and_no_child_program_gets_it),
        TEST(a_port_that_is_taken_is_an_error),
        TEST(an_address_of_another_machine_is_an_error),
        TEST(a_name_without_an_address_is_an_error),
        TEST(an_ipv6_address_has_its_port_told_as_well),
        TEST(of_a_name_s_addresses_the_first_that_can_be_had_is_taken),
        TEST(without_descriptors_or_memory_the_reason_is_told),
        TEST(a_socket_that_can_t_listen_is_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
