#include "cluster/channel.h"
#include "cluster/supervisor.h"

#include <donmaz/error.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* After --drain-timeout a worker cuts what still runs, which takes it up to a second, and runs
 * on_stop. */
static const uint64_t GRACE_NS = 4 * DZ_SEC;

static unsigned number_of(const dz_supervisor *it, const dz_place *place)
{
    return (unsigned)(place - it->places) + 1;
}

dz_worker *dz_place_server(const dz_place *place)
{
    if (place->worker && place->worker->state == DZ_WORKER_READY)
        return place->worker;
    return place->old;
}

bool dz_crew_serves(const dz_supervisor *it)
{
    for (unsigned i = 0; i < it->count; i++)
        if (dz_place_server(&it->places[i]))
            return true;
    return false;
}

bool dz_crew_settled(const dz_supervisor *it)
{
    for (unsigned i = 0; i < it->count; i++) {
        const dz_place *place = &it->places[i];
        bool first_try = place->restart.deaths == 0;
        if (first_try && (!place->worker || place->worker->state == DZ_WORKER_STARTING))
            return false;
    }
    return true;
}

/* --- birth --- */

static void free_worker(dz_worker *worker)
{
    if (worker->share)
        munmap(worker->share, sizeof *worker->share);
    if (worker->channel >= 0)
        close(worker->channel);
    dz_list_remove(&worker->link);
    free(worker);
}

static int map_share(dz_worker *worker)
{
    void *memory = mmap(NULL, sizeof *worker->share, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -errno;
    worker->share = memory;
    return 0;
}

static int watch_channel(const dz_supervisor *it, dz_worker *worker)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = worker};
    int rc = epoll_ctl(it->epoll_fd, EPOLL_CTL_ADD, worker->channel, &event);
    return rc < 0 ? -errno : 0;
}

/* Closing it is not enough while a worker just forked still has a copy. */
static void unwatch_channel(const dz_supervisor *it, dz_worker *worker)
{
    worker->hung_up = true;
    epoll_ctl(it->epoll_fd, EPOLL_CTL_DEL, worker->channel, NULL);
}

/* 0 or -errno; does not return in the child. */
static int start_worker(dz_supervisor *it, dz_place *place, uint64_t now)
{
    dz_worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        return -ENOMEM;
    *worker = (dz_worker){.place = place, .channel = -1, .born = now, .kill_at = UINT64_MAX};
    dz_list_init(&worker->link);
    int ends[2] = {-1, -1};
    int rc = dz_channel_open(ends);
    if (rc < 0)
        goto fail;
    worker->channel = ends[0];
    if ((rc = map_share(worker)) < 0 || (rc = watch_channel(it, worker)) < 0)
        goto fail;
    fflush(NULL); /* else both processes write what main() left in its buffers */
    worker->pid = fork();
    if (worker->pid < 0) {
        rc = -errno;
        goto fail;
    }
    if (worker->pid == 0) {
        close(worker->channel);
        worker->channel = ends[1];
        dz_become_worker(it, worker);
    }
    close(ends[1]);
    dz_list_push(&it->workers, &worker->link);
    if (place->worker) /* ready: it is replaced */
        place->old = place->worker;
    place->worker = worker;
    place->due = UINT64_MAX;
    return 0;
fail:
    if (ends[1] >= 0)
        close(ends[1]);
    free_worker(worker); /* closing the channel takes it out of epoll: nobody else has it */
    return rc;
}

static void start_due(dz_supervisor *it, dz_place *place, uint64_t now)
{
    int rc = start_worker(it, place, now);
    if (rc == 0)
        return;
    uint64_t delay = dz_restart_after_failed_fork(&place->restart);
    place->due = now + delay;
    dz_core_log(it->core, 50, "worker %u could not be started: %s; trying again in %llu ms",
                number_of(it, place), dz_strerror(rc), (unsigned long long)(delay / DZ_MS));
}

/* --- replacement: one place at a time, so that the others serve --- */

void dz_crew_renew(dz_supervisor *it)
{
    if (it->stopping || !it->announced)
        return;
    for (unsigned i = 0; i < it->count; i++)
        it->places[i].renew = true;
    if (!it->core->settings.quiet)
        dz_core_log(it->core, 30, "SIGHUP: replacing the workers, one after the other");
}

