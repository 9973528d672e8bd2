#include "cluster/channel.h"
#include "cluster/supervisor.h"

#include <donmaz/error.h>

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BATCH = 64 };
static const uint64_t RETRY_NS = 50 * DZ_MS;     /* after EMFILE, or with all workers full */
static const uint64_t HELD_RETRY_NS = 5 * DZ_MS; /* a socket no channel took */

/* The place to send the next connection to; it->count: none has room. */
static unsigned pick(dz_supervisor *it)
{
    for (unsigned i = 0; i < it->count; i++) {
        const dz_worker *worker = dz_place_server(&it->places[i]);
        it->loads[i] = (dz_load){.takes = false};
        if (!worker || worker->hung_up)
            continue;
        uint64_t back = atomic_load_explicit(&worker->share->given_back, memory_order_relaxed);
        uint64_t room = atomic_load_explicit(&worker->share->room, memory_order_relaxed);
        it->loads[i].open = worker->sent - back;
        it->loads[i].takes = it->loads[i].open < room;
    }
    return dz_spread_pick(it->loads, it->count, it->last);
}

/* Sends the socket to the place that was picked, or to another if that one can't take it. False:
 * none can now, and the caller keeps it. */
static bool hand_over(dz_supervisor *it, int fd, unsigned at)
{
    for (; at < it->count; at = dz_spread_pick(it->loads, it->count, it->last)) {
        dz_worker *worker = dz_place_server(&it->places[at]);
        if (dz_channel_send_socket(worker->channel, fd) == 0) {
            worker->sent++;
            it->last = at;
            close(fd); /* the worker has its own */
            return true;
        }
        it->loads[at].takes = false;
    }
    return false;
}

static void complain(dz_supervisor *it, int error, uint64_t now)
{
    if (now < it->next_complaint)
        return;
    it->next_complaint = now + DZ_SEC;
    dz_core_log(it->core, 50, "can't accept connections: %s; trying again every %llu ms",
                dz_strerror(-error), (unsigned long long)(RETRY_NS / DZ_MS));
}

void dz_accept_connections(dz_supervisor *it)
{
    for (int i = 0; i < BATCH && it->held_fd < 0; i++) {
        unsigned at = pick(it);
        if (at == it->count) { /* the rest waits in the backlog */
            it->accept_at = dz_now() + RETRY_NS;
            return;
        }
        int fd = accept4(it->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            if (hand_over(it, fd, at))
                continue;
            it->held_fd = fd;
            it->accept_at = dz_now() + HELD_RETRY_NS;
            return;
        }
        if (errno == EAGAIN)
            return;
        if (dz_accept_may_go_on(errno))
            continue;
        /* EMFILE, ENFILE, ENOBUFS, ENOMEM: the connection stays in the backlog and the socket
         * readable. Waiting a little serves the others instead of spinning. */
        uint64_t now = dz_now();
        complain(it, errno, now);
        it->accept_at = now + RETRY_NS;
        return;
    }
}

static void set_accepting(dz_supervisor *it, bool accepting)
{
    if (it->accepting == accepting || it->listen_fd < 0)
        return;
    struct epoll_event event = {.events = accepting ? EPOLLIN : 0, .data.ptr = &it->listen_fd};
    if (epoll_ctl(it->epoll_fd, EPOLL_CTL_MOD, it->listen_fd, &event) == 0)
        it->accepting = accepting;
}

void dz_accept_act(dz_supervisor *it, uint64_t now)
{
    if (it->accept_at <= now)
        it->accept_at = 0;
    if (it->accept_at == 0 && it->held_fd >= 0) {
        if (hand_over(it, it->held_fd, pick(it)))
            it->held_fd = -1;
        else
            it->accept_at = now + HELD_RETRY_NS;
    }
    set_accepting(it, it->announced && it->held_fd < 0 && it->accept_at == 0 && dz_crew_serves(it));
}

uint64_t dz_accept_next_due(const dz_supervisor *it)
{
    /* Without anyone to serve, the next thing that happens is a worker that becomes ready. */
    return it->accept_at > 0 && dz_crew_serves(it) ? it->accept_at : UINT64_MAX;
}

void dz_accept_stop(dz_supervisor *it)
{
    if (it->held_fd >= 0 && !hand_over(it, it->held_fd, pick(it)))
        close(it->held_fd);
    it->held_fd = -1;
    /* Clients whose connection the kernel has made already would see it reset. */
    for (int i = 0; it->announced && i < SOMAXCONN; i++) {
        int fd = accept4(it->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && dz_accept_may_go_on(errno))
            continue;
        if (fd < 0)
            break;
        if (!hand_over(it, fd, pick(it))) {
            close(fd);
            break;
        }
    }
    epoll_ctl(it->epoll_fd, EPOLL_CTL_DEL, it->listen_fd, NULL); /* a new worker has a copy */
    close(it->listen_fd);
    it->listen_fd = -1;
    it->accept_at = 0;
}
