#include "stress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

stress_client_counts stress_asked;

enum { BATCH = 12, IN = 512 << 10, OUT = 512 << 10, PATIENCE_S = 120 };

typedef struct expected {
    uint64_t number;
    enum { NUMBER, LETTERS, SUM } body;
    uint64_t size, sum;
} expected;

typedef struct talk {
    stress_client *client;
    int fd;
    char *in, *out;
    size_t in_at, in_end, out_len;
    expected batch[BATCH];
    int count;
} talk;

uint64_t stress_random(uint64_t *state)
{
    /* xorshift64* */
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717) >> 11;
}

static uint64_t below(talk *it, uint64_t limit)
{
    return stress_random(&it->client->random) % limit;
}

/* --- asking --- */

static void append(talk *it, const char *text, size_t len)
{
    if (len > OUT - it->out_len)
        stress_fail("a batch is too long");
    memcpy(it->out + it->out_len, text, len);
    it->out_len += len;
}

static void append_upload(talk *it, expected *wanted, uint64_t size)
{
    char line[128];
    bool chunked = below(it, 2);
    int len = snprintf(line, sizeof line, "POST /upload/%llu HTTP/1.1\r\nHost: s\r\n",
                       (unsigned long long)wanted->number);
    append(it, line, (size_t)len);
    if (chunked)
        len = snprintf(line, sizeof line, "Transfer-Encoding: chunked\r\n\r\n%llx\r\n",
                       (unsigned long long)size);
    else
        len = snprintf(line, sizeof line, "Content-Length: %llu\r\n\r\n", (unsigned long long)size);
    append(it, line, (size_t)len);
    wanted->body = SUM;
    wanted->size = size;
    wanted->sum = 0;
    for (uint64_t i = 0; i < size; i++) {
        char byte = (char)('0' + (wanted->number + i) % 10);
        wanted->sum += (unsigned char)byte;
        append(it, &byte, 1);
    }
    if (chunked)
        append(it, "\r\n0\r\n\r\n", 7);
}

static void append_request(talk *it, bool alone)
{
    static _Atomic uint64_t numbers;
    expected *wanted = &it->batch[it->count++];
    *wanted = (expected){.number = atomic_fetch_add(&numbers, 1) + 1};
    unsigned long long n = wanted->number, us = below(it, 1600), size = 0;
    char line[160];
    int len = 0;
    switch (below(it, 16)) {
    case 0:
        append_upload(it, wanted, 1 + below(it, alone ? 400000 : 3000));
        return;
    case 1:
        size = 1 + below(it, alone ? 900000 : 20000);
        wanted->body = LETTERS;
        wanted->size = size;
        len = snprintf(line, sizeof line, "GET /stream/%llu/%llu HTTP/1.1\r\n", size, n);
        break;
    case 2:
        len = snprintf(line, sizeof line, "GET /pool/%llu HTTP/1.1\r\n", n);
        break;
    case 3:
        len = snprintf(line, sizeof line, "GET /sleep/%llu/%llu HTTP/1.1\r\n", us * 2, n);
        break;
    case 4:
        len = snprintf(line, sizeof line, "GET /blocking/%llu/%llu HTTP/1.1\r\n", us, n);
        break;
    case 5:
    case 6:
        len = snprintf(line, sizeof line, "GET /learned/%llu/%llu HTTP/1.1\r\n", us, n);
        break;
    case 7:
    case 8:
    case 9:
    case 10:
        len = snprintf(line, sizeof line, "GET /burn/%llu/%llu HTTP/1.1\r\n", us, n);
        break;
    default:
        len = snprintf(line, sizeof line, "GET /plain/%llu HTTP/1.1\r\n", n);
        break;
    }
    append(it, line, (size_t)len);
    append(it, "Host: s\r\n\r\n", 11);
}

