/* A server that answers late on purpose and writes down how late it really was.
 *
 *   delay_server PORT_FILE TRUTH_FILE
 *
 * The delay of each request follows a fixed pattern: of a thousand, 600 take 1 ms, 200 take 2 ms,
 * 150 take 4 ms, 35 take 8 ms, 10 take 16 ms and 5 take 32 ms, in an order that repeats after all.
 * On SIGTERM it writes the nanoseconds between each request's arrival and its answer to TRUTH_FILE,
 * one a line.
 *
 * A request has arrived when the kernel received it (SO_TIMESTAMPNS), not when this program came
 * round to look: the scheduler may keep it off its core for milliseconds, and the client waits
 * through that too. For the same reason it sleeps until shortly before an answer is due: whoever
 * spins all the time has used up its share of the core when it matters. One request at a time on
 * each connection; it answers anything that ends in an empty line. */
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS = 256, MOST = 4000000 };

/* How long before an answer is due the sleep ends: longer than waking up takes. */
#define SPIN_NS UINT64_C(150000)

typedef struct connection {
    int fd;
    bool waiting;
    uint64_t arrived, due;
    char tail[4]; /* the last bytes seen: a request may come in pieces */
} connection;

static volatile sig_atomic_t stop;
static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t); /* as the stamps of the kernel */
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Each percentile looked at lies in the middle of a step, where a few requests more or less change
 * nothing. 371 and 1000 have no common divisor: n x 371 mod 1000 visits all thousand. */
static uint64_t delay_of(uint64_t n)
{
    static const struct {
        unsigned below, ms;
    } steps[] = {{600, 1}, {800, 2}, {950, 4}, {985, 8}, {995, 16}, {1000, 32}};
    unsigned place = (unsigned)(n * 371 % 1000);
    size_t i = 0;
    while (place >= steps[i].below)
        i++;
    return steps[i].ms * UINT64_C(1000000);
}

static int listen_somewhere(const char *port_file)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof name;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&name, len) < 0 || listen(fd, CONNECTIONS) < 0 ||
        getsockname(fd, (struct sockaddr *)&name, &len) < 0)
        return -1;
    FILE *out = fopen(port_file, "we");
    if (!out)
        return -1;
    fprintf(out, "%u\n", ntohs(name.sin_port));
    return fclose(out) == 0 ? fd : -1;
}

static void accept_all(int listener, connection *connections, size_t *count)
{
    int fd;
    while (*count < CONNECTIONS &&
           (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
        connections[(*count)++] = (connection){.fd = fd};
    }
}

/* When the kernel received what `message` brought; `otherwise` if it does not say. */
static uint64_t stamp_of(struct msghdr *message, uint64_t otherwise)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS)
            continue;
        struct timespec t;
        memcpy(&t, CMSG_DATA(c), sizeof t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    }
    return otherwise;
}

/* True when a whole request has come. */
static bool request_came(connection *c)
{
    char data[4096];
    alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct timespec))];
    struct iovec bytes = {.iov_base = data, .iov_len = sizeof data};
    struct msghdr message = {.msg_iov = &bytes,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    ssize_t n = recvmsg(c->fd, &message, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN)) {
        close(c->fd);
        c->fd = -1;
        return false;
    }
    for (ssize_t i = 0; i < n; i++) {
        memmove(c->tail, c->tail + 1, sizeof c->tail - 1);
        c->tail[3] = data[i];
    }
    if (n <= 0 || memcmp(c->tail, "\r\n\r\n", sizeof c->tail) != 0)
        return false;
    c->arrived = stamp_of(&message, now());
    return true;
}

/* Sleeps until something comes, or until shortly before the next answer is due. */
static void rest(int listener, const connection *connections, size_t count)
{
    struct pollfd fds[CONNECTIONS + 1] = {{.fd = listener, .events = POLLIN}};
    uint64_t next = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        const connection *c = &connections[i];
        fds[i + 1] = (struct pollfd){.fd = c->waiting ? -1 : c->fd, .events = POLLIN};
        if (c->fd >= 0 && c->waiting && c->due < next)
            next = c->due;
    }
    uint64_t time = now();
    uint64_t pause = next == UINT64_MAX      ? UINT64_C(1000000000)
                     : next > time + SPIN_NS ? next - time - SPIN_NS
                                             : 0;
    struct timespec wait = {.tv_sec = (time_t)(pause / 1000000000u),
                            .tv_nsec = (long)(pause % 1000000000u)};
    (void)ppoll(fds, count + 1, &wait, NULL);
}

static void serve(int listener, uint64_t *truth, size_t *answered)
{
    static connection connections[CONNECTIONS];
    size_t count = 0;
    uint64_t requests = 0;
    while (!stop && *answered < MOST) {
        rest(listener, connections, count);
        accept_all(listener, connections, &count);
        for (size_t i = 0; i < count; i++) {
            connection *c = &connections[i];
            if (c->fd < 0)
                continue;
            if (!c->waiting && request_came(c)) {
                c->waiting = true;
                c->due = c->arrived + delay_of(requests++);
            } else if (c->waiting && now() >= c->due) {
                c->waiting = false;
                truth[(*answered)++] = now() - c->arrived;
                if (send(c->fd, answer, sizeof answer - 1, MSG_NOSIGNAL) < 0)
                    truth[*answered - 1] = 0; /* the peer left: nobody can have measured it */
            }
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s PORT_FILE TRUTH_FILE\n", argv[0]);
        return 2;
    }
    signal(SIGTERM, on_signal);
    prctl(PR_SET_TIMERSLACK, 1UL);
    uint64_t *truth = malloc(MOST * sizeof *truth);
    int listener = truth ? listen_somewhere(argv[1]) : -1;
    if (listener < 0) {
        perror("delay_server");
        free(truth);
        return 1;
    }
    size_t answered = 0;
    serve(listener, truth, &answered);
    FILE *out = fopen(argv[2], "we");
    for (size_t i = 0; out && i < answered; i++)
        fprintf(out, "%" PRIu64 "\n", truth[i]);
    free(truth);
    return out && fclose(out) == 0 ? 0 : 1;
}
