#include "pool/process.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOK_MS = 5, MESSAGE_ROOM = 33 << 10, SLOWEST_RESTART_MS = 1000 };

struct dz_zygote {
    pid_t pid;
    int socket;
    pthread_mutex_t lock; /* one request at a time */
};

typedef struct reply_packet {
    dz_packet packet;
    char bytes[MESSAGE_ROOM];
} reply_packet;

struct dz_child {
    int socket, pidfd;
    unsigned tasks;
    reply_packet reply;
};

/* What the zygote is asked for. No padding, since all of it is sent. */
typedef struct birth_request {
    uint64_t memory_max;
    int64_t nice;
} birth_request;

/* --- in the zygote --- */

static void limit_memory(uint64_t memory_max)
{
    if (memory_max == 0)
        return;
    /* RLIMIT_DATA counts what is there already, which is not the task's doing. */
    struct rlimit limit = {memory_max, memory_max};
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        limit.rlim_cur = limit.rlim_max = memory_max + ((uint64_t)usage.ru_maxrss << 10);
    setrlimit(RLIMIT_DATA, &limit);
}

/* When memory runs out the kernel should end the worker, not the server. */
static void offer_to_oom_killer(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : write(fd, "500", 3);
    (void)n; /* without /proc it stays as likely as the server */
    if (fd >= 0)
        close(fd);
}

static void start_child(const birth_request *birth, int socket)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGCHLD, SIG_DFL);
    /* A crash is one task's: no core file of the whole program for each. */
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    /* The program's own reports on crashing are for itself. */
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++)
        signal(fatal[i], SIG_DFL);
    limit_memory(birth->memory_max);
    offer_to_oom_killer();
    if (birth->nice > 0)
        setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + (int)birth->nice);
    dz_child_main(socket);
}

static int send_two(int control, int first, int second)
{
    /* One descriptor a packet keeps sending simple; both arrive or the zygote is gone. */
    char byte = 'c';
    ssize_t a = dz_packet_send(control, &byte, 1, first);
    ssize_t b = a < 0 ? a : dz_packet_send(control, &byte, 1, second);
    return b < 0 ? (int)b : 0;
}

/* Returns 0 or -errno, which the asker is told. */
static int make_child(int control, const birth_request *birth)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    pid_t pid = fork();
    if (pid == 0) {
        close(control);
        close(pair[0]);
        start_child(birth, pair[1]);
    }
    int error = errno;
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        return -error;
    }
    /* The child can't have been reaped yet, so the number is still its own. */
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    int rc = pidfd < 0 ? -errno : send_two(control, pair[0], pidfd);
    if (rc < 0)
        kill(pid, SIGKILL);
    close(pair[0]);
    if (pidfd >= 0)
        close(pidfd);
    return rc;
}

static void on_child_end(int number)
{
    (void)number; /* only there to end the wait for a request */
}

