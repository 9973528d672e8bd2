/* Sends one file in several POST requests at once, and measures how long they take together.
 *
 *   upload_client PORT PATH FILE CONNECTIONS
 *
 * Prints "ready" when it is connected and has the file in memory, begins when a line comes on its
 * standard input, and then prints the milliseconds until the last answer and each answer's body, a
 * line each. Exit status 1, with a line on stderr, when anything goes wrong.
 *
 * It shares the cores with the server it measures, of which clients elsewhere take nothing. So it
 * runs only where nobody else wants to (SCHED_IDLE), and it gives the kernel small pieces: one that
 * is not preemptible serves whoever is inside of it to the end, and a socket takes megabytes in a
 * call. */
#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 64, PIECE = 64 << 10, ANSWER = 64 << 10 };

typedef struct upload {
    char head[512], answer[ANSWER];
    size_t head_len, sent, got;
} upload;

static upload uploads[MOST];
static struct pollfd polled[MOST];

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "upload_client: %s%s%s\n", what, errno ? ": " : "",
            errno ? strerror(errno) : "");
    exit(1);
}

static const char *map_file(const char *name, size_t *len)
{
    struct stat info;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) < 0)
        fail(name);
    *len = (size_t)info.st_size;
    const char *data = mmap(NULL, *len, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    if (data == MAP_FAILED)
        fail(name);
    close(fd);
    return data;
}

static int open_connection(const char *port)
{
    struct sockaddr_in name = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)strtoul(port, NULL, 10)),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&name, sizeof name) < 0 ||
        fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
        fail("can't connect");
    return fd;
}

/* The next piece of the head or the file. */
static void send_piece(upload *one, struct pollfd *socket, const char *file, size_t len)
{
    const char *from =
        one->sent < one->head_len ? one->head + one->sent : file + one->sent - one->head_len;
    size_t left =
        one->sent < one->head_len ? one->head_len - one->sent : one->head_len + len - one->sent;
    ssize_t n = send(socket->fd, from, left < PIECE ? left : PIECE, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        fail("can't send");
    one->sent += n > 0 ? (size_t)n : 0;
    if (one->sent == one->head_len + len)
        socket->events = POLLIN;
}

/* True: it is complete. The server is asked to close the connection after it. */
static bool take_answer(upload *one, const struct pollfd *socket)
{
    ssize_t n = recv(socket->fd, one->answer + one->got, sizeof one->answer - 1 - one->got, 0);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        fail("can't receive");
    one->got += n > 0 ? (size_t)n : 0;
    return n == 0;
}

static void send_all(unsigned count, const char *file, size_t len)
{
    for (unsigned left = count; left > 0;) {
        if (poll(polled, count, 60000) <= 0)
            fail("no progress within a minute");
        for (unsigned i = 0; i < count; i++) {
            if (polled[i].revents & POLLOUT) {
                send_piece(&uploads[i], &polled[i], file, len);
            } else if (polled[i].revents && take_answer(&uploads[i], &polled[i])) {
                close(polled[i].fd);
                polled[i].fd = -1;
                left--;
            }
        }
    }
}

static void print_answer(upload *one)
{
    one->answer[one->got] = '\0';
    const char *body = strstr(one->answer, "\r\n\r\n");
    errno = 0;
    if (strncmp(one->answer, "HTTP/1.1 200 ", 13) != 0 || !body)
        fail(one->got ? one->answer : "no answer");
    puts(body + 4);
}

int main(int argc, char **argv)
{
    unsigned count = argc == 5 ? (unsigned)strtoul(argv[4], NULL, 10) : 0;
    if (count == 0 || count > MOST) {
        fprintf(stderr, "usage: upload_client PORT PATH FILE CONNECTIONS (at most %d)\n", MOST);
        return 2;
    }
    const struct sched_param none = {0};
    if (sched_setscheduler(0, SCHED_IDLE, &none) < 0)
        fail("can't lower the priority");
    size_t len;
    const char *file = map_file(argv[3], &len);
    for (unsigned i = 0; i < count; i++) {
        uploads[i].head_len =
            (size_t)snprintf(uploads[i].head, sizeof uploads[i].head,
                             "POST %.200s HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\n"
                             "Content-Length: %zu\r\nConnection: close\r\n\r\n",
                             argv[2], len);
        polled[i] = (struct pollfd){.fd = open_connection(argv[1]), .events = POLLOUT};
    }
    puts("ready");
    fflush(stdout);
    if (getchar() == EOF)
        return 1;

    uint64_t begin = dz_now();
    send_all(count, file, len);
    printf("%.3f\n", (double)(dz_now() - begin) / 1e6);
    for (unsigned i = 0; i < count; i++)
        print_answer(&uploads[i]);
    return 0;
}
