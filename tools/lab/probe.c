#include "probe.h"

#include <base/clock.h>
#include <donmaz/error.h>

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LARGEST = 1 << 20 };

static int address_of(const char *host, unsigned port, struct sockaddr_in *address)
{
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    return inet_pton(AF_INET, host, &address->sin_addr) == 1 ? 0 : DZ_E_INVALID;
}

/* 0 when the socket is ready for `events`; a signal ends the wait with -EINTR. */
static int wait_for(int fd, short events, uint64_t deadline)
{
    uint64_t now = dz_now();
    if (now >= deadline)
        return DZ_E_TIMEOUT;
    uint64_t left = (deadline - now + DZ_MS - 1) / DZ_MS;
    int n = poll(&(struct pollfd){.fd = fd, .events = events}, 1, left > 60000 ? 60000 : (int)left);
    return n > 0 ? 0 : n < 0 ? -errno : DZ_E_TIMEOUT;
}

static int open_connection(const char *host, unsigned port, uint64_t deadline)
{
    struct sockaddr_in address;
    int rc = address_of(host, port, &address), error = 0;
    if (rc < 0)
        return rc;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    rc = connect(fd, (struct sockaddr *)&address, sizeof address) < 0 ? -errno : 0;
    if (rc == -EINPROGRESS && (rc = wait_for(fd, POLLOUT, deadline)) == 0 &&
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &(socklen_t){sizeof error}) == 0)
        rc = -error;
    if (rc < 0) {
        close(fd);
        return rc;
    }
    return fd;
}

int dz_lab_connect(const char *host, unsigned port, uint64_t deadline)
{
    int fd = open_connection(host, port, deadline);
    if (fd < 0)
        return fd;
    close(fd);
    return 0;
}

/* The value of a header field in `head` (status line and fields), without blanks around it. */
static dz_slice field(dz_slice head, const char *name)
{
    size_t len = strlen(name);
    for (const char *line = head.ptr; line;) {
        const char *end = memmem(line, head.len - (size_t)(line - head.ptr), "\r\n", 2);
        const char *stop = end ? end : head.ptr + head.len;
        if ((size_t)(stop - line) > len && line[len] == ':' && strncasecmp(line, name, len) == 0) {
            const char *value = line + len + 1;
            while (value < stop && (*value == ' ' || *value == '\t'))
                value++;
            return dz_slice_make(value, (size_t)(stop - value));
        }
        line = end ? end + 2 : NULL;
    }
    return (dz_slice){0};
}

/* A chunk's size and what may stand behind it on its line (RFC 9112 7.1). False: no such line. */
static bool read_chunk_size(const char *line, const char *end, size_t *size)
{
    const char *at = line;
    for (*size = 0; at < end && isxdigit((unsigned char)*at); at++) {
        unsigned digit = *at <= '9' ? (unsigned)(*at - '0') : ((unsigned)*at | 0x20U) - 'a' + 10U;
        if (*size > LARGEST)
            return false;
        *size = *size * 16 + digit;
    }
    return at > line && (at == end || *at == ';' || *at == ' ' || *at == '\t');
}

/* Finds the chunk at *in, moves *in behind it. 1, 0 when more must come, DZ_E_PROTOCOL. */
static int next_chunk(const char *body, size_t len, size_t *in, dz_slice *chunk)
{
    size_t size;
    const char *line = body + *in, *end = memmem(line, len - *in, "\r\n", 2);
    if (!end)
        return 0;
    if (!read_chunk_size(line, end, &size))
        return DZ_E_PROTOCOL;
    size_t at = (size_t)(end - body) + 2;
    *chunk = dz_slice_make(body + at, size);
    if (size == 0) { /* the last: trailer fields, then an empty line; its CRLF may be this one's */
        const char *last = memmem(end, len - (size_t)(end - body), "\r\n\r\n", 4);
        return last != NULL;
    }
    if (size > len - at || len - at - size < 2)
        return 0;
    *in = at + size + 2;
    return memcmp(body + *in - 2, "\r\n", 2) == 0 ? 1 : DZ_E_PROTOCOL;
}

/* Joins the chunks in place, once all are there: before, nothing is moved, since this is asked
 * again with each piece that comes. Returns as next_chunk does. */
