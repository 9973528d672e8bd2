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

static int send_with_bytes(int socket, const dz_packet *packet, dz_slice bytes)
{
    struct iovec parts[] = {{(void *)(uintptr_t)packet, sizeof *packet},
                            {(void *)(uintptr_t)bytes.ptr, bytes.len}};
    return send_parts(socket, parts, 2, -1) < 0 ? DZ_E_CLOSED : 0;
}

int dz_packet_send_buf(int socket, dz_packet packet, const dz_buf *buf)
{
    packet.length = buf->len;
    if (buf->len <= DZ_PACKET_INLINE)
        return send_with_bytes(socket, &packet, dz_buf_slice(buf));
    dz_buf copy = {0};
    int fd = dz_shared_fd(buf), rc = 0;
    if (fd < 0) {
        rc = dz_shared_copy(&copy, dz_buf_slice(buf));
        fd = dz_shared_fd(&copy);
    }
    if (rc == 0)
        rc = dz_packet_send(socket, &packet, sizeof packet, fd) < 0 ? DZ_E_CLOSED : 0;
    dz_buf_release(&copy);
    return rc;
}

int dz_packet_take_buf(const dz_full_packet *full, size_t size, int fd, dz_buf *buf)
{
    *buf = (dz_buf){0};
    uint64_t length = full->packet.length;
    if (fd >= 0)
        return dz_shared_adopt(buf, fd, length);
    if (size - sizeof full->packet != length)
        return DZ_E_PROTOCOL;
    return length > 0 ? dz_buf_copy(buf, dz_slice_make(full->bytes, (size_t)length)) : 0;
}

int dz_child_post(dz_task *task, dz_slice message)
{
    const dz_packet packet = {.kind = DZ_PACKET_MESSAGE, .length = message.len};
    return send_with_bytes(task->channel, &packet, message);
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

/* `size`: of the packet with what follows it. */
static void run_task(int socket, const dz_full_packet *full, size_t size, int fd)
{
    const dz_packet *packet = &full->packet;
    dz_task task = {.channel = socket, .fn = packet->fn};
    dz_packet done = {.kind = DZ_PACKET_DONE};
    done.result = dz_packet_take_buf(full, size, fd, &task.in);
    if (done.result == 0)
        done.result = dz_task_call(&task);
    done.memory = packet->memory ? memory_held() : 0;
    int rc = dz_packet_send_buf(socket, done, &task.out);
    dz_buf_release(&task.out);
    if (rc == DZ_E_CLOSED)
        _exit(1);
    if (rc == 0)
        return;
    done.result = rc; /* its output could not be sent */
    if (dz_packet_send_buf(socket, done, &task.out) < 0)
        _exit(1);
}

_Noreturn void dz_child_main(int socket)
{
    static dz_full_packet full;
    for (;;) {
        int fd;
        ssize_t n = dz_packet_receive(socket, &full, sizeof full, &fd, 1);
        if (n < (ssize_t)sizeof full.packet)
            _exit(0); /* the parent has no more for us */
        run_task(socket, &full, (size_t)n, fd);
    }
}
