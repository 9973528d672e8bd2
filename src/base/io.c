#include "base/io.h"

#include <sys/syscall.h>
#include <unistd.h>

ssize_t dz_recv(int fd, void *out, size_t size)
{
    return syscall(SYS_recvfrom, fd, out, size, 0, NULL, NULL);
}

ssize_t dz_send(int fd, const void *bytes, size_t size)
{
    return syscall(SYS_sendto, fd, bytes, size, MSG_NOSIGNAL, NULL, 0);
}

ssize_t dz_sendmsg(int fd, const struct msghdr *message)
{
    return syscall(SYS_sendmsg, fd, message, MSG_NOSIGNAL);
}
