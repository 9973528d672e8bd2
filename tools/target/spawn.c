#include "spawn.h"

#include "guard.h"
#include "procfs.h"
#include "proctree.h"

#include <base/clock.h>
#include <donmaz/error.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static bool overrides(const char *const *env, const char *entry)
{
    const char *equal = strchr(entry, '=');
    size_t len = equal ? (size_t)(equal - entry) + 1 : strlen(entry);
    for (size_t i = 0; env && env[i]; i++)
        if (strlen(env[i]) >= len && memcmp(env[i], entry, len) == 0)
            return true;
    return false;
}

/* Our environment with `env` on top; the strings are borrowed, the array is the caller's. */
static char **merge_environment(const char *const *env)
{
    size_t count = 1, at = 0;
    for (size_t i = 0; environ[i]; i++)
        count++;
    for (size_t i = 0; env && env[i]; i++)
        count++;
    char **merged = calloc(count, sizeof *merged);
    if (!merged)
        return NULL;
    for (size_t i = 0; environ[i]; i++)
        if (!overrides(env, environ[i]))
            merged[at++] = environ[i];
    for (size_t i = 0; env && env[i]; i++)
        merged[at++] = (char *)(uintptr_t)env[i]; /* exec takes char *, and changes nothing */
    return merged;
}

static void take(dz_target *t, const dz_guard_message *m)
{
    t->pid = m->pid;
    t->started = m->started;
    t->exited = m->exited;
    t->status = m->status;
    t->killed = m->killed;
    t->printed = m->printed;
    memcpy(t->tail, m->tail, sizeof t->tail);
    t->event = m->event;
    t->error = m->error;
}

/* Waits for a message until `deadline` (0: not at all). False: none came, or the guard is gone. */
static bool hear(dz_target *t, uint64_t deadline)
{
    dz_guard_message m;
    for (;;) {
        ssize_t n = recv(t->socket, &m, sizeof m, MSG_DONTWAIT);
        if (n == (ssize_t)sizeof m) {
            take(t, &m);
            return true;
        }
        if (n >= 0 || (errno != EAGAIN && errno != EINTR)) {
            if (!t->exited)
                t->exited = t->guard_lost = true;
            return false;
        }
        uint64_t now = dz_now();
        if (now >= deadline)
            return false;
        struct timespec left = {.tv_sec = (time_t)((deadline - now) / DZ_SEC),
                                .tv_nsec = (long)((deadline - now) % DZ_SEC)};
        ppoll(&(struct pollfd){.fd = t->socket, .events = POLLIN}, 1, &left, NULL);
    }
}

/* The guard's last word was said, or it has to be silenced. */
static void release_guard(dz_target *t)
{
    if (t->event != DZ_GUARD_EMPTIED)
        kill(t->guard, SIGKILL);
    while (waitpid(t->guard, NULL, 0) < 0 && errno == EINTR)
        continue;
    close(t->socket);
    t->guard = 0;
}

/* Kills one child of the tool's that is no guard, with all that descends from it. */
static void end_orphan(void *arg, long number)
{
    dz_procfs_stat stat;
    char text[1024];
    if (dz_procfs_read_pid((pid_t)number, "stat", text, sizeof text) <= 0 ||
        !dz_procfs_parse_stat(text, &stat) || stat.ppid != getpid() ||
        strcmp(stat.name, DZ_GUARD_NAME) == 0)
        return;
    if (stat.state == 'Z') {
        /* Its own orphans are ours from now on: they may have been passed over already. */
        *(bool *)arg |= waitpid((pid_t)number, NULL, WNOHANG) == (pid_t)number;
        return;
    }
    dz_proctree tree;
    if (dz_proctree_read((pid_t)number, true, &tree) < 0)
        return;
    for (size_t i = 0; i < tree.count; i++)
        *(bool *)arg |= kill(tree.pids[i], SIGKILL) == 0;
    dz_proctree_free(&tree);
}

/* For the case that the guard was killed: the command's orphans are children of the tool now, which
 * starts no others but guards. */
static void end_orphans(const dz_target *target)
{
    kill(-target->pid, SIGKILL);
    uint64_t deadline = dz_now() + DZ_GUARD_ORPHAN_MS * DZ_MS;
    for (bool left = true; left && dz_now() < deadline;) {
        left = false;
        dz_procfs_each("/proc", end_orphan, &left);
        if (left)
            usleep(2000);
    }
}