static void renew_next(dz_supervisor *it)
{
    dz_place *next = NULL;
    for (unsigned i = it->count; i-- > 0;) {
        dz_place *place = &it->places[i];
        if (place->old)
            return;
        if (place->renew && dz_place_server(place))
            next = place;
    }
    if (!next)
        return;
    next->renew = false;
    next->due = 0;
}

/* --- leaving --- */

static void dismiss(const dz_supervisor *it, dz_worker *worker)
{
    if (worker->state != DZ_WORKER_LEAVING) {
        worker->state = DZ_WORKER_LEAVING;
        worker->kill_at = dz_now() + it->core->settings.drain_timeout_ns + GRACE_NS;
    }
    /* What was sent before is still read. Fails when the worker is gone, which is as well. */
    shutdown(worker->channel, SHUT_WR);
}

/* Takes a worker out of its place, which is to get another one at `due`. */
static void leave_place(dz_worker *worker, uint64_t due)
{
    dz_place *place = worker->place;
    if (place->old == worker)
        place->old = NULL;
    if (place->worker != worker)
        return;
    place->worker = NULL;
    place->due = due;
}

void dz_crew_dismiss(dz_supervisor *it)
{
    for (unsigned i = 0; i < it->count; i++)
        it->places[i] = (dz_place){.due = UINT64_MAX};
    for (dz_list *link = it->workers.next; link != &it->workers; link = link->next)
        dismiss(it, DZ_CONTAINER(link, dz_worker, link));
}

void dz_crew_kill(dz_supervisor *it)
{
    for (dz_list *link = it->workers.next; link != &it->workers; link = link->next) {
        dz_worker *worker = DZ_CONTAINER(link, dz_worker, link);
        worker->killed = true;
        worker->kill_at = UINT64_MAX;
        kill(worker->pid, SIGKILL);
    }
}

static void kill_overdue(dz_supervisor *it, uint64_t now)
{
    for (dz_list *link = it->workers.next; link != &it->workers; link = link->next) {
        dz_worker *worker = DZ_CONTAINER(link, dz_worker, link);
        if (worker->kill_at > now)
            continue;
        worker->killed = true;
        worker->kill_at = UINT64_MAX;
        dz_core_log(it->core, 50, "worker %u (pid %d) did not end after --drain-timeout: killed",
                    number_of(it, worker->place), (int)worker->pid);
        kill(worker->pid, SIGKILL); /* not reaped yet: the pid is still its own */
    }
}

/* --- what they say --- */

static void note_ready(dz_supervisor *it, dz_worker *worker)
{
    if (worker->state != DZ_WORKER_STARTING)
        return; /* dismissed meanwhile */
    dz_place *place = worker->place;
    worker->state = DZ_WORKER_READY;
    it->ever_ready = true;
    dz_restart_note_ready(&place->restart);
    bool first = !it->announced && place->restart.deaths == 0;
    if (!first && !it->core->settings.quiet)
        dz_core_log(it->core, 30, "worker %u is ready (pid %d)", number_of(it, place),
                    (int)worker->pid);
    if (place->old) {
        dz_worker *old = place->old;
        place->old = NULL;
        dismiss(it, old);
    }
}

static void note_failed(dz_supervisor *it, dz_worker *worker, const char *why)
{
    worker->failed = true;
    if (it->stopping)
        return;
    if (it->ever_ready)
        dz_core_log(it->core, 50, "worker %u (pid %d): %s", number_of(it, worker->place),
                    (int)worker->pid, why);
    else
        dz_supervisor_give_up(it, why); /* what one can't do at the start none can */
}

static void note_leaving(dz_supervisor *it, dz_worker *worker)
{
    if (worker->state != DZ_WORKER_LEAVING) {
        leave_place(worker, it->stopping ? UINT64_MAX : 0);
        if (!it->stopping)
            dz_core_log(it->core, 40, "worker %u (pid %d) was told to stop: starting another",
                        number_of(it, worker->place), (int)worker->pid);
    }
    dismiss(it, worker);
}

void dz_crew_listen(dz_supervisor *it, dz_worker *worker)
{
    char text[DZ_CHANNEL_TEXT];
    for (;;) {
        int what = dz_channel_hear(worker->channel, text);
        if (what == DZ_SAYS_READY) {
            note_ready(it, worker);
        } else if (what == DZ_SAYS_FAILED) {
            note_failed(it, worker, text);
        } else if (what == DZ_SAYS_LEAVING) {
            note_leaving(it, worker);
        } else if (what == -EAGAIN) {
            return;
        } else {
            /* It is dying; SIGCHLD tells when it is dead. */
            unwatch_channel(it, worker);
            return;
        }
    }
}

