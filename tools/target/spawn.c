#include "spawn.h"

#include "tree.h"

#include <base/clock.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The command that is held before exec: one at a time, as only a profiler holds. */
static int hold_fd = -1, error_fd = -1;

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

static void child(const dz_target_options *o, char **env, int go, int failed, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* the tool died before prctl */
        _exit(127);
    int null = open("/dev/null", O_RDONLY);
    if (null >= 0)
        dup2(null, 0);
    if (o->out_to_stderr)
        dup2(2, 1);
    char byte;
    if (go >= 0 && read(go, &byte, 1) != 1)
        _exit(127);
    if (!o->cwd || chdir(o->cwd) == 0)
        execvpe(o->argv[0], o->argv, env);
    int error = errno;
    ssize_t ignored = write(failed, &error, sizeof error);
    (void)ignored;
    _exit(127);
}

/* Runs in a copy of the tool, which may have threads: only what is safe in a signal handler. */
__attribute__((noreturn)) static void keep(pid_t group, int alive)
{
    setpgid(0, 0); /* Ctrl-C is for the tool */
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    /* Nothing of the tool's may stay open here: neither its output, which somebody reads to the
     * end, nor another keeper's pipe. */
    if (dup2(alive, 0) == 0)
        (void)close_range(1, ~0U, 0);
    char byte;
    while (read(0, &byte, 1) < 0 && errno == EINTR)
        continue;
    kill(-group, SIGKILL);
    _exit(0);
}

/* Without a keeper (no process or descriptor to be had) PDEATHSIG still ends the command itself. */
static void start_keeper(dz_target *target)
{
    int alive[2];
    if (pipe2(alive, O_CLOEXEC) < 0)
        return;
    pid_t pid = fork();
    if (pid == 0)
        keep(target->pid, alive[0]);
    close(alive[0]);
    if (pid < 0) {
        close(alive[1]);
        return;
    }
    target->keeper = pid;
    target->keeper_fd = alive[1];
}

static void end_keeper(dz_target *target)
{
    if (target->keeper == 0)
        return;
    kill(target->keeper, SIGKILL);
    while (waitpid(target->keeper, NULL, 0) < 0 && errno == EINTR)
        continue;
    close(target->keeper_fd);
    target->keeper = 0;
}

/* The pipe closes without a word when exec works. */
static int exec_result(dz_target *target, int fd)
{
    int error = 0;
    ssize_t n;
    do
        n = read(fd, &error, sizeof error);
    while (n < 0 && errno == EINTR);
    close(fd);
    if (n != sizeof error)
        return 0;
    waitpid(target->pid, &target->status, 0);
    target->exited = true;
    end_keeper(target);
    return -error;
}

