/* The answer to a single request, however it arrives: linked with --wrap=recv. */
#include "lab/probe.h"

#include "../check.h"

#include <base/clock.h>
#include <donmaz/error.h>

#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

static size_t piece; /* bytes a recv gives at most */

ssize_t __real_recv(int fd, void *to, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t size, int flags);

ssize_t __wrap_recv(int fd, void *to, size_t size, int flags)
{
    return __real_recv(fd, to, size < piece ? size : piece, flags);
}

typedef struct server {
    int fd;
    unsigned port;
    const char *answer;
} server;

static void *serve_one(void *arg)
{
    const server *s = arg;
    char request[4096];
    size_t have = 0;
    int fd = accept(s->fd, NULL, NULL);
    while (fd >= 0 && have < sizeof request && !memmem(request, have, "\r\n\r\n", 4)) {
        ssize_t n = read(fd, request + have, sizeof request - have);
        if (n <= 0)
            break;
        have += (size_t)n;
    }
    if (fd >= 0) {
        /* A failure shows as an answer cut short. */
        (void)send(fd, s->answer, strlen(s->answer), MSG_NOSIGNAL);
        close(fd);
    }
    return NULL;
}

static int ask(const char *answer, dz_lab_answer *out)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    server s = {.fd = socket(AF_INET, SOCK_STREAM, 0), .answer = answer};
    pthread_t thread;
    assert_true(s.fd >= 0);
    assert_int_equal(bind(s.fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(s.fd, 1), 0);
    assert_int_equal(getsockname(s.fd, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(pthread_create(&thread, NULL, serve_one, &s), 0);
    int rc = dz_lab_get("127.0.0.1", ntohs(address.sin_port), "/", dz_now() + 60 * DZ_SEC, out);
    pthread_join(thread, NULL);
    close(s.fd);
    return rc;
}

#define CHUNKED "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

static void check_body(const char *answer, const char *wanted)
{
    static const size_t pieces[] = {1, 3, 7, 4096};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        dz_lab_answer got;
        piece = pieces[i];
        assert_int_equal(ask(answer, &got), 0);
        assert_int_equal(got.status, 200);
        assert_int_equal(got.body.len, strlen(wanted));
        assert_memory_equal(got.body.ptr, wanted, got.body.len);
        free(got.data);
    }
}

static void check_error(const char *answer, int wanted)
{
    dz_lab_answer got;
    piece = 5;
    assert_int_equal(ask(answer, &got), wanted);
}

static void chunks_are_joined(void **state)
{
    (void)state;
    check_body(CHUNKED "5\r\nhello\r\n6;ext=\"1\"\r\n world\r\n0\r\n\r\n", "hello world");
    check_body(CHUNKED "00A\r\n0123456789\r\n0\r\nTrailer: 1\r\nOther: 2\r\n\r\n", "0123456789");
    check_body(CHUNKED "0\r\n\r\n", "");
}

static void a_body_may_hold_what_ends_one(void **state)
{
    (void)state;
    check_body(CHUNKED "2\r\nab\r\n8\r\n0\r\n\r\ncde\r\n5\r\n0\r\n\r\n\r\n3\r\nfgh\r\n0\r\n\r\n",
               "ab0\r\n\r\ncde0\r\n\r\nfgh");
}

static void broken_framing_is_no_answer(void **state)
{
    (void)state;
    check_error(CHUNKED "zz\r\nhello\r\n0\r\n\r\n", DZ_E_PROTOCOL);
    check_error(CHUNKED "-1\r\nhello\r\n0\r\n\r\n", DZ_E_PROTOCOL);
    check_error(CHUNKED "\r\nhello\r\n0\r\n\r\n", DZ_E_PROTOCOL);
    check_error(CHUNKED "5\r\nhello!\r\n0\r\n\r\n", DZ_E_PROTOCOL);
    check_error(CHUNKED "ffffffffffffffff\r\nhello\r\n0\r\n\r\n", DZ_E_PROTOCOL);
    check_error("not HTTP at all\r\n\r\n", DZ_E_PROTOCOL);
}

static void a_body_cut_off_is_no_answer(void **state)
{
    (void)state;
    check_error(CHUNKED "5\r\nhel", DZ_E_CLOSED);
    check_error(CHUNKED "5\r\nhello\r\n0\r\n", DZ_E_CLOSED);
    check_error("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", DZ_E_CLOSED);
    check_error("", DZ_E_CLOSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_are_joined),
        cmocka_unit_test(a_body_may_hold_what_ends_one),
        cmocka_unit_test(broken_framing_is_no_answer),
        cmocka_unit_test(a_body_cut_off_is_no_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
