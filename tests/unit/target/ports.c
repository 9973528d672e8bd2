#include "../check.h"

#include <target/ports.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int find(dz_port *ports, size_t cap)
{
    dz_tree tree;
    dz_tree_init(&tree, getpid());
    assert_int_equal(dz_tree_refresh(&tree), 0);
    int count = dz_ports_find(&tree, ports, cap);
    dz_tree_close(&tree);
    return count;
}

static int listen_tcp(unsigned *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    *port = ntohs(a.sin_port);
    return fd;
}

static void finds_a_tcp_listener(void **state)
{
    (void)state;
    dz_port ports[4];
    assert_int_equal(find(ports, 4), 0);
    unsigned port;
    int fd = listen_tcp(&port);
    assert_int_equal(find(ports, 4), 1);
    assert_int_equal(ports[0].port, port);
    assert_int_equal(ports[0].kind, DZ_PORT_TCP4);
    assert_string_equal(ports[0].address, "127.0.0.1");
    assert_true(ports[0].loopback);
    assert_int_equal(ports[0].pid, getpid());
    close(fd);
}

static void a_bound_socket_that_does_not_listen_is_not_a_port(void **state)
{
    (void)state;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    dz_port ports[4];
    assert_int_equal(find(ports, 4), 0);
    close(fd);
}

static void a_socket_held_twice_is_listed_once_and_tcp_comes_first(void **state)
{
    (void)state;
    struct sockaddr_un u = {.sun_family = AF_UNIX};
    snprintf(u.sun_path + 1, sizeof u.sun_path - 1, "donmaz-test-%d", (int)getpid());
    int un = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t len =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(u.sun_path + 1));
    assert_int_equal(bind(un, (struct sockaddr *)&u, len), 0);
    assert_int_equal(listen(un, 1), 0);
    unsigned port;
    int fd = listen_tcp(&port), twin = dup(fd);
    dz_port ports[4];
    assert_int_equal(find(ports, 4), 2);
    assert_int_equal(ports[0].port, port);
    assert_int_equal(ports[1].kind, DZ_PORT_UNIX);
    assert_int_equal(ports[1].address[0], '@');
    assert_string_equal(ports[1].address + 1, u.sun_path + 1);
    assert_int_equal(find(ports, 1), 1); /* never more than there is room for */
    close(fd);
    close(twin);
    close(un);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_a_tcp_listener),
        cmocka_unit_test(a_bound_socket_that_does_not_listen_is_not_a_port),
        cmocka_unit_test(a_socket_held_twice_is_listed_once_and_tcp_comes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
