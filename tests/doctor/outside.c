/* A single-threaded HTTP server without any runtime: what donmaz doctor sees only from outside.
 * usage: outside hello|burn|cheap|spread|leak   It listens on a free port of loopback. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sink;
static char *volatile kept; /* each block points to the one before */

/* CPU time, not wall time. */
__attribute__((noinline)) static void burn_cpu(long us)
{
    struct timespec start, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    do {
        for (unsigned long i = 0; i < 10000; i++)
            sink += i * i;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000000 + (now.tv_nsec - start.tv_nsec) / 1000 < us);
}

static void answer(int fd, const char *mode)
{
    char request[4096];
    ssize_t n = recv(fd, request, sizeof request, 0);
    if (n <= 0) {
        close(fd);
        return;
    }
    if (strcmp(mode, "burn") == 0 || strcmp(mode, "spread") == 0)
        burn_cpu(30000);
    if (strcmp(mode, "cheap") == 0)
        burn_cpu(700);
    if (strcmp(mode, "leak") == 0) {
        char *more = malloc(200000);
        if (more) {
            memset(more, 1, 200000);
            char *before = kept;
            memcpy(more, &before, sizeof before);
            kept = more;
        }
        usleep(1000);
    }
    static const char response[] = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n";
    send(fd, response, sizeof response - 1, MSG_NOSIGNAL);
}

int main(int argc, char **argv)
{
    enum { MAX = 256 };
    const char *mode = argc > 1 ? argv[1] : "hello";
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&a, sizeof a) < 0 || listen(listener, 128) < 0)
        return 1;
    struct pollfd fds[MAX] = {{.fd = listener, .events = POLLIN}};
    nfds_t count = 1;
    /* As many processes as cores, with one socket. */
    for (long more = sysconf(_SC_NPROCESSORS_ONLN); strcmp(mode, "spread") == 0 && more > 1; more--)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            break;
        }
    fcntl(listener, F_SETFL, O_NONBLOCK);
    for (;;) {
        if (poll(fds, count, -1) < 0 && errno != EINTR)
            return 1;
        for (nfds_t i = 1; i < count; i++)
            if (fds[i].revents) {
                answer(fds[i].fd, mode);
                struct pollfd probe = {.fd = fds[i].fd, .events = POLLIN};
                if (poll(&probe, 1, 0) < 0 || probe.revents & POLLNVAL)
                    fds[i--] = fds[--count];
            }
        int fd = fds[0].revents && count < MAX ? accept(listener, NULL, NULL) : -1;
        if (fd >= 0)
            fds[count++] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
}
