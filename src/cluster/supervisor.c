#include "cluster/supervisor.h"

#include "cluster/start.h"
#include "log/logger.h"
#include "ops/admin.h"

#include <donmaz/error.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { REOPEN_MS = 100 };
static const uint64_t SETTLE_NS = 5 * DZ_SEC; /* for the last worker to start, once one serves */

/* --- opening and closing --- */

static void block_signals(dz_supervisor *it, sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    sigaddset(set, SIGUSR1);
    sigaddset(set, SIGCHLD);
    sigprocmask(SIG_BLOCK, set, &it->mask_before);
    signal(SIGPIPE, SIG_IGN);
    /* Who ignores SIGCHLD can't wait for anyone; the disposition may be inherited. */
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigaction(SIGCHLD, &plain, &it->child_before);
}

static int watch(const dz_supervisor *it, int fd, uint32_t events, void *tag)
{
    struct epoll_event event = {.events = events, .data.ptr = tag};
    return epoll_ctl(it->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int open_supervisor(dz_supervisor *it)
{
    sigset_t set;
    block_signals(it, &set);
    it->places = calloc(it->count, sizeof *it->places);
    it->loads = calloc(it->count, sizeof *it->loads);
    if (!it->places || !it->loads)
        return DZ_E_NOMEM;
    it->last = it->count - 1;
    it->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    it->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (it->epoll_fd < 0 || it->signal_fd < 0)
        return -errno;
    int rc = watch(it, it->signal_fd, EPOLLIN, &it->signal_fd);
    return rc < 0 ? rc : watch(it, it->listen_fd, 0, &it->listen_fd);
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void close_supervisor(dz_supervisor *it)
{
    close_fd(&it->listen_fd);
    close_fd(&it->admin_fd);
    dz_peers_close(&it->peers);
    close_fd(&it->held_fd);
    close_fd(&it->signal_fd);
    close_fd(&it->epoll_fd);
    free(it->places);
    free(it->loads);
    it->places = NULL;
    it->loads = NULL;
}

void dz_become_worker(dz_supervisor *it, dz_worker *self)
{
    /* A channel of another worker that stayed open here would not end with the supervisor. */
    dz_list *next;
    for (dz_list *link = it->workers.next; link != &it->workers; link = next) {
        next = link->next;
        dz_worker *other = DZ_CONTAINER(link, dz_worker, link);
        close(other->channel);
        munmap(other->share, sizeof *other->share);
        free(other);
    }
    dz_list_init(&it->workers);
    /* What the worker keeps. */
    dz_peers peers = it->peers;
    int admin_fd = it->admin_fd;
    it->peers = (dz_peers){0};
    it->admin_fd = -1;
    const dz_birth birth = {.number = (unsigned)(self->place - it->places) + 1,
                            .supervisor = it->pid,
                            .channel = self->channel,
                            .share = self->share,
                            .admin_fd = admin_fd,
                            .peers = &peers};
    free(self);
    close_supervisor(it);
    dz_logger_set_direct(it->core->logger, false);
    sigaction(SIGCHLD, &it->child_before, NULL);
    sigset_t mask = it->mask_before;
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGHUP);
    sigaddset(&mask, SIGUSR1);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    int code = dz_worker_run(it->app, &birth);
    close_fd(&admin_fd);
    dz_peers_close(&peers);
    dz_app_free(it->app);
    munmap(birth.share, sizeof *birth.share);
    exit(code); /* what main() does after dz_run happens once, in the supervisor */
}

/* --- stopping --- */

static void begin_stop(dz_supervisor *it)
{
    it->stopping = true;
    dz_accept_stop(it);
    dz_crew_dismiss(it);
}

void dz_supervisor_give_up(dz_supervisor *it, const char *why)
{
    if (it->stopping)
        return;
    fprintf(stderr, "%s: %s\n", it->program, why);
    it->exit_code = 1;
    begin_stop(it);
}

static void note_stop_signal(dz_supervisor *it)
{
    if (it->stopping) {
        it->exit_code = 1;
        dz_crew_kill(it);
        return;
    }
    if (!it->core->settings.quiet)
        dz_core_log(it->core, 30, "stopping: finishing the requests that run");
    begin_stop(it);
}

/* --- the loop --- */

/* New workers inherit the file, so it is opened anew before they are made. */
static void reopen_log(dz_supervisor *it, bool renew)
{
    dz_logger_reopen(it->core->logger);
    dz_core_flush_log(it->core, REOPEN_MS);
    dz_crew_signal(it, SIGUSR1);
    if (renew)
        dz_crew_renew(it);
}

static void read_signals(dz_supervisor *it)
{
    struct signalfd_siginfo info;
    while (read(it->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD)
            it->child_ended = true;
        else if (info.ssi_signo == SIGHUP || info.ssi_signo == SIGUSR1)
            reopen_log(it, info.ssi_signo == SIGHUP);
        else
            note_stop_signal(it);
    }
}

/* Connections are spread over the whole cluster, so the first is taken when all workers are up. */
static void announce_when_up(dz_supervisor *it, uint64_t now)
{
    if (it->announced || it->stopping || !dz_crew_serves(it))
        return;
    if (it->announce_by == UINT64_MAX)
        it->announce_by = now + SETTLE_NS;
    if (!dz_crew_settled(it) && now < it->announce_by)
        return;
    it->announced = true;
    it->announce_by = UINT64_MAX;
    if (it->core->settings.quiet)
        return;
    dz_log_listening(it->core, it->port);
    if (it->admin_fd >= 0)
        dz_admin_log_listening(it->core, it->admin_port);
}

static int timeout_until(uint64_t due, uint64_t now)
{
    if (due == UINT64_MAX)
        return -1;
    uint64_t left = due > now ? (due - now + DZ_MS - 1) / DZ_MS : 0;
    return left < INT32_MAX ? (int)left : INT32_MAX;
}

static uint64_t next_due(const dz_supervisor *it)
{
    uint64_t due = dz_crew_next_due(it), accept = dz_accept_next_due(it);
    if (accept < due)
        due = accept;
    return it->announce_by < due ? it->announce_by : due;
}

static void turn(dz_supervisor *it)
{
    enum { EVENTS = 64 };
    struct epoll_event events[EVENTS];
    int count = epoll_wait(it->epoll_fd, events, EVENTS, timeout_until(next_due(it), dz_now()));
    for (int i = 0; i < count; i++) {
        void *tag = events[i].data.ptr;
        if (tag == &it->signal_fd)
            read_signals(it);
        else if (tag != &it->listen_fd)
            dz_crew_listen(it, tag);
        else if (it->listen_fd >= 0)
            dz_accept_connections(it);
    }
    /* Only now: an event above may belong to a worker that is freed here. */
    if (it->child_ended) {
        it->child_ended = false;
        dz_crew_reap(it);
    }
}

static int supervise(dz_supervisor *it)
{
    while (!it->stopping || !dz_list_empty(&it->workers)) {
        uint64_t now = dz_now();
        dz_crew_act(it, now);
        announce_when_up(it, now);
        dz_accept_act(it, now);
        turn(it);
    }
    return it->exit_code;
}

static int open_admin(dz_supervisor *it, char *text, size_t size)
{
    int rc = it->admin_fd = dz_admin_listen(it->core, &it->admin_port, text, size);
    if (rc < 0)
        return rc;
    rc = dz_peers_open(&it->peers, it->count);
    if (rc < 0)
        snprintf(text, size, "could not start: %s", dz_strerror(rc));
    return rc;
}

int dz_supervise(dz_app *app, const char *program)
{
    dz_core *core = app->core;
    dz_supervisor it = {.app = app,
                        .core = core,
                        .program = program,
                        .pid = getpid(),
                        .count = (unsigned)core->settings.processes,
                        .epoll_fd = -1,
                        .signal_fd = -1,
                        .held_fd = -1,
                        .admin_fd = -1,
                        .announce_by = UINT64_MAX};
    dz_list_init(&it.workers);
    dz_logger_set_direct(core->logger, true); /* so that it has one thread when it forks */
    char text[512];
    int rc = dz_explain_build(core, text, sizeof text);
    if (rc == 0) {
        rc = it.listen_fd = dz_core_listen(core, &it.port);
        if (rc < 0)
            dz_explain_listen(core, rc, text, sizeof text);
    } else {
        it.listen_fd = -1;
    }
    if (rc >= 0 && dz_admin_wanted(core))
        rc = open_admin(&it, text, sizeof text);
    if (rc >= 0 && (rc = open_supervisor(&it)) < 0)
        snprintf(text, sizeof text, "could not start: %s", dz_strerror(rc));
    if (rc < 0)
        fprintf(stderr, "%s: %s\n", program, text);
    int code = rc < 0 ? 1 : supervise(&it);
    close_supervisor(&it);
    return code;
}
