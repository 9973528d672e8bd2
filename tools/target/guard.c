#include "guard.h"

#include "proctree.h"

#include <base/clock.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CHUNK = 65536,     /* what a pipe holds */
    LOOK_EVERY_MS = 5, /* whether all have ended */
};

typedef struct guard {
    int socket, output, signals;
    dz_guard_message say;
    size_t tail_len;
} guard;

static void keep_end(guard *g, const char *text, size_t len)
{
    size_t room = DZ_TARGET_TAIL - 1;
    char *tail = g->say.tail;
    if (len >= room) {
        memcpy(tail, text + len - room, room);
        g->tail_len = room;
    } else {
        size_t keep = g->tail_len + len > room ? room - len : g->tail_len;
        memmove(tail, tail + g->tail_len - keep, keep);
        memcpy(tail + keep, text, len);
        g->tail_len = keep + len;
    }
    tail[g->tail_len] = '\0';
}

/* False when there was nothing to read. */
static bool note_output(guard *g)
{
    char chunk[CHUNK];
    ssize_t n = g->output < 0 ? 0 : read(g->output, chunk, sizeof chunk);
    if (n > 0) {
        g->say.printed += (uint64_t)n;
        keep_end(g, chunk, (size_t)n);
    } else if (g->output >= 0 && (n == 0 || (errno != EAGAIN && errno != EINTR))) {
        close(g->output);
        g->output = -1;
    }
    return n > 0;
}

static void tell(guard *g, dz_guard_event event)
{
    g->say.event = event;
    (void)send(g->socket, &g->say, sizeof g->say, MSG_NOSIGNAL);
}

static void note_end(guard *g, int status)
{
    /* What it wrote before it ended is in the pipe by now. No more than that: what it started may
     * go on printing for ever. */
    for (int i = 0; i < 2 && note_output(g); i++)
        continue;
    g->say.exited = true;
    g->say.status = status;
    tell(g, DZ_GUARD_ENDED);
}

/* Waits for every child that has ended. False when none is left, and so no descendant either: the
 * orphans of all of them are ours. */
static bool reap(guard *g)
{
    struct signalfd_siginfo info;
    while (read(g->signals, &info, sizeof info) > 0)
        continue;
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == g->say.pid)
            note_end(g, status);
    return pid == 0;
}

/* Once each: a second SIGINT means something else to many programs. How many there are. */
static unsigned signal_all(const guard *g, int signal)
{
    dz_proctree tree;
    if (dz_proctree_read(getpid(), false, &tree) < 0)
        return kill(-g->say.pid, signal) == 0;
    size_t count = tree.count;
    for (size_t i = 0; i < count; i++)
        kill(tree.pids[i], signal);
    dz_proctree_free(&tree);
    return (unsigned)count;
}

static void wait_a_little(guard *g)
{
    struct pollfd fds[] = {{.fd = g->signals, .events = POLLIN},
                           {.fd = g->output, .events = POLLIN}};
    poll(fds, 2, LOOK_EVERY_MS);
    if (fds[1].revents)
        note_output(g);
}

static void end_all(guard *g, const dz_guard_order *order)
{
    uint64_t deadline = dz_now() + order->grace_ms * DZ_MS;
    if (order->grace_ms > 0)
        signal_all(g, order->signal);
    while (reap(g) && dz_now() < deadline)
        wait_a_little(g);
    deadline = dz_now() + DZ_GUARD_KILL_MS * DZ_MS;
    for (bool first = true; reap(g) && dz_now() < deadline; first = false) {
        unsigned count = signal_all(g, SIGKILL); /* again: new ones may appear meanwhile */
        g->say.killed = first ? count : g->say.killed;
        wait_a_little(g);
    }
}

static void watch(guard *g)
{
    for (;;) {
        struct pollfd fds[] = {{.fd = g->socket, .events = POLLIN},
                               {.fd = g->signals, .events = POLLIN},
                               {.fd = g->output, .events = POLLIN}};
        if (poll(fds, 3, -1) < 0 && errno != EINTR)
            return;
        if (fds[2].revents)
            note_output(g);
        if (fds[1].revents)
            reap(g);
        if (fds[0].revents)
            return;
    }
}

