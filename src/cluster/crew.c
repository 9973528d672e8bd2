#include "cluster/channel.h"
#include "cluster/supervisor.h"

#include <donmaz/error.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* After --drain-timeout a worker cuts what still runs, which takes it up to a second, and runs
 * on_stop. */
static const uint64_t GRACE_NS = 4 * DZ_SEC;

unsigned dz_place_number(const dz_supervisor *it, const dz_place *place)
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

void dz_worker_free(dz_worker *worker)
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
void dz_worker_unwatch(const dz_supervisor *it, dz_worker *worker)
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
    dz_worker_free(worker); /* closing the channel takes it out of epoll: nobody else has it */
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
                dz_place_number(it, place), dz_strerror(rc), (unsigned long long)(delay / DZ_MS));
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

void dz_worker_dismiss(const dz_supervisor *it, dz_worker *worker)
{
    if (worker->state != DZ_WORKER_LEAVING) {
        worker->state = DZ_WORKER_LEAVING;
        worker->kill_at = dz_now() + it->core->settings.drain_timeout_ns + GRACE_NS;
    }
    /* What was sent before is still read. Fails when the worker is gone, which is as well. */
    shutdown(worker->channel, SHUT_WR);
}

void dz_crew_dismiss(dz_supervisor *it)
{
    for (unsigned i = 0; i < it->count; i++)
        it->places[i] = (dz_place){.due = UINT64_MAX};
    for (dz_list *link = it->workers.next; link != &it->workers; link = link->next)
        dz_worker_dismiss(it, DZ_CONTAINER(link, dz_worker, link));
}

void dz_crew_signal(const dz_supervisor *it, int signal)
{
    for (dz_list *link = it->workers.next; link != &it->workers; link = link->next)
        kill(DZ_CONTAINER(link, dz_worker, link)->pid, signal); /* not reaped: its own pid */
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
                    dz_place_number(it, worker->place), (int)worker->pid);
        kill(worker->pid, SIGKILL); /* not reaped yet: the pid is still its own */
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
