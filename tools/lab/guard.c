/* Both ends of the socket: guard_run in the guard process, dz_lab_target_* in the lab. */
#include "guard.h"

#include "target/proctree.h"

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
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* From the guard: first `started`, later `end` as often as the end becomes known better. From the
 * lab: one unsigned, the grace in milliseconds; end of file means at once. */
typedef enum message_kind { STARTED, ENDED, GONE } message_kind;

typedef struct message {
    message_kind kind;
    pid_t pid;
    uint64_t started;
    dz_lab_end end;
} message;

typedef struct guard {
    int socket, output, signals;
    pid_t target;
    message say;
    size_t tail_len;
} guard;

static void note_output(guard *g)
{
    char chunk[65536];
    ssize_t n = read(g->output, chunk, sizeof chunk);
    if (n <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
            close(g->output);
            g->output = -1;
        }
        return;
    }
    size_t len = (size_t)n, room = DZ_LAB_TAIL - 1;
    char *tail = g->say.end.tail;
    g->say.end.printed += len;
    if (len >= room) {
        memcpy(tail, chunk + len - room, room);
        g->tail_len = room;
    } else {
        size_t keep = g->tail_len + len > room ? room - len : g->tail_len;
        memmove(tail, tail + g->tail_len - keep, keep);
        memcpy(tail + keep, chunk, len);
        g->tail_len = keep + len;
    }
    tail[g->tail_len] = '\0';
}

static void send_message(guard *g, message_kind kind)
{
    g->say.kind = kind;
    (void)send(g->socket, &g->say, sizeof g->say, MSG_NOSIGNAL);
}

/* Waits for every child that has ended; the target's own end is told to the lab. */
static void reap(guard *g)
{
    struct signalfd_siginfo info;
    while (read(g->signals, &info, sizeof info) > 0)
        continue;
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != g->target)
            continue;
        while (g->output >= 0 &&
               poll(&(struct pollfd){.fd = g->output, .events = POLLIN}, 1, 0) > 0)
            note_output(g);
        g->say.end.exited = true;
        g->say.end.status = status;
        send_message(g, ENDED);
    }
}

static size_t signal_all(int signal)
{
    dz_proctree tree;
    if (dz_proctree_read(getpid(), false, &tree) < 0)
        return 0;
    size_t count = tree.count;
    for (size_t i = 0; i < count; i++)
        kill(tree.pids[i], signal);
    dz_proctree_free(&tree);
    return count;
}

static void wait_a_little(guard *g)
{
    struct pollfd fds[] = {{.fd = g->signals, .events = POLLIN},
                           {.fd = g->output, .events = POLLIN}};
    poll(fds, 2, 5);
    if (fds[1].revents)
        note_output(g);
    reap(g);
}

/* Until no descendant is left; new ones may appear while others are being killed. */
static void end_all(guard *g, unsigned grace_ms)
{
    uint64_t deadline = dz_now() + grace_ms * DZ_MS;
    if (grace_ms > 0 && !g->say.end.exited) {
        kill(-g->target, SIGTERM);
        signal_all(SIGTERM);
    }
    while (dz_now() < deadline && signal_all(0) > 0)
        wait_a_little(g);
    g->say.end.killed = (unsigned)signal_all(0);
    while (signal_all(SIGKILL) > 0)
        wait_a_little(g);
    reap(g);
}

__attribute__((noreturn)) static void guard_run(guard *g)
{
    for (;;) {
        struct pollfd fds[] = {{.fd = g->socket, .events = POLLIN},
                               {.fd = g->signals, .events = POLLIN},
                               {.fd = g->output, .events = POLLIN}};
        if (poll(fds, 3, -1) < 0 && errno != EINTR)
            break;
        if (fds[2].revents)
            note_output(g);
        if (fds[1].revents)
            reap(g);
        if (fds[0].revents) {
            unsigned grace = 0;
            (void)recv(g->socket, &grace, sizeof grace, 0); /* end of file: no grace */
            end_all(g, grace);
            break;
        }
    }
    send_message(g, GONE);
    _exit(0);
}

__attribute__((noreturn)) static void target_exec(char *const *argv, const char *cwd,
                                                  char *const *environment, int output, int report)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int error = 0;
    if (input < 0 || dup2(input, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0 ||
        chdir(cwd) < 0)
        error = errno;
    for (; !error && environment && *environment; environment++)
        if (putenv(*environment) != 0)
            error = errno;
    if (!error) {
        execvp(argv[0], argv);
        error = errno;
    }
    (void)!write(report, &error, sizeof error);
    _exit(127);
}

