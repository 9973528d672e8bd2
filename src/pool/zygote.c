#include "pool/process.h"

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

enum { PATIENCE_MS = 1000 };

struct dz_zygote {
    pid_t pid;
    int socket, pidfd;
    pthread_mutex_t lock; /* one request at a time */
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

/* Returns 0 or -errno, which the asker is told. */
static int make_child(int control, const dz_birth *birth)
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
        dz_birth birth;
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
    zygote->pidfd = zygote->pid < 0 ? -1 : (int)syscall(SYS_pidfd_open, zygote->pid, 0);
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
    close(zygote->socket); /* upon which it reaps what has ended, and exits */
    struct pollfd ended = {.fd = zygote->pidfd, .events = POLLIN};
    if (zygote->pidfd >= 0 && poll(&ended, 1, PATIENCE_MS) == 0)
        dz_child_kill(zygote->pidfd); /* somebody has stopped it */
    if (zygote->pidfd >= 0)
        close(zygote->pidfd);
    if (zygote->pid > 0)
        while (waitpid(zygote->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    pthread_mutex_destroy(&zygote->lock);
    free(zygote);
}

int dz_zygote_ask(dz_zygote *zygote, const dz_birth *birth, int *socket, int *pidfd)
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