static void reap(void)
{
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

_Noreturn static void run_zygote(int control)
{
    /* Ctrl-C reaches the whole group, but it is the server that decides how work ends. */
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    struct sigaction action = {.sa_handler = on_child_end};
    sigaction(SIGCHLD, &action, NULL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (;;) {
        struct pollfd waited = {.fd = control, .events = POLLIN};
        int n = poll(&waited, 1, -1);
        reap();
        if (n <= 0)
            continue;
        birth_request birth;
        int fd;
        if (dz_packet_receive(control, &birth, sizeof birth, &fd, 1) != sizeof birth)
            _exit(0); /* the server is gone; the children go with us */
        int rc = make_child(control, &birth);
        if (rc < 0)
            dz_packet_send(control, &rc, sizeof rc, -1);
    }
}

/* --- in the server --- */

dz_zygote *dz_zygote_new(void)
{
    dz_zygote *zygote = calloc(1, sizeof *zygote);
    int pair[2];
    if (!zygote)
        return NULL;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        free(zygote);
        return NULL;
    }
    zygote->pid = fork();
    if (zygote->pid == 0) {
        /* Nothing of the server may be kept open by a process that outlives a crash of it. */
        int control = dup2(pair[1], 3);
        fcntl(control, F_SETFD, FD_CLOEXEC);
        syscall(SYS_close_range, 4, ~0u, 0);
        run_zygote(control);
    }
    close(pair[1]);
    zygote->socket = pair[0];
    pthread_mutex_init(&zygote->lock, NULL);
    if (zygote->pid < 0) {
        dz_zygote_free(zygote);
        return NULL;
    }
    return zygote;
}

void dz_zygote_free(dz_zygote *zygote)
{
    if (!zygote)
        return;
    close(zygote->socket);
    if (zygote->pid > 0)
        while (waitpid(zygote->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    pthread_mutex_destroy(&zygote->lock);
    free(zygote);
}

static int ask_for_child(dz_zygote *zygote, const birth_request *birth, int *socket, int *pidfd)
{
    int answer = 0;
    *socket = *pidfd = -1;
    pthread_mutex_lock(&zygote->lock);
    ssize_t n = dz_packet_send(zygote->socket, birth, sizeof *birth, -1);
    if (n > 0)
        n = dz_packet_receive(zygote->socket, &answer, sizeof answer, socket, 1);
    if (n == 1)
        (void)dz_packet_receive(zygote->socket, &answer, 1, pidfd, 1); /* *pidfd tells */
    pthread_mutex_unlock(&zygote->lock);
    if (*socket >= 0 && *pidfd >= 0)
        return 0;
    if (*socket >= 0)
        close(*socket);
    return DZ_E_UNAVAILABLE;
}

static int new_child(const dz_pool *pool, dz_child **out)
{
    const birth_request birth = {.memory_max = pool->options.memory_max,
                                 .nice = pool->options.nice};
    dz_child *child = calloc(1, sizeof *child);
    if (!child)
        return DZ_E_NOMEM;
    int rc = ask_for_child(pool->zygote, &birth, &child->socket, &child->pidfd);
    if (rc < 0) {
        free(child);
        return rc;
    }
    *out = child;
    return 0;
}

void dz_child_free(dz_child *child)
{
    if (!child)
        return;
    close(child->socket); /* at the end of its input it exits */
    close(child->pidfd);
    free(child);
}

void dz_child_kill(int pidfd)
{
    syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
}

/* Ends the child whatever it does, and waits until it is gone. */
static void kill_child(dz_child *child)
{
    dz_child_kill(child->pidfd);
    struct pollfd ended = {.fd = child->pidfd, .events = POLLIN};
    while (poll(&ended, 1, -1) < 0 && errno == EINTR)
        ;
    dz_child_free(child);
}

/* Hands the input over; what has no descriptor is copied, here and not on the loop. */
static int send_task(const dz_child *child, dz_task *task)
{
    dz_buf copy = {0};
    int fd = -1, rc = 0;
    if (task->in.len > 0 && (fd = dz_shared_fd(&task->in)) < 0) {
        rc = dz_shared_copy(&copy, dz_buf_slice(&task->in));
        if (rc == 0)
            fd = dz_shared_fd(&copy);
    }
    if (rc == 0) {
        const dz_packet packet = {.kind = DZ_PACKET_TASK,
                                  .fn = task->fn,
                                  .length = fd >= 0 ? task->in.len : 0,
                                  .memory = task->pool->options.recycle_memory};
        rc = dz_packet_send(child->socket, &packet, sizeof packet, fd) < 0 ? DZ_E_CRASHED : 0;
    }
    dz_buf_release(&copy);
    return rc;
}

static void deliver(dz_task *task, const reply_packet *reply)
{
    dz_buf bytes;
    if (dz_buf_copy(&bytes, dz_slice_make(reply->bytes, reply->packet.length)) == 0)
        (void)dz_task_deliver(task, &bytes); /* a full channel drops it, as with threads */
    dz_buf_release(&bytes);
}

/* Listens until the task is done: its result, or why the child must go. */
static int listen_to(dz_child *child, dz_task *task, bool *fit)
{
    const reply_packet *reply = &child->reply;
    *fit = false;
    for (;;) {
        int fd, rc;
        ssize_t n = dz_packet_receive(child->socket, &child->reply, sizeof child->reply, &fd, 1);
        if (n < (ssize_t)sizeof reply->packet)
            return DZ_E_CRASHED;
        size_t extra = (size_t)n - sizeof reply->packet;
        if (reply->packet.kind == DZ_PACKET_MESSAGE && fd < 0 && extra == reply->packet.length) {
            deliver(task, reply);
            continue;
        }
        if (fd >= 0 && (rc = dz_shared_adopt(&task->out, fd, reply->packet.length)) < 0)
            return rc;
        if (reply->packet.kind != DZ_PACKET_DONE)
            return DZ_E_CRASHED;
        *fit = true;
        return reply->packet.result;
    }
}

/* A child that keeps dying is made again ever more slowly. 0, or why the task should end. */
static int pause_before_restart(const dz_task *task, unsigned failures)
{
    if (failures < 2)
        return 0;
    uint64_t until =
        dz_now() + (failures > 10 ? SLOWEST_RESTART_MS : UINT64_C(1) << failures) * DZ_MS;
    const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
    while (dz_now() < until) {
        int stop = atomic_load((_Atomic int *)(uintptr_t)&task->stop);
        if (stop)
            return stop;
        nanosleep(&pause, NULL);
    }
    return 0;
}

/* Whether a child that ended its task well should make room for a new one. */
static bool is_old(const dz_pool_options *options, const dz_child *child)
{
    return (options->recycle_tasks > 0 && child->tasks >= options->recycle_tasks) ||
           (options->recycle_memory > 0 && child->reply.packet.memory > options->recycle_memory);
}

/* From now on who stops the task kills the child (pidfd >= 0), or no longer. Returns whether that
 * has happened; `*stop` says whether the task should not even begin. */
static bool expose(dz_task *task, int pidfd, int *stop)
{
    pthread_mutex_lock(&task->lock);
    task->pidfd = pidfd;
    bool killed = task->killed;
    *stop = atomic_load(&task->stop);
    pthread_mutex_unlock(&task->lock);
    return killed;
}

int dz_child_run(dz_task *task)
{
    static _Thread_local unsigned failures;
    dz_child **child = dz_worker_child();
    int rc = 0;
    if (!*child) {
        rc = pause_before_restart(task, failures);
        if (rc == 0)
            rc = new_child(task->pool, child);
    }
    if (rc < 0) {
        dz_buf_release(&task->in);
        return rc;
    }
    bool fit = false;
    int stop;
    atomic_store(&task->started, dz_now()); /* it did not run while there was nobody to run it */
    expose(task, (*child)->pidfd, &stop);
    fit = stop != 0; /* a child that was given nothing stays */
    rc = stop ? stop : send_task(*child, task);
    dz_buf_release(&task->in); /* the child has it */
    if (rc == 0)
        rc = listen_to(*child, task, &fit);
    bool killed = expose(task, -1, &stop); /* perhaps when it had ended the task already */
    if (!fit || killed) {
        kill_child(*child);
        *child = NULL;
        failures += rc == DZ_E_CRASHED && !killed;
        return rc;
    }
    failures = 0;
    (*child)->tasks++;
    if (is_old(&task->pool->options, *child)) {
        dz_child_free(*child);
        *child = NULL;
    }
    return rc;
}
