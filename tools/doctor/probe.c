#include "probe.h"

#include "node/admin.h"
#include "target/procfs.h"

#include <base/clock.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVERY_MS = 50, REST_MS = 20 };

struct dz_probe {
    dz_port_address address;
    socklen_t address_len;
    pthread_t thread;
    bool running;
    int stop; /* eventfd: readable once it is over */
    dz_probe_samples samples;
};

static const dz_probe_samples none;

/* Time this thread was ready to run and had no core. */
static uint64_t own_wait(void)
{
    char text[96];
    uint64_t ran, waited;
    if (dz_procfs_read("/proc/thread-self/schedstat", text, sizeof text) <= 0 ||
        sscanf(text, "%" SCNu64 " %" SCNu64, &ran, &waited) != 2)
        return 0;
    return waited;
}

/* Waits for `events` or the connection's end; false when the probe is to end before. */
static bool await(const dz_probe *p, int fd, short events)
{
    struct pollfd fds[2] = {{.fd = p->stop, .events = POLLIN}, {.fd = fd, .events = events}};
    while (poll(fds, 2, -1) < 0)
        if (errno != EINTR)
            return false;
    return fds[1].revents != 0;
}

static void rest(const dz_probe *p, uint64_t until)
{
    uint64_t now = dz_now();
    unsigned ms = until > now ? (unsigned)((until - now) / DZ_MS) : 0;
    struct pollfd stop = {.fd = p->stop, .events = POLLIN};
    poll(&stop, 1, (int)(ms > REST_MS ? ms : REST_MS));
}

static bool stopped(const dz_probe *p)
{
    struct pollfd stop = {.fd = p->stop, .events = POLLIN};
    return poll(&stop, 1, 0) != 0;
}

static void keep(dz_probe *p, const dz_probe_sample *sample)
{
    if (p->samples.count == p->samples.cap) {
        size_t cap = p->samples.cap ? p->samples.cap * 2 : 128;
        void *more = reallocarray(p->samples.at, cap, sizeof *p->samples.at);
        if (!more)
            return; /* fewer samples */
        p->samples.at = more;
        p->samples.cap = cap;
    }
    p->samples.at[p->samples.count++] = *sample;
}

typedef enum outcome { ANSWERED, CUT, OPEN } outcome;

static outcome put_question(const dz_probe *p, int fd)
{
    static const char line[] = "donmaz-doctor-probe\r\n\r\n";
    char answer[512];
    if (connect(fd, &p->address.any, p->address_len) < 0 && errno != EINPROGRESS)
        return CUT;
    if (!await(p, fd, POLLOUT))
        return OPEN;
    if (send(fd, line, sizeof line - 1, MSG_NOSIGNAL) != sizeof line - 1)
        return CUT;
    if (!await(p, fd, POLLIN))
        return OPEN;
    return recv(fd, answer, sizeof answer, 0) > 0 ? ANSWERED : CUT;
}

/* A connection that is refused or cut tells nothing about the loop and is left out. */
static void ask(dz_probe *p)
{
    int fd = socket(p->address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    uint64_t waited = own_wait();
    dz_probe_sample s = {.sent = dz_now()};
    outcome came = put_question(p, fd);
    s.until = dz_now();
    s.waited = own_wait() - waited;
    if (came == ANSWERED)
        s.answered = s.until;
    if (came != CUT)
        keep(p, &s);
    close(fd);
}

static void *run(void *arg)
{
    dz_probe *p = arg;
    while (!stopped(p)) {
        uint64_t next = dz_now() + EVERY_MS * DZ_MS;
        ask(p);
        rest(p, next);
    }
    return NULL;
}

dz_probe *dz_probe_start(const dz_port *port)
{
    dz_probe *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->address_len = dz_port_connect_address(port, &p->address);
    p->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sigset_t all, before; /* signals are for the thread that runs the examination */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    p->running = p->stop >= 0 && pthread_create(&p->thread, NULL, run, p) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (p->running)
        return p;
    dz_probe_free(p);
    return NULL;
}

void dz_probe_stop(dz_probe *p)
{
    if (!p || !p->running)
        return;
    eventfd_write(p->stop, 1);
    pthread_join(p->thread, NULL);
    p->running = false;
}

const dz_probe_samples *dz_probe_seen(const dz_probe *p)
{
    return p ? &p->samples : &none;
}

void dz_probe_free(dz_probe *p)
{
    if (!p)
        return;
    dz_probe_stop(p);
    if (p->stop >= 0)
        close(p->stop);
    free(p->samples.at);
    free(p);
}