/* Waits until the guard has come so far. 0; else what kept it from that, and it is gone. */
static int await(dz_target *t, dz_guard_event event)
{
    do {
        if (!hear(t, UINT64_MAX))
            t->error = -DZ_E_CRASHED;
    } while (t->error == 0 && t->event < event);
    if (t->error == 0)
        return 0;
    int rc = -t->error;
    release_guard(t);
    if (t->guard_lost && t->pid > 0)
        end_orphans(t);
    *t = (dz_target){.exited = true};
    return rc;
}

/* What start does where the descriptors are at hand. `env` is for the guard alone. */
static int fork_guard(dz_target *t, const dz_target_options *options, char **env)
{
    int pair[2], go[2] = {-1, -1};
    if (options->hold && pipe2(go, O_CLOEXEC) < 0)
        return -errno;
    int rc = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 ? -errno : 0;
    if (rc == 0) {
        prctl(PR_SET_CHILD_SUBREAPER, 1); /* see spawn.h: should the guard die */
        pid_t tool = getpid(), pid = fork();
        if (pid == 0) {
            close(pair[0]);
            if (go[1] >= 0)
                close(go[1]); /* else a held command would not see the tool's end */
            dz_guard_run(&(dz_guard_task){options, env, tool, pair[1], go[0]});
        }
        rc = pid < 0 ? -errno : 0;
        close(pair[1]);
        if (pid < 0)
            close(pair[0]);
        else
            *t = (dz_target){.guard = pid, .socket = pair[0], .go = go[1]};
    }
    if (rc < 0 && go[1] >= 0)
        close(go[1]);
    if (go[0] >= 0)
        close(go[0]);
    return rc;
}

int dz_target_start(dz_target *target, const dz_target_options *options)
{
    *target = (dz_target){0};
    char **env = merge_environment(options->env);
    if (!env)
        return -ENOMEM;
    int rc = fork_guard(target, options, env);
    free(env);
    return rc < 0 ? rc : await(target, options->hold ? DZ_GUARD_FORKED : DZ_GUARD_EXECUTED);
}

int dz_target_start_shell(dz_target *target, const char *text, const dz_target_options *options)
{
    dz_target_options o = *options;
    char sh[] = "/bin/sh", c[] = "-c";
    char *argv[] = {sh, c, (char *)(uintptr_t)text, NULL};
    o.argv = argv;
    return dz_target_start(target, &o);
}

int dz_target_release(dz_target *target)
{
    ssize_t n = write(target->go, "g", 1);
    close(target->go);
    target->go = -1;
    return n == 1 ? await(target, DZ_GUARD_EXECUTED) : -EPIPE;
}

bool dz_target_poll(dz_target *target)
{
    while (target->guard > 0 && !target->exited && hear(target, 0))
        continue;
    return target->exited;
}

bool dz_target_wait(dz_target *target, unsigned ms)
{
    uint64_t deadline = dz_now() + ms * DZ_MS;
    while (target->guard > 0 && !target->exited && hear(target, deadline))
        continue;
    return target->exited;
}

void dz_target_stop(dz_target *target, int signal, unsigned grace_ms)
{
    if (target->guard == 0)
        return;
    uint64_t deadline =
        dz_now() + (grace_ms + (uint64_t)DZ_GUARD_KILL_MS + DZ_GUARD_LATE_MS) * DZ_MS;
    dz_guard_order order = {signal, grace_ms};
    (void)send(target->socket, &order, sizeof order, MSG_NOSIGNAL);
    if (target->go >= 0) {
        close(target->go); /* it never ran, and ends by itself */
        target->go = -1;
    }
    while (hear(target, deadline))
        continue;
    release_guard(target);
    if (target->event != DZ_GUARD_EMPTIED && target->pid > 0)
        end_orphans(target);
}

void dz_target_describe(const dz_target *target, char *out, size_t cap)
{
    if (target->guard_lost)
        snprintf(out, cap, "was lost: the process that guards it was killed");
    else if (!target->exited)
        snprintf(out, cap, "still runs");
    else if (WIFSIGNALED(target->status)) {
        const char *name = sigabbrev_np(WTERMSIG(target->status)); /* real-time ones have none */
        snprintf(out, cap, "was killed by signal %d%s%s%s", WTERMSIG(target->status),
                 name ? " (SIG" : "", name ? name : "", name ? ")" : "");
    } else
        snprintf(out, cap, "exited with status %d", WEXITSTATUS(target->status));
}
