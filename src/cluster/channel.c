#include "cluster/channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

int dz_channel_open(int ends[2])
{
    int type = SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC;
    return socketpair(AF_UNIX, type, 0, ends) < 0 ? -errno : 0;
}

static int send_whole(int channel, const struct msghdr *message)
{
    for (;;) {
        if (sendmsg(channel, message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
            return 0;
        if (errno != EINTR)
            return -errno;
    }
}

int dz_channel_send_socket(int channel, int fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    char byte = 'c';
    struct iovec piece = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    return send_whole(channel, &message);
}

int dz_channel_take_socket(int channel)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    char byte;
    struct iovec piece = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t n = recvmsg(channel, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n <= 0)
        return n == 0 ? -EPIPE : -errno;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_type != SCM_RIGHTS)
        return -EPROTO; /* EMFILE here: the kernel dropped it */
    int fd;
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

int dz_channel_say(int channel, enum dz_says what, const char *text)
{
    char kind = (char)what;
    size_t len = text ? strnlen(text, DZ_CHANNEL_TEXT - 1) : 0;
    struct iovec pieces[2] = {{.iov_base = &kind, .iov_len = 1},
                              {.iov_base = (void *)(size_t)text, .iov_len = len}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
    return send_whole(channel, &message);
}

int dz_channel_hear(int channel, char text[DZ_CHANNEL_TEXT])
{
    char kind;
    struct iovec pieces[2] = {{.iov_base = &kind, .iov_len = 1},
                              {.iov_base = text, .iov_len = DZ_CHANNEL_TEXT - 1}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
    ssize_t n;
    do
        n = recvmsg(channel, &message, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return n == 0 ? 0 : -errno;
    text[n - 1] = '\0';
    return kind;
}
