#include "pool/process.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LOOK_MS = 5, SLOWEST_RESTART_MS = 1000, ATTEMPTS = 11 /* about two seconds */ };

struct dz_child {
    int socket, pidfd;
    unsigned tasks;
    dz_full_packet reply;
};

static int new_child(const dz_pool *pool, dz_child **out)
{
    const dz_birth birth = {.memory_max = pool->options.memory_max, .nice = pool->options.nice};
    dz_child *child = calloc(1, sizeof *child);
    if (!child)
        return DZ_E_NOMEM;
    int rc = dz_zygote_ask(pool->zygote, &birth, &child->socket, &child->pidfd);
    if (rc < 0) {
        free(child);
        return rc;
    }
    *out = child;
    return 0;
}

/* Lets a child that runs nothing go. */
static void retire_child(dz_child *child)
{
    close(child->socket); /* at the end of its input it exits */
    close(child->pidfd);
    free(child);
}

void dz_child_kill(int pidfd)
{
    syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
}

void dz_child_end(dz_child *child)
{
    if (!child)
        return;
    dz_child_kill(child->pidfd);
    struct pollfd ended = {.fd = child->pidfd, .events = POLLIN};
    while (poll(&ended, 1, -1) < 0 && errno == EINTR)
        ;
    retire_child(child);
}

/* Hands the input over; what has to be copied is copied here and not on the loop. */
static int send_task(const dz_child *child, dz_task *task)
{
    const dz_packet packet = {
        .kind = DZ_PACKET_TASK, .fn = task->fn, .memory = task->pool->options.recycle_memory};
    int rc = dz_packet_send_buf(child->socket, packet, &task->in);
    return rc == DZ_E_CLOSED ? DZ_E_CRASHED : rc;
}

static void deliver(dz_task *task, const dz_full_packet *reply, size_t size)
{
    dz_buf bytes;
    if (dz_packet_take_buf(reply, size, -1, &bytes) == 0)
        (void)dz_task_deliver(task, &bytes); /* a full channel drops it, as with threads */
    dz_buf_release(&bytes);
}

/* Listens until the task is done: its result, or why the child must go. */
static int listen_to(dz_child *child, dz_task *task, bool *fit)
{
    const dz_full_packet *reply = &child->reply;
    *fit = false;
    for (;;) {
        int fd;
        ssize_t n = dz_packet_receive(child->socket, &child->reply, sizeof child->reply, &fd, 1);
        if (n < (ssize_t)sizeof reply->packet)
            return DZ_E_CRASHED;
        if (reply->packet.kind == DZ_PACKET_MESSAGE && fd < 0) {
            deliver(task, reply, (size_t)n);
            continue;
        }
        int rc = dz_packet_take_buf(reply, (size_t)n, fd, &task->out);
        if (rc < 0)
            return rc;
        if (reply->packet.kind != DZ_PACKET_DONE)
            return DZ_E_CRASHED;
        *fit = true;
        return reply->packet.result;
    }
}

/* A child that keeps dying is made again ever more slowly. 0, or why the task should end. */
static int pause_before_restart(const dz_task *task, unsigned failures)
{
    if (failures < 2)
        return 0;
    uint64_t until =
        dz_now() + (failures > 10 ? SLOWEST_RESTART_MS : UINT64_C(1) << failures) * DZ_MS;
    const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
    while (dz_now() < until) {
        int stop = atomic_load((_Atomic int *)(uintptr_t)&task->stop);
        if (stop)
            return stop;
        nanosleep(&pause, NULL);
    }
    return 0;
}

/* Whether a child that ended its task well should make room for a new one. */
static bool is_old(const dz_pool_options *options, const dz_child *child)
{
    return (options->recycle_tasks > 0 && child->tasks >= options->recycle_tasks) ||
           (options->recycle_memory > 0 && child->reply.packet.memory > options->recycle_memory);
}

/* From now on who stops the task kills the child (pidfd >= 0), or no longer. Returns whether that
 * has happened; `*stop` says whether the task should not even begin. */
static bool expose(dz_task *task, int pidfd, int *stop)
{
    pthread_mutex_lock(&task->lock);
    task->pidfd = pidfd;
    bool killed = task->killed;
    *stop = atomic_load(&task->stop);
    pthread_mutex_unlock(&task->lock);
    return killed;
}

/* Asks again when a zygote was killed in the middle: the task has not begun. */
static int replace_child(const dz_task *task, unsigned failures, dz_child **child)
{
    int rc = pause_before_restart(task, failures);
    for (unsigned i = 0; rc == 0 && i < ATTEMPTS; i++) {
        rc = new_child(task->pool, child);
        if (rc != DZ_E_CLOSED)
            return rc;
        rc = pause_before_restart(task, i);
    }
    return rc < 0 ? rc : DZ_E_UNAVAILABLE;
}

int dz_child_run(dz_task *task)
{
    static _Thread_local unsigned failures;
    dz_child **child = dz_worker_child();
    int rc = *child ? 0 : replace_child(task, failures, child);
    if (rc < 0) {
        dz_buf_release(&task->in);
        return rc;
    }
    bool fit = false;
    int stop;
    atomic_store(&task->started, dz_now()); /* it did not run while there was nobody to run it */
    expose(task, (*child)->pidfd, &stop);
    fit = stop != 0; /* a child that was given nothing stays */
    rc = stop ? stop : send_task(*child, task);
    dz_buf_release(&task->in); /* the child has it */
    if (rc == 0)
        rc = listen_to(*child, task, &fit);
    bool killed = expose(task, -1, &stop); /* perhaps when it had ended the task already */
    if (!fit || killed) {
        dz_child_end(*child);
        *child = NULL;
        failures += rc == DZ_E_CRASHED && !killed;
        return rc;
    }
    failures = 0;
    (*child)->tasks++;
    if (is_old(&task->pool->options, *child)) {
        retire_child(*child);
        *child = NULL;
    }
    return rc;
}
