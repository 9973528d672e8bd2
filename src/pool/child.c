#include "pool/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FDS_MAX = 2 };

static ssize_t send_parts(int socket, struct iovec *parts, size_t count, int fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    if (fd >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
    }
    ssize_t n;
    do
        n = sendmsg(socket, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

ssize_t dz_packet_send(int socket, const void *bytes, size_t len, int fd)
{
    struct iovec part = {(void *)(uintptr_t)bytes, len};
    return send_parts(socket, &part, 1, fd);
}

ssize_t dz_packet_receive(int socket, void *bytes, size_t cap, int *fds, size_t fd_cap)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int) * FDS_MAX)];
    } control = {0};
    struct iovec part = {bytes, cap};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    for (size_t i = 0; i < fd_cap; i++)
        fds[i] = -1;
    ssize_t n;
    do
        n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_type != SCM_RIGHTS)
        return n;
    size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
        if (i < fd_cap)
            fds[i] = fd;
        else
            close(fd);
    }
    return n;
}

int dz_child_post(dz_task *task, dz_slice message)
{
    dz_packet packet = {.kind = DZ_PACKET_MESSAGE, .length = message.len};
    struct iovec parts[] = {{&packet, sizeof packet},
                            {(void *)(uintptr_t)message.ptr, message.len}};
    return send_parts(task->channel, parts, 2, -1) < 0 ? DZ_E_CLOSED : 0;
}

/* Resident memory of this process. */
static uint64_t memory_held(void)
{
    char text[128];
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    const char *second = strchr(text, ' ');
    return second ? strtoull(second + 1, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static void run_task(int socket, const dz_packet *packet, int fd)
{
    dz_task task = {.channel = socket, .fn = packet->fn};
    dz_packet done = {.kind = DZ_PACKET_DONE};
    done.result = fd >= 0 ? dz_shared_adopt(&task.in, fd, packet->length) : 0;
    if (done.result == 0)
        done.result = dz_task_call(&task);
    dz_buf shared = {0};
    int out = -1;
    if (task.out.len > 0 && (out = dz_shared_fd(&task.out)) < 0) {
        int rc = dz_shared_copy(&shared, dz_buf_slice(&task.out));
        if (rc < 0)
            done.result = rc;
        else
            out = dz_shared_fd(&shared);
    }
    done.length = out >= 0 ? task.out.len : 0;
    done.memory = packet->memory ? memory_held() : 0;
    if (dz_packet_send(socket, &done, sizeof done, out) < 0)
        _exit(1);
    dz_buf_release(&shared);
    dz_buf_release(&task.out);
}

_Noreturn void dz_child_main(int socket)
{
    for (;;) {
        dz_packet packet;
        int fd;
        if (dz_packet_receive(socket, &packet, sizeof packet, &fd, 1) != sizeof packet)
            _exit(0); /* the parent has no more for us */
        run_task(socket, &packet, fd);
    }
}
