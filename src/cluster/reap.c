#include "cluster/channel.h"
#include "cluster/supervisor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* What the supervisor learns of its workers: what they say, and how they end. */

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
        dz_core_log(it->core, 30, "worker %u is ready (pid %d)", dz_place_number(it, place),
                    (int)worker->pid);
    if (place->old) {
        dz_worker *old = place->old;
        place->old = NULL;
        dz_worker_dismiss(it, old);
    }
}

static void note_failed(dz_supervisor *it, dz_worker *worker, const char *why)
{
    worker->failed = true;
    if (it->stopping)
        return;
    if (it->ever_ready)
        dz_core_log(it->core, 50, "worker %u (pid %d): %s", dz_place_number(it, worker->place),
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
                        dz_place_number(it, worker->place), (int)worker->pid);
    }
    dz_worker_dismiss(it, worker);
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
            dz_worker_unwatch(it, worker);
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
                dz_place_number(it, place), (int)worker->pid, end,
                (unsigned long long)(lived / DZ_SEC), (unsigned long long)(lived % DZ_SEC / DZ_MS),
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
                    dz_place_number(it, worker->place), (int)worker->pid, end);
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
            dz_worker_unwatch(it, worker);
        note_end(it, worker, status);
        dz_worker_free(worker);
    }
}