int dz_target_start(dz_target *target, const dz_target_options *options)
{
    memset(target, 0, sizeof *target);
    int failed[2] = {-1, -1}, go[2] = {-1, -1}, rc = 0;
    char **env = merge_environment(options->env);
    if (!env)
        return -ENOMEM;
    if (pipe2(failed, O_CLOEXEC) < 0 || (options->hold && pipe2(go, O_CLOEXEC) < 0)) {
        rc = -errno;
        goto done;
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        child(options, env, go[0], failed[1], parent);
    if (pid < 0) {
        rc = -errno;
        goto done;
    }
    setpgid(pid, pid); /* in both, so that it holds whoever runs first */
    target->pid = pid;
    start_keeper(target);
    close(failed[1]);
    failed[1] = -1;
    if (options->hold) {
        hold_fd = go[1];
        error_fd = failed[0];
        go[1] = -1;
    } else {
        rc = exec_result(target, failed[0]);
    }
    failed[0] = -1;
done:
    for (int i = 0; i < 2; i++) {
        if (failed[i] >= 0)
            close(failed[i]);
        if (go[i] >= 0)
            close(go[i]);
    }
    free(env);
    return rc;
}

int dz_target_release(dz_target *target)
{
    ssize_t n = write(hold_fd, "g", 1);
    close(hold_fd);
    hold_fd = -1;
    int fd = error_fd;
    error_fd = -1;
    if (n == 1)
        return exec_result(target, fd);
    close(fd);
    return -EPIPE;
}

int dz_target_start_shell(dz_target *target, const char *text, const dz_target_options *options)
{
    dz_target_options o = *options;
    char sh[] = "/bin/sh", c[] = "-c";
    char *argv[] = {sh, c, (char *)(uintptr_t)text, NULL};
    o.argv = argv;
    return dz_target_start(target, &o);
}

bool dz_target_poll(dz_target *target)
{
    if (target->exited || target->pid == 0)
        return target->exited;
    int status;
    pid_t pid = waitpid(target->pid, &status, WNOHANG);
    if (pid == target->pid || (pid < 0 && errno == ECHILD)) {
        target->status = pid > 0 ? status : 0;
        target->exited = true;
    }
    if (target->exited && kill(-target->pid, 0) < 0)
        end_keeper(target); /* nobody is left to keep */
    return target->exited;
}

bool dz_target_wait(dz_target *target, unsigned ms)
{
    if (dz_target_poll(target))
        return true;
    int fd = (int)syscall(SYS_pidfd_open, target->pid, 0);
    uint64_t deadline = dz_now() + ms * DZ_MS;
    while (!dz_target_poll(target)) {
        uint64_t now = dz_now();
        if (now >= deadline)
            break;
        struct pollfd p = {.fd = fd, .events = POLLIN};
        uint64_t left = (deadline - now + DZ_MS - 1) / DZ_MS;
        poll(&p, fd >= 0, (int)(fd >= 0 || left < 10 ? left : 10));
    }
    if (fd >= 0)
        close(fd);
    return target->exited;
}

static void signal_all(const dz_target *target, const dz_tree *tree, int signal)
{
    kill(-target->pid, signal); /* the group outlives its leader */
    for (size_t i = 0; i < tree->count; i++)
        if (!tree->procs[i].gone && tree->procs[i].pid != getpid())
            kill(tree->procs[i].pid, signal);
}

static bool group_alive(const dz_target *target, dz_tree *tree)
{
    while (waitpid(-target->pid, NULL, WNOHANG) > 0) /* orphans that came to us */
        continue;
    dz_tree_refresh(tree);
    bool alive = kill(-target->pid, 0) == 0;
    for (size_t i = 0; i < tree->count && !alive; i++)
        alive = !tree->procs[i].gone;
    return alive;
}

void dz_target_stop(dz_target *target, int signal, unsigned grace_ms)
{
    if (target->pid == 0)
        return;
    dz_tree tree;
    dz_tree_init(&tree, target->pid);
    dz_tree_refresh(&tree); /* before the signal: children of a dead parent are found no more */
    signal_all(target, &tree, signal);
    uint64_t deadline = dz_now() + grace_ms * DZ_MS;
    bool killed = false;
    for (;;) {
        bool ended = dz_target_wait(target, 10);
        if (ended && !group_alive(target, &tree))
            break;
        if (ended)
            usleep(2000); /* the leader is gone, others are on their way */
        if (killed && dz_now() > deadline + 2 * DZ_SEC)
            break; /* in uninterruptible sleep: nothing can be done */
        if (dz_now() > deadline) {
            signal_all(target, &tree, SIGKILL);
            killed = true;
        }
    }
    dz_tree_close(&tree);
    end_keeper(target);
}

void dz_target_describe(const dz_target *target, char *out, size_t cap)
{
    if (!target->exited)
        snprintf(out, cap, "still running");
    else if (WIFSIGNALED(target->status))
        snprintf(out, cap, "signal %d (%s)", WTERMSIG(target->status),
                 strsignal(WTERMSIG(target->status)));
    else
        snprintf(out, cap, "exit status %d", WEXITSTATUS(target->status));
}
