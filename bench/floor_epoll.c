/* floor_epoll.c: the least an HTTP responder on epoll can do, to measure servers against. It reads
 * whatever a client sent as one request, parses nothing, and sends the same bytes back to everyone.
 *   floor_epoll --port N [--host 127.0.0.1] [--response FILE]
 * FILE holds the whole response, head and body; give it the bytes of the server it is compared
 * with.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 256, REQUEST_MAX = 16 * 1024, RESPONSE_MAX = 64 * 1024 };

static char response[RESPONSE_MAX] = "HTTP/1.1 200 OK\r\n"
                                     "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
                                     "Content-Type: text/plain; charset=utf-8\r\n"
                                     "Content-Length: 11\r\n\r\n"
                                     "hello world";
static size_t response_len;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void read_response(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        fail(path);
    response_len = fread(response, 1, sizeof response, file);
    if (ferror(file) || !feof(file) || response_len == 0) {
        fprintf(stderr, "floor_epoll: %s: empty, unreadable or above %d bytes\n", path,
                RESPONSE_MAX);
        exit(1);
    }
    (void)fclose(file);
}

static int listen_on(const char *host, unsigned short port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1) {
        fprintf(stderr, "floor_epoll: not an IPv4 address: %s\n", host);
        exit(1);
    }
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0)
        fail("socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, SOMAXCONN) < 0)
        fail("listen");
    return fd;
}

static void accept_all(int epoll, int listener)
{
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), on = 1;
        if (fd < 0)
            return;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.fd = fd};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
            close(fd);
    }
}

/* A read that doesn't fill the buffer emptied the socket, so edge triggering needs no second one.
 */
static void answer(int fd)
{
    static char request[REQUEST_MAX];
    ssize_t got = recv(fd, request, sizeof request, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0 || send(fd, response, response_len, MSG_NOSIGNAL) != (ssize_t)response_len)
        close(fd);
}

static unsigned short port_of(const char *text)
{
    char *end;
    errno = 0;
    unsigned long port = strtoul(text, &end, 10);
    if (errno || *end || end == text || port > UINT16_MAX) {
        fprintf(stderr, "floor_epoll: not a port: %s\n", text);
        exit(2);
    }
    return (unsigned short)port;
}

int main(int argc, char **argv)
{
    const char *host = "127.0.0.1";
    unsigned short port = 0;
    response_len = strlen(response);
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--port") == 0)
            port = port_of(argv[i + 1]);
        else if (strcmp(argv[i], "--host") == 0)
            host = argv[i + 1];
        else if (strcmp(argv[i], "--response") == 0)
            read_response(argv[i + 1]);
    }
    if (port == 0) {
        fprintf(stderr, "usage: floor_epoll --port N [--host ADDRESS] [--response FILE]\n");
        return 2;
    }
    int listener = listen_on(host, port), epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) < 0)
        fail("epoll");
    for (;;) {
        struct epoll_event events[EVENTS];
        int count = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd == listener)
                accept_all(epoll, listener);
            else
                answer(events[i].data.fd);
        }
    }
}
