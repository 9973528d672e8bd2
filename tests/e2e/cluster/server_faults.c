/* System calls that fail on request, linked around the supervisor's (ld --wrap): the environment's
 * FAULT_FORK, FAULT_ACCEPT and FAULT_SEND say how many calls fail first, and with which errno, as
 * "COUNT:ERRNO". Only in the process that was started; its workers are left alone. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct fault {
    const char *variable;
    int left, error; /* left -1: the variable was not read yet */
} fault;

static fault fork_fault = {"FAULT_FORK", -1, 0};
static fault accept_fault = {"FAULT_ACCEPT", -1, 0};
static fault send_fault = {"FAULT_SEND", -1, 0};

static int fails(fault *it)
{
    if (it->left < 0) {
        it->left = 0;
        const char *text = getenv(it->variable);
        if (text) {
            char *rest;
            it->left = (int)strtol(text, &rest, 10);
            it->error = *rest == ':' ? (int)strtol(rest + 1, NULL, 10) : EAGAIN;
        }
    }
    if (it->left == 0)
        return 0;
    it->left--;
    errno = it->error;
    return 1;
}

pid_t __real_fork(void);
pid_t __wrap_fork(void);
int __real_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);

pid_t __wrap_fork(void)
{
    if (fails(&fork_fault))
        return -1;
    pid_t pid = __real_fork();
    if (pid == 0)
        accept_fault.left = send_fault.left = 0;
    return pid;
}

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags)
{
    return fails(&accept_fault) ? -1 : __real_accept4(fd, address, len, flags);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    if (message->msg_controllen > 0 && fails(&send_fault))
        return -1;
    return __real_sendmsg(fd, message, flags);
}