/* False: the connection ended. */
static bool send_upto(talk *it, size_t end)
{
    for (size_t sent = 0; sent < end;) {
        ssize_t n = send(it->fd, it->out + sent, end - sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            stress_fail("the service does not read for %d s", PATIENCE_S);
        if (n <= 0)
            return false;
        sent += (size_t)n;
    }
    return true;
}

/* --- checking --- */

static bool more(talk *it)
{
    if (it->in_at == it->in_end)
        it->in_at = it->in_end = 0;
    if (it->in_end == IN) {
        memmove(it->in, it->in + it->in_at, it->in_end - it->in_at);
        it->in_end -= it->in_at;
        it->in_at = 0;
    }
    ssize_t n = recv(it->fd, it->in + it->in_end, IN - it->in_end, 0);
    if (n < 0 && errno == EAGAIN)
        stress_fail("request %llu: no answer in %d s", (unsigned long long)it->batch[0].number,
                    PATIENCE_S);
    if (n <= 0)
        return false;
    it->in_end += (size_t)n;
    return true;
}

static bool read_bytes(talk *it, char *out, size_t len)
{
    while (len > 0) {
        if (it->in_at == it->in_end && !more(it))
            return false;
        size_t have = it->in_end - it->in_at, n = have < len ? have : len;
        if (out) {
            memcpy(out, it->in + it->in_at, n);
            out += n;
        }
        it->in_at += n;
        len -= n;
    }
    return true;
}

static bool read_until(talk *it, char *out, size_t cap, const char *end)
{
    size_t len = 0, end_len = strlen(end);
    while (len < end_len || memcmp(out + len - end_len, end, end_len) != 0) {
        if (len == cap - 1)
            stress_fail("request %llu: a line without end",
                        (unsigned long long)it->batch[0].number);
        if (!read_bytes(it, out + len, 1)) {
            if (len > 0 && !atomic_load(it->client->draining))
                stress_fail("the connection ended in mid-reply");
            return false;
        }
        len++;
    }
    out[len] = '\0';
    return true;
}

static void check_letters(talk *it, const expected *wanted)
{
    char line[32];
    uint64_t total = 0;
    for (;;) {
        if (!read_until(it, line, sizeof line, "\r\n"))
            stress_fail("stream %llu is cut", (unsigned long long)wanted->number);
        uint64_t size = strtoull(line, NULL, 16);
        for (uint64_t i = 0; i < size; i++) {
            char c;
            if (!read_bytes(it, &c, 1) || c != (char)('a' + wanted->number % 26))
                stress_fail("stream %llu: a wrong byte", (unsigned long long)wanted->number);
        }
        total += size;
        if (!read_bytes(it, line, 2) || memcmp(line, "\r\n", 2) != 0)
            stress_fail("stream %llu: a broken chunk", (unsigned long long)wanted->number);
        if (size == 0)
            break;
    }
    if (total != wanted->size)
        stress_fail("stream %llu: %llu bytes instead of %llu", (unsigned long long)wanted->number,
                    (unsigned long long)total, (unsigned long long)wanted->size);
}

static void check_body(talk *it, const expected *wanted, const char *head)
{
    if (wanted->body == LETTERS) {
        check_letters(it, wanted);
        return;
    }
    char body[64] = {0}, text[64];
    const char *length = strstr(head, "\r\nContent-Length: ");
    size_t len = length ? strtoul(length + 18, NULL, 10) : SIZE_MAX;
    if (len >= sizeof body || !read_bytes(it, body, len))
        stress_fail("request %llu: no body in: %s", (unsigned long long)wanted->number, head);
    if (wanted->body == NUMBER)
        snprintf(text, sizeof text, "%llu", (unsigned long long)wanted->number);
    else
        snprintf(text, sizeof text, "%llu %llu", (unsigned long long)wanted->size,
                 (unsigned long long)wanted->sum);
    if (strcmp(body, text) != 0)
        stress_fail("request %llu: '%s' instead of '%s'", (unsigned long long)wanted->number, body,
                    text);
}

/* Reads the next response, which must be the one to *wanted. False: the connection ends here. */
static bool check_response(talk *it, const expected *wanted, bool *last)
{
    char head[1024], number[64];
    if (!read_until(it, head, sizeof head, "\r\n\r\n"))
        return false;
    if (strncmp(head, "HTTP/1.1 200 OK\r\n", 17) != 0)
        stress_fail("request %llu: %s", (unsigned long long)wanted->number, head);
    snprintf(number, sizeof number, "\r\nX-Number: %llu\r\n", (unsigned long long)wanted->number);
    if (!strstr(head, number))
        stress_fail("request %llu got the answer to another: %s",
                    (unsigned long long)wanted->number, head);
    check_body(it, wanted, head);
    atomic_fetch_add(&stress_asked.responses, 1);
    *last = strstr(head, "\r\nConnection: close\r\n") != NULL;
    return true;
}

/* --- connections --- */

static bool open_talk(talk *it)
{
    it->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval limit = {.tv_sec = PATIENCE_S};
    setsockopt(it->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(it->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    int one = 1;
    setsockopt(it->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)it->client->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    it->in_at = it->in_end = 0;
    if (connect(it->fd, (struct sockaddr *)&address, sizeof address) == 0) {
        atomic_fetch_add(&stress_asked.connections, 1);
        return true;
    }
    if (!atomic_load(it->client->draining))
        stress_fail("can't connect: %s", strerror(errno));
    close(it->fd);
    return false;
}

static void vanish(talk *it)
{
    const struct linger now = {.l_onoff = 1};
    if (below(it, 2)) /* by a reset, else by an ordinary end */
        setsockopt(it->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    atomic_fetch_add(&stress_asked.vanished, 1);
}

static void make_batch(talk *it)
{
    it->out_len = 0;
    it->count = 0;
    bool alone = below(it, 8) == 0;
    for (uint64_t i = alone ? 1 : 1 + below(it, BATCH); i > 0; i--)
        append_request(it, alone);
}

/* One batch; false: the connection is not to be used any more. */
static bool exchange(talk *it)
{
    make_batch(it);
    bool leaves = below(it, 12) == 0;
    size_t send_end = leaves && below(it, 2) ? below(it, it->out_len) : it->out_len;
    int read_end = leaves ? (int)below(it, (uint64_t)it->count + 1) : it->count;
    if (send_end < it->out_len)
        read_end = 0; /* not all of them may be complete */
    bool sent = send_upto(it, send_end), last = false;
    if (!sent && !atomic_load(it->client->draining))
        stress_fail("the connection was closed while requests were sent");
    for (int i = 0; i < read_end && !last; i++) {
        if (check_response(it, &it->batch[i], &last)) {
            atomic_fetch_add(&stress_asked.requests, 1);
            continue;
        }
        /* Between two requests a draining service may close; after a reply it has to say so. */
        if (i > 0 || !atomic_load(it->client->draining))
            stress_fail("request %llu is lost", (unsigned long long)it->batch[i].number);
        return false;
    }
    if (last && !atomic_load(it->client->draining))
        stress_fail("Connection: close without a reason");
    if (leaves)
        vanish(it);
    return !leaves && !last;
}

void *stress_client_run(void *arg)
{
    talk it = {.client = arg, .in = malloc(IN), .out = malloc(OUT)};
    if (!it.in || !it.out)
        stress_fail("out of memory");
    while (!atomic_load(it.client->over) && open_talk(&it)) {
        for (uint64_t batches = 1 + below(&it, 10); batches > 0 && exchange(&it); batches--)
            if (atomic_load(it.client->over))
                break;
        close(it.fd);
    }
    free(it.in);
    free(it.out);
    return NULL;
}
