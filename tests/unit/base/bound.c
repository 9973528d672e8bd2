#include "base/bound.h"

#include "../check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

/* A socket bound to any port of that address; -1: the machine has no such addresses. */
static int bind_to(const char *text)
{
    struct sockaddr_in ip4 = {.sin_family = AF_INET};
    struct sockaddr_in6 ip6 = {.sin6_family = AF_INET6};
    bool is_ip4 = inet_pton(AF_INET, text, &ip4.sin_addr) == 1;
    assert_true(is_ip4 || inet_pton(AF_INET6, text, &ip6.sin6_addr) == 1);
    int fd = socket(is_ip4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr *at = is_ip4 ? (void *)&ip4 : (void *)&ip6;
    if (fd >= 0 && bind(fd, at, is_ip4 ? sizeof ip4 : sizeof ip6) == 0)
        return fd;
    assert_false(is_ip4);
    assert_true(errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL);
    if (fd >= 0)
        close(fd);
    return -1;
}

static void an_address_is_told_from_the_loopback(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool loopback;
    } at[] = {
        {"127.0.0.1", true}, {"127.9.9.9", true}, {"0.0.0.0", false}, {"::1", true}, {"::", false}};
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        int fd = bind_to(at[i].text);
        if (fd < 0)
            continue;
        assert_int_equal(dz_bound_to_loopback(fd), at[i].loopback);
        assert_in_range(dz_bound_port(fd), 1, 65535);
        close(fd);
    }
}

static void the_port_is_the_one_bound(void **state)
{
    (void)state;
    int first = bind_to("127.0.0.1"), second = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(second >= 0);
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)dz_bound_port(first)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(dz_bound_port(second), 0); /* none yet */
    assert_int_equal(bind(second, (const struct sockaddr *)&at, sizeof at), -1);
    assert_int_equal(errno, EADDRINUSE); /* by the first */
    close(first);
    close(second);
}

static void what_is_no_ip_socket_has_no_port_and_is_reached_from_here_alone(void **state)
{
    (void)state;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    const int fds[] = {pair[0], -1};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(dz_bound_port(fds[i]), 0);
        assert_true(dz_bound_to_loopback(fds[i]));
    }
    close(pair[0]);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_is_told_from_the_loopback),
        cmocka_unit_test(the_port_is_the_one_bound),
        cmocka_unit_test(what_is_no_ip_socket_has_no_port_and_is_reached_from_here_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
