/* process.h: worker processes, and the zygote they are copied from.
 *
 *   this process                          zygote (one thread, no descriptors but its own)
 *     worker thread ── "a child, please" ──> fork ──> child
 *           ^ <───── its socket, its pidfd ──┘          │
 *           └──── task, input ──> ... messages ... <── result, output
 *
 * A worker thread and its child talk over a socket of their own; buffers travel as descriptors of
 * shared memory. The thread waits for its child alone, and others may kill it only under the lock
 * of the task it runs, so no other task is hit. Whatever instruction a child dies at, its socket
 * closes, and its memory goes with its last mapping. */
#ifndef DZ_POOL_PROCESS_H
#define DZ_POOL_PROCESS_H

#include "pool/task.h"

/* --- zygote.c --- */

/* What a child is made with. No padding, since all of it is sent. */
typedef struct dz_birth {
    uint64_t memory_max; /* bytes; 0: any */
    int64_t nice;        /* added to the zygote's */
    uint64_t spare;      /* 1: no child that runs tasks, but another zygote */
} dz_birth;

/* Forks the zygote. NULL with errno set. */
dz_zygote *dz_zygote_new(void);
void dz_zygote_free(dz_zygote *zygote); /* and its children; NULL is fine */

/* Any thread: a new child's socket and pidfd, the caller's to close. DZ_E_UNAVAILABLE: no process
 * can be made. DZ_E_CLOSED: a zygote was killed meanwhile, and so was the one in its place: ask
 * again, after a while. */
int dz_zygote_ask(dz_zygote *zygote, const dz_birth *birth, int *socket, int *pidfd);

/* --- process.c --- */

/* On a worker thread: runs the task in its child, made when there is none. Releases task->in, sets
 * task->out and task->started. DZ_E_CRASHED, DZ_E_UNAVAILABLE (no child can be made), or task->stop
 * after killing. */
int dz_child_run(dz_task *task);

/* Kills a child; the thread that listens to it sees its socket close. */
void dz_child_kill(int pidfd);

/* Ends a child whatever it does, and waits until it is gone. NULL is fine. */
void dz_child_end(dz_child *child);

/* In a child: sends a message to the owner. */
int dz_child_post(dz_task *task, dz_slice message);

/* --- child.c: what runs in the child --- */

typedef enum dz_packet_kind {
    DZ_PACKET_TASK = 1,
    DZ_PACKET_MESSAGE,
    DZ_PACKET_DONE
} dz_packet_kind;

/* Up to so many bytes follow their packet: copying them costs less than mapping memory on both
 * sides and unmapping it, which waits for whatever else is unmapped in the process. */
enum { DZ_PACKET_INLINE = 32 << 10 };

/* What both sides say. Bytes of input and output come as a descriptor of shared memory, those of a
 * message and few ones behind the packet. */
typedef struct dz_packet {
    int32_t kind;
    int32_t result;
    uint64_t length; /* bytes of input, output or message */
    dz_task_fn *fn;  /* the child is a copy of this program, so addresses mean the same */
    uint64_t
        memory; /* bytes that the child holds, if the task's packet asked by not being 0 here */
} dz_packet;

typedef struct dz_full_packet {
    dz_packet packet;
    char bytes[DZ_PACKET_INLINE];
} dz_full_packet;

/* Serves one parent until its socket closes. */
_Noreturn void dz_child_main(int socket);

/* Sends packet.length bytes of `buf` behind the packet, as a descriptor, or first copied into
 * shared memory. DZ_E_NOMEM or -errno: not sent. DZ_E_CLOSED. */
int dz_packet_send_buf(int socket, dz_packet packet, const dz_buf *buf);

/* The bytes that came with a packet of `size` bytes in all; takes over fd (-1: none). DZ_E_NOMEM,
 * DZ_E_PROTOCOL. */
int dz_packet_take_buf(const dz_full_packet *full, size_t size, int fd, dz_buf *buf);

/* Sends a packet with a descriptor (or -1) and receives one; *fd is -1 when none came. Bytes
 * received, 0 at the end, or -errno. */
ssize_t dz_packet_send(int socket, const void *bytes, size_t len, int fd);
ssize_t dz_packet_receive(int socket, void *bytes, size_t cap, int *fds, size_t fd_cap);

/* --- shared.c: buffers in memory that has a descriptor --- */

/* The descriptor behind an owning buffer from dz_buf_alloc_shared; -1 for other buffers. */
int dz_shared_fd(const dz_buf *buf);

/* A shared buffer with a copy of `bytes`. DZ_E_NOMEM or -errno. */
int dz_shared_copy(dz_buf *buf, dz_slice bytes);

/* Room for `cap` bytes in shared memory: of an empty buffer, or a shared one, which grows where it
 * is or moves its pages. DZ_E_NOT_OWNED for other buffers, DZ_E_NOMEM, -errno: unchanged. */
int dz_shared_reserve(dz_buf *buf, size_t cap);

/* Maps what another process sent: `len` bytes behind `fd`, which is closed or taken over.
 * DZ_E_PROTOCOL when it is not memory that keeps its size. */
int dz_shared_adopt(dz_buf *buf, int fd, uint64_t len);

#endif
