/* The least that a server of GET /data can do: one thread a connection, a connection to Redis for
 * each, recv straight into a buffer, writev of head and buffer. It parses nothing that it does not
 * need and knows one request only. Usage: floor-redis --port N --redis unix:///path */
#include "redis/url.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

enum { ROOM = 1 << 20, HEAD = 512 };

static dz_redis_url redis_url;

static int connect_redis(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, redis_url.endpoints[0].path, sizeof redis_url.endpoints[0].path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        perror("redis");
        exit(1);
    }
    return fd;
}

/* Reads one bulk string; returns where it begins, NULL when there is none. */
static char *get_doc(int redis, char *buffer, size_t *len)
{
    static const char command[] = "*2\r\n$3\r\nGET\r\n$3\r\ndoc\r\n";
    if (send(redis, command, sizeof command - 1, MSG_NOSIGNAL) != sizeof command - 1)
        return NULL;
    ssize_t got = recv(redis, buffer, ROOM, 0);
    char *line = got > 0 ? memchr(buffer, '\n', (size_t)got) : NULL;
    if (!line || buffer[0] != '$' || buffer[1] == '-')
        return NULL;
    *len = strtoul(buffer + 1, NULL, 10);
    char *doc = line + 1;
    size_t want = (size_t)(doc - buffer) + *len + 2, have = (size_t)got;
    if (want > ROOM)
        return NULL;
    if (have < want &&
        recv(redis, buffer + have, want - have, MSG_WAITALL) != (ssize_t)(want - have))
        return NULL;
    return doc;
}

static bool send_all(int fd, struct iovec *iov, int count)
{
    while (count > 0) {
        ssize_t n = writev(fd, iov, count);
        if (n < 0)
            return false;
        for (; count > 0 && (size_t)n >= iov->iov_len; iov++, count--)
            n -= (ssize_t)iov->iov_len;
        if (count > 0) {
            iov->iov_base = (char *)iov->iov_base + n;
            iov->iov_len -= (size_t)n;
        }
    }
    return true;
}

static bool answer(int client, int redis, char *buffer)
{
    char head[HEAD];
    size_t len = 0;
    char *doc = get_doc(redis, buffer, &len);
    int head_len =
        doc ? snprintf(head, sizeof head,
                       "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                       "Content-Length: %zu\r\n\r\n",
                       len)
            : snprintf(head, sizeof head, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    struct iovec iov[2] = {{head, (size_t)head_len}, {doc, len}};
    return send_all(client, iov, doc ? 2 : 1);
}

static void *serve(void *arg)
{
    int client = (int)(intptr_t)arg, redis = connect_redis();
    const int on = 1;
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    char request[8192], *buffer = malloc(ROOM);
    /* One request a read: a client that pipelines is not served here. */
    while (buffer && recv(client, request, sizeof request, 0) > 0)
        if (!answer(client, redis, buffer))
            break;
    free(buffer);
    close(client);
    close(redis);
    return NULL;
}

static int listen_on(unsigned port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(fd, 128) < 0) {
        perror("listen");
        exit(1);
    }
    return fd;
}

int main(int argc, char **argv)
{
    unsigned port = 0;
    const char *where = getenv("REDIS_URL");
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--port") == 0)
            port = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--redis") == 0)
            where = argv[i + 1];
    }
    if (!where || dz_redis_url_parse(&redis_url, dz_slice_of(where)) < 0 ||
        !redis_url.endpoints[0].path[0]) {
        fprintf(stderr, "usage: floor-redis --port N --redis unix:///path (or REDIS_URL)\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    int listener = listen_on(port);
    for (;;) {
        int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        pthread_t thread;
        if (client < 0) {
            if (errno == EINTR || errno == ECONNABORTED)
                continue;
            perror("accept");
            return 1;
        }
        if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)client) != 0)
            close(client);
        else
            pthread_detach(thread);
    }
}
