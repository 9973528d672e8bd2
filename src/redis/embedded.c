/* A private redis-server. Between it and us stands a keeper, a process that ends the server and
 * removes its folder when it is told to or when we are gone, in whatever way. */
#include "base/clock.h"

#include <donmaz/redis.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START_MS = 10000, STEP_MS = 5 };

struct dz_redis_server {
    pid_t pid;    /* of redis-server */
    pid_t keeper; /* our child */
    char folder[64];
    char socket[80];
};

static void remove_folder(const dz_redis_server *server)
{
    unlink(server->socket);
    rmdir(server->folder);
}

static int make_folder(dz_redis_server *server)
{
    const char *base = getenv("XDG_RUNTIME_DIR");
    struct stat st;
    if (!base || strlen(base) > 32 || stat(base, &st) < 0 || access(base, W_OK) < 0)
        base = "/tmp";
    snprintf(server->folder, sizeof server->folder, "%s/donmaz-redis-XXXXXX", base);
    if (!mkdtemp(server->folder))
        return -errno;
    snprintf(server->socket, sizeof server->socket, "%s/sock", server->folder);
    return 0;
}

/* What a started server tells through the pipe: its process id, then nothing, or an error. */
typedef struct report {
    pid_t pid;
    int error;
} report;

__attribute__((noreturn)) static void fail(int pipe_fd)
{
    const report r = {.error = errno};
    ssize_t n = write(pipe_fd, &r, sizeof r);
    _exit(n == sizeof r ? 127 : 126);
}

/* From here to spawn: in forked children, so only async-signal-safe calls, as the parent may have
 * threads. */
__attribute__((noreturn)) static void become_redis(const dz_redis_server *server, pid_t keeper,
                                                   int pipe_fd)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper || chdir(server->folder) < 0)
        fail(pipe_fd);
    int null = open("/dev/null", O_RDWR);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
    }
    execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", server->socket,
           "--unixsocketperm", "700", "--save", "", "--appendonly", "no", "--daemonize", "no",
           (char *)NULL);
    fail(pipe_fd);
}

/* Descriptors that only we should hold, such as listening sockets, end here. */
static void close_all_but(int keep)
{
    if (keep > 3)
        close_range(3, (unsigned)keep - 1, 0);
    close_range((unsigned)keep + 1, ~0U, 0);
}

__attribute__((noreturn)) static void become_keeper(const dz_redis_server *server, pid_t parent,
                                                    int pipe_fd)
{
    sigset_t ends, all;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    prctl(PR_SET_NAME, "dz-redis-keeper");
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setpgid(0, 0); /* Ctrl-C is for our parent, who then tells us */
    close_all_but(pipe_fd);
    pid_t keeper = getpid(), redis = fork();
    if (redis == 0)
        become_redis(server, keeper, pipe_fd);
    if (redis < 0)
        fail(pipe_fd);
    const report r = {.pid = redis};
    ssize_t n = write(pipe_fd, &r, sizeof r);
    close(pipe_fd);
    int signal;
    if (n == sizeof r && getppid() == parent)
        sigwait(&ends, &signal);
    kill(redis, SIGTERM); /* a zombie's id is still its own */
    const struct timespec patience = {.tv_sec = 3};
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    if (waitpid(redis, NULL, WNOHANG) == 0) {
        sigtimedwait(&child, NULL, &patience);
        kill(redis, SIGKILL);
        waitpid(redis, NULL, 0);
    }
    remove_folder(server);
    _exit(0);
}

static void stop_keeper(dz_redis_server *server)
{
    if (server->keeper <= 0)
        return;
    kill(server->keeper, SIGTERM);
    waitpid(server->keeper, NULL, 0);
    server->keeper = 0;
}

static int spawn(dz_redis_server *server)
{
    int fds[2];
    report r = {0};
    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    pid_t parent = getpid();
    server->keeper = fork();
    if (server->keeper == 0)
        become_keeper(server, parent, fds[1]);
    int rc = server->keeper < 0 ? -errno : 0;
    close(fds[1]);
    while (rc == 0) { /* ends when exec has closed the pipe */
        ssize_t n = read(fds[0], &r, sizeof r);
        if (n < 0 && errno == EINTR)
            continue;
        if (n != sizeof r)
            break;
        if (r.pid > 0)
            server->pid = r.pid;
        else
            rc = r.error ? -r.error : DZ_E_UNAVAILABLE;
    }
    close(fds[0]);
    return rc == 0 && server->pid <= 0 ? DZ_E_UNAVAILABLE : rc;
}

static bool answers(const dz_redis_server *server)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", server->socket);
    char reply[7];
    bool good = connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
                send(fd, "PING\r\n", 6, MSG_NOSIGNAL) == 6 &&
                recv(fd, reply, sizeof reply, MSG_WAITALL) == (ssize_t)sizeof reply &&
                memcmp(reply, "+PONG\r\n", sizeof reply) == 0;
    close(fd);
    return good;
}

static bool is_gone(pid_t pid)
{
    char path[32], state[64] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return true;
    ssize_t n = read(fd, state, sizeof state - 1);
    close(fd);
    const char *end = n > 0 ? strrchr(state, ')') : NULL;
    return !end || strncmp(end, ") Z", 3) == 0;
}

static int wait_until_it_answers(const dz_redis_server *server)
{
    for (uint64_t end = dz_now() + START_MS * DZ_MS; dz_now() < end; poll(NULL, 0, STEP_MS)) {
        if (answers(server))
            return 0;
        if (is_gone(server->pid))
            return DZ_E_UNAVAILABLE;
    }
    return DZ_E_TIMEOUT;
}

int dz_redis_server_start(dz_redis_server **out, char *url, size_t url_size)
{
    dz_redis_server *server = calloc(1, sizeof *server);
    if (!server)
        return DZ_E_NOMEM;
    int rc = make_folder(server);
    if (rc < 0) {
        free(server);
        return rc;
    }
    rc = spawn(server);
    if (rc == 0)
        rc = wait_until_it_answers(server);
    if (rc == 0 && (size_t)snprintf(url, url_size, "unix://%s", server->socket) >= url_size)
        rc = DZ_E_INVALID;
    if (rc == 0) {
        *out = server;
        return 0;
    }
    stop_keeper(server);
    remove_folder(server); /* in case there was no keeper */
    free(server);
    return rc;
}

void dz_redis_server_stop(dz_redis_server *server)
{
    if (!server)
        return;
    stop_keeper(server);
    free(server);
}
