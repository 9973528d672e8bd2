/* A private redis-server as a child process. */
#include "base/clock.h"

#include <donmaz/redis.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START_MS = 10000, STOP_MS = 3000, STEP_MS = 5 };

struct dz_redis_server {
    pid_t pid;
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

/* In the child. Only async-signal-safe calls: the parent may have threads. */
__attribute__((noreturn)) static void become_server(const dz_redis_server *server, pid_t parent,
                                                    int report)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent && chdir(server->folder) == 0) {
        int null = open("/dev/null", O_RDWR);
        if (null >= 0) {
            dup2(null, STDIN_FILENO);
            dup2(null, STDOUT_FILENO);
        }
        setpgid(0, 0); /* Ctrl-C is for us, who then stop it */
        execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", server->socket,
               "--unixsocketperm", "700", "--save", "", "--appendonly", "no", "--daemonize", "no",
               (char *)NULL);
    }
    int error = errno;
    ssize_t n = write(report, &error, sizeof error);
    _exit(n == sizeof error ? 127 : 126);
}

static int spawn(dz_redis_server *server)
{
    int report[2], error = 0;
    if (pipe2(report, O_CLOEXEC) < 0)
        return -errno;
    pid_t parent = getpid();
    server->pid = fork();
    if (server->pid == 0)
        become_server(server, parent, report[1]);
    int rc = server->pid < 0 ? -errno : 0;
    close(report[1]);
    /* Closed by exec when that succeeds. */
    ssize_t n = rc == 0 ? read(report[0], &error, sizeof error) : 0;
    close(report[0]);
    if (n != sizeof error)
        return rc;
    waitpid(server->pid, NULL, 0);
    server->pid = -1;
    return error ? -error : DZ_E_UNAVAILABLE;
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

static int wait_until_it_answers(const dz_redis_server *server)
{
    for (uint64_t end = dz_now() + START_MS * DZ_MS; dz_now() < end; poll(NULL, 0, STEP_MS)) {
        if (answers(server))
            return 0;
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid)
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
    if (rc == DZ_E_UNAVAILABLE)
        server->pid = -1; /* reaped already */
    dz_redis_server_stop(server);
    return rc;
}

void dz_redis_server_stop(dz_redis_server *server)
{
    if (!server)
        return;
    if (server->pid > 0) {
        kill(server->pid, SIGTERM);
        bool ended = false;
        for (uint64_t end = dz_now() + STOP_MS * DZ_MS; !ended && dz_now() < end;) {
            ended = waitpid(server->pid, NULL, WNOHANG) != 0;
            if (!ended)
                poll(NULL, 0, STEP_MS);
        }
        if (!ended) {
            kill(server->pid, SIGKILL);
            waitpid(server->pid, NULL, 0);
        }
    }
    remove_folder(server);
    free(server);
}