/* In the command's process. The exec closes `report`; a failure is written there. */
__attribute__((noreturn)) static void become_command(const dz_guard_task *task, pid_t guard_pid,
                                                     int out, int err, int report)
{
    const dz_target_options *o = task->options;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != guard_pid) /* it died before prctl */
        _exit(127);
    /* Copies first: 1 may be wanted as 2. */
    int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int out_copy = fcntl(out, F_DUPFD_CLOEXEC, 3), err_copy = fcntl(err, F_DUPFD_CLOEXEC, 3);
    if (input >= 0)
        dup2(input, 0);
    dup2(out_copy, 1); /* fails where the tool had none: then the command has none */
    dup2(err_copy, 2);
    char byte;
    if (task->go >= 0 && read(task->go, &byte, 1) != 1)
        _exit(127); /* the tool died, or thought better of it */
    if (!o->cwd || chdir(o->cwd) == 0)
        execvpe(o->argv[0], o->argv, task->environment);
    int error = errno;
    (void)!write(report, &error, sizeof error);
    _exit(127);
}

/* errno or 0; *report yields end of file once exec succeeded. */
static int fork_command(guard *g, const dz_guard_task *task, int *report)
{
    const dz_target_options *o = task->options;
    int output[2] = {-1, -1}, pipe[2];
    if (pipe2(pipe, O_CLOEXEC) < 0)
        return errno;
    *report = pipe[0];
    if (o->output == DZ_TARGET_KEPT) {
        if (pipe2(output, O_CLOEXEC) < 0)
            return errno;
        g->output = output[0];
        fcntl(g->output, F_SETFL, O_NONBLOCK);
    }
    int out = o->output == DZ_TARGET_INHERIT     ? 1
              : o->output == DZ_TARGET_TO_STDERR ? 2
              : o->output == DZ_TARGET_PIPED     ? o->out
                                                 : output[1];
    int err = o->output == DZ_TARGET_PIPED ? o->err : o->output == DZ_TARGET_KEPT ? output[1] : 2;
    pid_t self = getpid();
    g->say.started = dz_now();
    g->say.pid = fork();
    if (g->say.pid == 0)
        become_command(task, self, out, err, pipe[1]);
    return g->say.pid < 0 ? errno : 0;
}

/* Nothing of the tool's may stay open here: neither its output, which somebody reads to the end,
 * nor its ends of other guards' sockets. */
static void close_all_but(const int *keep, size_t count)
{
    for (unsigned from = 0;;) {
        unsigned next = ~0U;
        for (size_t i = 0; i < count; i++)
            if (keep[i] >= 0 && (unsigned)keep[i] >= from && (unsigned)keep[i] < next)
                next = (unsigned)keep[i];
        if (next == ~0U) {
            (void)close_range(from, ~0U, 0);
            return;
        }
        if (next > from)
            (void)close_range(from, next - 1, 0);
        from = next + 1;
    }
}

static int read_report(int report)
{
    int error = 0;
    while (read(report, &error, sizeof error) < 0 && errno == EINTR)
        continue;
    close(report);
    return error;
}

void dz_guard_run(const dz_guard_task *task)
{
    guard g = {.socket = task->socket, .output = -1};
    sigset_t all, child;
    sigfillset(&all); /* Ctrl-C and the like are the tool's business; SIGCHLD comes by descriptor */
    sigprocmask(SIG_SETMASK, &all, NULL);
    setpgid(0, 0);
    prctl(PR_SET_NAME, DZ_GUARD_NAME);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    g.signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    int report = -1;
    g.say.error = g.signals < 0 ? errno : getppid() != task->tool ? ECANCELED : 0;
    if (!g.say.error)
        g.say.error = fork_command(&g, task, &report);
    if (!g.say.error) {
        close_all_but((int[]){g.socket, g.signals, g.output, report}, 4);
        tell(&g, DZ_GUARD_FORKED);
        g.say.error = read_report(report);
    }
    if (g.say.error && g.say.pid > 0)
        waitpid(g.say.pid, NULL, 0);
    tell(&g, DZ_GUARD_EXECUTED);
    if (g.say.error)
        _exit(1);
    watch(&g);
    dz_guard_order order = {.signal = SIGKILL};
    (void)recv(g.socket, &order, sizeof order, MSG_DONTWAIT); /* end of file: as it stands */
    end_all(&g, &order);
    tell(&g, DZ_GUARD_EMPTIED);
    _exit(0);
}