static int join_chunks(char *body, size_t len, dz_slice *joined)
{
    dz_slice chunk;
    size_t in = 0, out = 0;
    int rc;
    while ((rc = next_chunk(body, len, &in, &chunk)) == 1 && chunk.len > 0) {
    }
    if (rc != 1)
        return rc;
    for (in = 0; next_chunk(body, len, &in, &chunk) == 1 && chunk.len > 0; out += chunk.len)
        memmove(body + out, chunk.ptr, chunk.len);
    *joined = dz_slice_make(body, out);
    return 1;
}

/* 1: *answer is filled in; 0: more must come; negative: not HTTP. */
static int parse(char *data, size_t len, bool closed, dz_lab_answer *answer)
{
    char *end = memmem(data, len, "\r\n\r\n", 4);
    if (!end)
        return closed ? (len ? DZ_E_PROTOCOL : DZ_E_CLOSED) : 0;
    if (strncmp(data, "HTTP/1.", 7) != 0 || len < 12)
        return DZ_E_PROTOCOL;
    dz_slice head = dz_slice_make(data, (size_t)(end - data));
    char *body = end + 4;
    size_t have = len - (size_t)(body - data);
    dz_slice length = field(head, "Content-Length"), type = field(head, "Content-Type");
    answer->head = head;
    answer->status = (int)strtol(data + 9, NULL, 10);
    snprintf(answer->type, sizeof answer->type, "%.*s", (int)type.len, type.len ? type.ptr : "");
    if (length.len > 0) {
        size_t want = strtoul(length.ptr, NULL, 10);
        if (have < want)
            return closed ? DZ_E_CLOSED : 0;
        answer->body = dz_slice_make(body, want);
        return 1;
    }
    if (field(head, "Transfer-Encoding").len > 0) {
        int rc = join_chunks(body, have, &answer->body);
        return rc == 0 && closed ? DZ_E_CLOSED : rc;
    }
    answer->body = dz_slice_make(body, have);
    return closed ? 1 : 0;
}

static int receive(int fd, uint64_t deadline, dz_lab_answer *answer)
{
    size_t len = 0;
    char *data = malloc(LARGEST + 1);
    if (!data)
        return DZ_E_NOMEM;
    int rc = 0;
    while (rc == 0) {
        if ((rc = wait_for(fd, POLLIN, deadline)) < 0)
            break;
        ssize_t n = recv(fd, data + len, LARGEST - len, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n < 0) {
            rc = -errno;
            break;
        }
        len += (size_t)n;
        data[len] = '\0';
        rc = parse(data, len, n == 0, answer);
        if (rc == 0 && len == LARGEST)
            rc = DZ_E_TOO_LARGE;
    }
    if (rc != 1) {
        free(data);
        return rc < 0 ? rc : DZ_E_PROTOCOL;
    }
    answer->data = data;
    return 0;
}

int dz_lab_get(const char *host, unsigned port, const char *path, uint64_t deadline,
               dz_lab_answer *answer)
{
    char request[2048];
    *answer = (dz_lab_answer){0};
    int len =
        snprintf(request, sizeof request,
                 "GET %s HTTP/1.1\r\nHost: %s:%u\r\nConnection: close\r\n\r\n", path, host, port);
    if (len >= (int)sizeof request)
        return DZ_E_TOO_LARGE;
    int fd = open_connection(host, port, deadline);
    if (fd < 0)
        return fd;
    /* A new connection's buffer holds a request of this size whole. */
    int rc = send(fd, request, (size_t)len, MSG_NOSIGNAL) == len ? 0 : -(errno ? errno : EIO);
    if (rc == 0)
        rc = receive(fd, deadline, answer);
    close(fd);
    return rc;
}

static int bind_to(const char *host, unsigned port, struct sockaddr_in *address)
{
    socklen_t size = sizeof *address;
    if (address_of(host, port, address) < 0)
        return -1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    /* As servers do: old connections in TIME_WAIT don't count as taken. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(fd, (struct sockaddr *)address, sizeof *address) < 0 ||
        getsockname(fd, (struct sockaddr *)address, &size) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

unsigned dz_lab_free_port(const char *host)
{
    struct sockaddr_in address;
    int fd = bind_to(host, 0, &address);
    if (fd < 0)
        return 0;
    close(fd);
    return ntohs(address.sin_port);
}

bool dz_lab_port_taken(const char *host, unsigned port)
{
    struct sockaddr_in address;
    int fd = bind_to(host, port, &address);
    if (fd < 0)
        return errno == EADDRINUSE;
    close(fd);
    return false;
}
