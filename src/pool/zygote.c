#include "pool/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Killing a zygote must not end the pool, but a server with threads is a bad place to fork from. So
 * the zygote keeps a spare: a copy of itself that does nothing. When the one is gone the spare
 * takes its place, makes children as of the same moment, and a spare of its own. */

enum { PATIENCE_MS = 1000 };

typedef struct process {
    int socket, pidfd; /* -1: there is none */
} process;

struct dz_zygote {
    pthread_mutex_t lock; /* one request at a time */
    process active, spare;
};

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

static void start_child(const dz_birth *birth, int socket)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGCHLD, SIG_DFL);
    /* A crash is one task's: no core file of the whole program for each. */
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    /* The program's own reports on crashing are for itself. */
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
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

_Noreturn static void become_zygote(int socket);

/* Returns 0 or -errno, which the asker is told. */
static int make_child(int control, const dz_birth *birth)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    pid_t pid = fork();
    if (pid == 0) {
        if (birth->spare)
            become_zygote(pair[1]);
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
        dz_birth birth;
        int fd;
        if (dz_packet_receive(control, &birth, sizeof birth, &fd, 1) != sizeof birth)
            _exit(0); /* the server is gone; the children go with us */
        int rc = make_child(control, &birth);
        if (rc < 0)
            dz_packet_send(control, &rc, sizeof rc, -1);
    }
}

/* Nothing of the server or of another zygote may be kept open by a process that outlives it. */
_Noreturn static void become_zygote(int socket)
{
    int control = dup2(socket, 3);
    fcntl(control, F_SETFD, FD_CLOEXEC);
    syscall(SYS_close_range, 4, ~0u, 0);
    run_zygote(control);
}

/* --- in the server --- */

static bool is_alive(const process *of)
{
    struct pollfd ended = {.fd = of->pidfd, .events = POLLIN};
    return of->pidfd >= 0 && poll(&ended, 1, 0) == 0;
}

/* Ends it, if that is still needed, and waits until it is gone. */
static void end_process(process *of)
{
    if (of->socket >= 0)
        close(of->socket); /* upon which it reaps what has ended, and exits */
    if (of->pidfd >= 0) {
        struct pollfd ended = {.fd = of->pidfd, .events = POLLIN};
        siginfo_t info;
        if (poll(&ended, 1, PATIENCE_MS) == 0)
            dz_child_kill(of->pidfd); /* somebody has stopped it */
        while (poll(&ended, 1, -1) < 0 && errno == EINTR)
            ;
        /* A spare is a child of who made it, or of whoever adopts orphans. */
        while (waitid(P_PIDFD, (id_t)of->pidfd, &info, WEXITED) < 0 && errno == EINTR)
            ;
        close(of->pidfd);
    }
    of->socket = of->pidfd = -1;
}

/* A copy of the server. False with errno set. */
static bool fork_zygote(process *made)
{
    int pair[2];
    *made = (process){-1, -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return false;
    pid_t pid = fork();
    if (pid == 0)
        become_zygote(pair[1]);
    int error = errno;
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        errno = error;
        return false;
    }
    *made = (process){pair[0], (int)syscall(SYS_pidfd_open, pid, 0)};
    if (made->pidfd >= 0)
        return true;
    error = errno;
    end_process(made); /* at the end of its input it exits */
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    errno = error;
    return false;
}

/* DZ_E_CLOSED: the zygote is gone. DZ_E_UNAVAILABLE: it could not. */
static int ask(const process *zygote, const dz_birth *birth, process *made)
{
    int answer = 0;
    *made = (process){-1, -1};
    ssize_t n = dz_packet_send(zygote->socket, birth, sizeof *birth, -1);
    if (n > 0)
        n = dz_packet_receive(zygote->socket, &answer, sizeof answer, &made->socket, 1);
    if (n == sizeof answer)
        return DZ_E_UNAVAILABLE;
    if (n == 1)
        n = dz_packet_receive(zygote->socket, &answer, 1, &made->pidfd, 1);
    if (n == 1 && made->socket >= 0 && made->pidfd >= 0)
        return 0;
    bool answered = n > 0; /* but there was no room for its descriptors */
    if (made->socket >= 0)
        close(made->socket);
    if (made->pidfd >= 0)
        close(made->pidfd);
    *made = (process){-1, -1};
    return answered ? DZ_E_UNAVAILABLE : DZ_E_CLOSED;
}

/* With the lock held. Without one the spare can be made later. */
static void keep_spare(dz_zygote *zygote)
{
    static const dz_birth birth = {.spare = 1};
    if (is_alive(&zygote->spare))
        return;
    end_process(&zygote->spare);
    (void)ask(&zygote->active, &birth, &zygote->spare);
}

/* With the lock held. Both can only be gone when both were killed at about the same time: then
 * there is nothing left to copy but the server as it is now. */
static bool replace(dz_zygote *zygote)
{
    end_process(&zygote->active);
    zygote->active = zygote->spare;
    zygote->spare = (process){-1, -1};
    if (is_alive(&zygote->active))
        return true;
    end_process(&zygote->active);
    return fork_zygote(&zygote->active);
}

/* Calls for which there is no substitute: an older kernel has none, and a container may forbid
 * them. False with errno set. */
static bool has_calls(void)
{
    int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    int memory = memfd_create("donmaz", MFD_CLOEXEC);
    bool has = pidfd >= 0 && memory >= 0;
    /* Signal 0 asks whether one could be sent. Without it a child that hangs could not be ended. */
    has = has && syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) == 0;
    int error = errno;
    if (pidfd >= 0)
        close(pidfd);
    if (memory >= 0)
        close(memory);
    errno = error;
    return has;
}

dz_zygote *dz_zygote_new(void)
{
    if (!has_calls())
        return NULL;
    dz_zygote *zygote = calloc(1, sizeof *zygote);
    if (!zygote)
        return NULL;
    zygote->spare = (process){-1, -1};
    if (!fork_zygote(&zygote->active)) {
        free(zygote);
        return NULL;
    }
    pthread_mutex_init(&zygote->lock, NULL);
    keep_spare(zygote);
    return zygote;
}

void dz_zygote_free(dz_zygote *zygote)
{
    if (!zygote)
        return;
    end_process(&zygote->spare);
    end_process(&zygote->active);
    pthread_mutex_destroy(&zygote->lock);
    free(zygote);
}

int dz_zygote_ask(dz_zygote *zygote, const dz_birth *birth, int *socket, int *pidfd)
{
    process made;
    pthread_mutex_lock(&zygote->lock);
    int rc = is_alive(&zygote->active) ? ask(&zygote->active, birth, &made) : DZ_E_CLOSED;
    if (rc == DZ_E_CLOSED) {
        rc = DZ_E_UNAVAILABLE;
        if (replace(zygote))
            rc = ask(&zygote->active, birth, &made);
    }
    if (rc != DZ_E_CLOSED)
        keep_spare(zygote);
    pthread_mutex_unlock(&zygote->lock);
    *socket = rc == 0 ? made.socket : -1;
    *pidfd = rc == 0 ? made.pidfd : -1;
    return rc;
}