/* In the guard: starts the target. errno or 0. `report` yields end of file once exec succeeded. */
static int guard_start_target(guard *g, char *const *argv, const char *cwd,
                              char *const *environment)
{
    int output[2], report[2], error = 0;
    if (pipe2(output, O_CLOEXEC) < 0 || pipe2(report, O_CLOEXEC) < 0)
        return errno;
    g->output = output[0];
    fcntl(g->output, F_SETFL, O_NONBLOCK);
    g->say.started = dz_now();
    g->target = g->say.pid = fork();
    if (g->target == 0)
        target_exec(argv, cwd, environment, output[1], report[1]);
    if (g->target < 0)
        return errno;
    close(output[1]);
    close(report[1]);
    while (read(report[0], &error, sizeof error) < 0 && errno == EINTR)
        continue;
    close(report[0]);
    return error;
}

__attribute__((noreturn)) static void guard_main(int socket, pid_t lab, char *const *argv,
                                                 const char *cwd, char *const *environment)
{
    guard g = {.socket = socket, .output = -1};
    sigset_t all;
    sigfillset(&all); /* Ctrl-C and the like are the lab's business; SIGCHLD comes by descriptor */
    sigprocmask(SIG_SETMASK, &all, NULL);
    setpgid(0, 0);
    prctl(PR_SET_NAME, "donmaz-guard");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    g.signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    int error = g.signals < 0 ? errno : getppid() != lab ? ECANCELED : 0;
    if (!error)
        error = guard_start_target(&g, argv, cwd, environment);
    g.say.end.exec_error = error;
    send_message(&g, STARTED);
    if (error)
        _exit(1);
    guard_run(&g);
}

/* false: nothing there, or the guard is gone. */
static bool receive(dz_lab_target *t, message *m, int flags)
{
    ssize_t n;
    do
        n = recv(t->socket, m, sizeof *m, flags);
    while (n < 0 && errno == EINTR);
    if (n == 0 && !t->end.exited)
        t->end.exited = t->end.guard_lost = true;
    return n == (ssize_t)sizeof *m;
}

int dz_lab_target_start(dz_lab_target *t, char *const *argv, const char *cwd,
                        char *const *environment)
{
    int pair[2];
    *t = (dz_lab_target){.socket = -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* see guard.h: should the guard die */
    fflush(NULL);
    pid_t lab = getpid();
    t->guard = fork();
    if (t->guard == 0) {
        close(pair[0]);
        guard_main(pair[1], lab, argv, cwd, environment);
    }
    int error = errno;
    close(pair[1]);
    if (t->guard < 0) {
        close(pair[0]);
        return -error;
    }
    t->socket = pair[0];
    message m = {0};
    bool told = receive(t, &m, 0);
    t->pid = m.pid;
    t->started = m.started;
    t->end = m.end;
    if (told && m.end.exec_error == 0)
        return 0;
    dz_lab_target_stop(t, 0);
    return told ? -m.end.exec_error : DZ_E_CRASHED;
}

bool dz_lab_target_alive(dz_lab_target *t)
{
    message m;
    if (t->socket < 0)
        return false;
    if (receive(t, &m, MSG_DONTWAIT))
        t->end = m.end;
    return !t->end.exited;
}

/* For the case that the guard was killed: its orphans are ours now. */
static void end_orphans(pid_t guard_pid)
{
    for (int tries = 0; tries < 400; tries++) {
        dz_proctree tree;
        size_t left = 0;
        if (dz_proctree_read(getpid(), false, &tree) < 0)
            return;
        for (size_t i = 0; i < tree.count; i++)
            left += tree.pids[i] != guard_pid && kill(tree.pids[i], SIGKILL) == 0;
        dz_proctree_free(&tree);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            continue;
        if (left == 0)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}

void dz_lab_target_stop(dz_lab_target *t, unsigned grace_ms)
{
    if (t->socket < 0)
        return;
    message m;
    bool gone = false;
    (void)send(t->socket, &grace_ms, sizeof grace_ms, MSG_NOSIGNAL);
    while (receive(t, &m, 0)) {
        t->end = m.end;
        gone = gone || m.kind == GONE;
    }
    close(t->socket);
    t->socket = -1;
    while (waitpid(t->guard, NULL, 0) < 0 && errno == EINTR)
        continue;
    if (!gone && t->pid > 0)
        end_orphans(t->guard);
}

const char *dz_lab_end_text(const dz_lab_end *end)
{
    static char text[96];
    if (end->exec_error)
        snprintf(text, sizeof text, "can't be run: %s", dz_strerror(-end->exec_error));
    else if (end->guard_lost)
        return "was lost: the process that guards it was killed";
    else if (!end->exited)
        return "still runs";
    else if (WIFSIGNALED(end->status))
        snprintf(text, sizeof text, "was killed by SIG%s", sigabbrev_np(WTERMSIG(end->status)));
    else
        snprintf(text, sizeof text, "exited with status %d", WEXITSTATUS(end->status));
    return text;
}
