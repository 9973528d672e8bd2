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

struct dz_child {
    int socket, pidfd;
    unsigned tasks;
};

/* What the zygote is asked for. */
typedef struct birth_request {
    uint64_t memory_max;
    int32_t nice;
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
    if (birth->nice > 0)
        setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + birth->nice);
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

/* Ends the child whatever it does, and waits until it is gone. */
static void kill_child(dz_child *child)
{
    syscall(SYS_pidfd_send_signal, child->pidfd, SIGKILL, NULL, 0);
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
        const dz_packet packet = {
            .kind = DZ_PACKET_TASK, .fn = task->fn, .length = fd >= 0 ? task->in.len : 0};
        rc = dz_packet_send(child->socket, &packet, sizeof packet, fd) < 0 ? DZ_E_CRASHED : 0;
    }
    dz_buf_release(&copy);
    dz_buf_release(&task->in);
    return rc;
}

/* Waits for the child to say something; looks meanwhile whether the task should end. */
static int wait_for_child(const dz_child *child, const dz_task *task)
{
    struct pollfd said = {.fd = child->socket, .events = POLLIN};
    for (;;) {
        int stop = atomic_load_explicit(&((dz_task *)(uintptr_t)task)->stop, memory_order_relaxed);
        if (stop)
            return stop;
        int n = poll(&said, 1, LOOK_MS);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
    }
}

typedef struct reply_packet {
    dz_packet packet;
    char bytes[MESSAGE_ROOM];
} reply_packet;

static void deliver(dz_task *task, const reply_packet *reply)
{
    dz_buf bytes;
    if (dz_buf_copy(&bytes, dz_slice_make(reply->bytes, reply->packet.length)) == 0)
        (void)dz_task_deliver(task, &bytes); /* a full channel drops it, as with threads */
    dz_buf_release(&bytes);
}

/* Listens until the task is done: its result, or why the child must go. */
static int listen_to(dz_child *child, dz_task *task, reply_packet *reply, bool *fit)
{
    *fit = false;
    for (;;) {
        int rc = wait_for_child(child, task), fd;
        if (rc < 0)
            return rc;
        ssize_t n = dz_packet_receive(child->socket, reply, sizeof *reply, &fd, 1);
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

/* A child that keeps dying is made again ever more slowly. */
static void pause_before_restart(unsigned failures)
{
    if (failures < 2)
        return;
    unsigned ms = failures > 10 ? SLOWEST_RESTART_MS : 1u << failures;
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&pause, NULL);
}

int dz_child_run(dz_task *task)
{
    static _Thread_local unsigned failures;
    const dz_pool_options *options = &task->pool->options;
    dz_child **child = dz_worker_child();
    reply_packet *reply = malloc(sizeof *reply);
    int rc = reply ? 0 : DZ_E_NOMEM;
    if (rc == 0 && !*child) {
        pause_before_restart(failures);
        rc = new_child(task->pool, child);
    }
    if (rc < 0) {
        free(reply);
        dz_buf_release(&task->in);
        return rc;
    }
    bool fit = false;
    rc = send_task(*child, task);
    if (rc == 0)
        rc = listen_to(*child, task, reply, &fit);
    if (!fit) {
        kill_child(*child);
        *child = NULL;
        failures += rc == DZ_E_CRASHED;
    } else {
        failures = 0;
        (*child)->tasks++;
        bool old = options->recycle_tasks > 0 && (*child)->tasks >= options->recycle_tasks;
        if (old ||
            (options->recycle_memory > 0 && reply->packet.memory > options->recycle_memory)) {
            dz_child_free(*child);
            *child = NULL;
        }
    }
    free(reply);
    return rc;
}