/* --- death --- */

static void describe_end(int status, char *text, size_t size)
{
    if (WIFSIGNALED(status)) {
        const char *name = sigabbrev_np(WTERMSIG(status));
        snprintf(text, size, "was killed by signal %d (SIG%s)", WTERMSIG(status),
                 name ? name : "?");
    } else {
        snprintf(text, size, "exited with code %d", WEXITSTATUS(status));
    }
}

/* It was not told to end. */
static void note_death(dz_supervisor *it, dz_worker *worker, int status)
{
    dz_place *place = worker->place;
    uint64_t now = dz_now(), lived = now - worker->born;
    bool was_ready = worker->state == DZ_WORKER_READY, replaces = place->old != NULL;
    uint64_t delay = 0;
    char end[64], next[64] = "starting another now";
    describe_end(status, end, sizeof end);
    if (place->old == worker) {
        snprintf(next, sizeof next, "its replacement is starting");
        place->old = NULL;
    } else if (replaces) {
        snprintf(next, sizeof next, "the one it should replace goes on");
        place->worker = place->old;
        place->old = NULL;
        for (unsigned i = 0; i < it->count; i++)
            it->places[i].renew = false;
    } else {
        delay = dz_restart_after_death(&place->restart, lived, was_ready);
        if (delay > 0)
            snprintf(next, sizeof next, "starting another in %llu ms",
                     (unsigned long long)(delay / DZ_MS));
        leave_place(worker, now + delay);
    }
    if (place->restart.failed_starts >= DZ_START_TRIES && !dz_crew_serves(it)) {
        char why[160];
        snprintf(why, sizeof why, "no worker could be started: the last one %s before it was ready",
                 end);
        dz_supervisor_give_up(it, why);
        return;
    }
    dz_core_log(it->core, 50, "worker %u (pid %d) %s after %llu.%03llu s%s: %s",
                number_of(it, place), (int)worker->pid, end, (unsigned long long)(lived / DZ_SEC),
                (unsigned long long)(lived % DZ_SEC / DZ_MS),
                was_ready ? "" : ", before it was ready", next);
}

static void note_end(dz_supervisor *it, dz_worker *worker, int status)
{
    if (worker->state != DZ_WORKER_LEAVING) {
        note_death(it, worker, status);
        return;
    }
    if (status == 0 || worker->failed)
        return;
    char end[64];
    describe_end(status, end, sizeof end);
    if (!worker->killed)
        dz_core_log(it->core, 50, "worker %u (pid %d) %s while it was stopping",
                    number_of(it, worker->place), (int)worker->pid, end);
    if (it->stopping)
        it->exit_code = 1;
}

void dz_crew_reap(dz_supervisor *it)
{
    dz_list *next;
    for (dz_list *link = it->workers.next; link != &it->workers; link = next) {
        next = link->next;
        dz_worker *worker = DZ_CONTAINER(link, dz_worker, link);
        int status = 0;
        /* By pid: the program may have children of its own. */
        pid_t ended = waitpid(worker->pid, &status, WNOHANG);
        if (ended == 0 || (ended < 0 && errno == EINTR))
            continue;
        if (!worker->hung_up)
            dz_crew_listen(it, worker); /* its last words: why it could not start */
        if (!worker->hung_up)           /* a process of its own has the other end */
            unwatch_channel(it, worker);
        note_end(it, worker, status);
        free_worker(worker);
    }
}

/* --- time --- */

void dz_crew_act(dz_supervisor *it, uint64_t now)
{
    kill_overdue(it, now);
    if (it->stopping)
        return;
    renew_next(it);
    for (unsigned i = 0; i < it->count; i++)
        if (it->places[i].due <= now)
            start_due(it, &it->places[i], now);
}

uint64_t dz_crew_next_due(const dz_supervisor *it)
{
    uint64_t due = UINT64_MAX;
    for (unsigned i = 0; i < it->count; i++)
        if (it->places[i].due < due)
            due = it->places[i].due;
    for (dz_list *link = it->workers.next; link != &it->workers; link = link->next) {
        const dz_worker *worker = DZ_CONTAINER(link, dz_worker, link);
        if (worker->kill_at < due)
            due = worker->kill_at;
    }
    return due;
}
