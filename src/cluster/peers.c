#include "cluster/peers.h"

#include "cluster/channel.h"
#include "ops/merge.h"

#include <donmaz/error.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint64_t ANSWER_NS = DZ_SEC; /* for the others, all together */

struct dz_peer {
    const dz_peers *peers;
    dz_core *core;
    unsigned number;
    int stop_fd;
    pthread_t thread;
};

int dz_peers_open(dz_peers *peers, unsigned count)
{
    *peers = (dz_peers){.pairs = calloc(count, sizeof *peers->pairs)};
    if (!peers->pairs)
        return DZ_E_NOMEM;
    for (; peers->count < count; peers->count++) {
        int rc = dz_channel_open(peers->pairs[peers->count]);
        if (rc < 0) {
            dz_peers_close(peers);
            return rc;
        }
    }
    return 0;
}

void dz_peers_close(dz_peers *peers)
{
    for (unsigned i = 0; i < peers->count; i++) {
        close(peers->pairs[i][0]);
        close(peers->pairs[i][1]);
    }
    free(peers->pairs);
    *peers = (dz_peers){0};
}

/* --- answering --- */

static void send_all(int fd, dz_slice text)
{
    const struct timeval limit = {.tv_sec = 1}; /* who asked may be gone, or hang */
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    while (text.len > 0) {
        ssize_t n = send(fd, text.ptr, text.len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        text.ptr += n;
        text.len -= (size_t)n;
    }
}

static void answer(const dz_peer *it, int fd)
{
    dz_buf text = {0};
    if (dz_metrics_write(it->core->metrics, &text) == 0)
        send_all(fd, dz_buf_slice(&text));
    dz_buf_release(&text);
    close(fd);
}

static void *answer_all(void *arg)
{
    const dz_peer *it = arg;
    pthread_setname_np(pthread_self(), "dz-peer");
    int channel = it->peers->pairs[it->number - 1][0];
    for (;;) {
        struct pollfd from[2] = {{.fd = channel, .events = POLLIN},
                                 {.fd = it->stop_fd, .events = POLLIN}};
        if (poll(from, 2, -1) < 0)
            continue;
        if (from[1].revents)
            return NULL;
        int fd = dz_channel_take_socket(channel);
        if (fd >= 0)
            answer(it, fd);
    }
}

int dz_peer_start(dz_peer **out, const dz_peers *peers, unsigned number, dz_core *core)
{
    enum { STACK = 256 << 10 };
    dz_peer *it = malloc(sizeof *it);
    if (!it)
        return DZ_E_NOMEM;
    *it = (dz_peer){.peers = peers, .core = core, .number = number};
    it->stop_fd = eventfd(0, EFD_CLOEXEC);
    int rc = it->stop_fd < 0 ? -errno : dz_thread_create(&it->thread, STACK, answer_all, it);
    if (rc < 0) {
        if (it->stop_fd >= 0)
            close(it->stop_fd);
        free(it);
        return rc;
    }
    *out = it;
    return 0;
}

void dz_peer_stop(dz_peer *peer)
{
    if (!peer)
        return;
    uint64_t one = 1;
    ssize_t n = write(peer->stop_fd, &one, sizeof one);
    (void)n; /* can't fail: the counter was 0 */
    pthread_join(peer->thread, NULL);
    close(peer->stop_fd);
    free(peer);
}

/* --- asking --- */

/* The end to read from; -1: the place can't be asked. */
static int ask(int channel)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return -1;
    int rc = dz_channel_send_socket(channel, ends[1]);
    close(ends[1]);
    if (rc == 0)
        return ends[0];
    close(ends[0]);
    return -1;
}

/* Reads to the end; empties `text` when that has not come in time. What has come meanwhile, while
 * another was waited for, is in time. */
static void hear(int fd, dz_buf *text, uint64_t until)
{
    for (;;) {
        uint64_t now = dz_now();
        struct pollfd from = {.fd = fd, .events = POLLIN};
        int ready = poll(&from, 1, now < until ? (int)((until - now) / DZ_MS) + 1 : 0);
        char piece[16 << 10];
        ssize_t n = ready > 0 ? recv(fd, piece, sizeof piece, MSG_DONTWAIT) : -1;
        if (n == 0)
            return;
        if (n < 0 && now < until && (ready < 0 || errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0 || dz_buf_append(text, dz_slice_make(piece, (size_t)n)) < 0) {
            dz_buf_release(text);
            return;
        }
    }
}

static int put_up(dz_buf *out, const dz_slice *texts, unsigned count)
{
    int rc = dz_buf_append(out, DZ_LIT("# HELP donmaz_worker_up Whether the worker answered.\n"
                                       "# TYPE donmaz_worker_up gauge\n"));
    for (unsigned i = 0; i < count && rc == 0; i++) {
        char line[64];
        int len = snprintf(line, sizeof line, "donmaz_worker_up{worker=\"%u\"} %d\n", i + 1,
                           texts[i].len > 0);
        rc = dz_buf_append(out, dz_slice_make(line, (size_t)len));
    }
    return rc;
}

int dz_peer_write_all(void *context, dz_buf *out)
{
    const dz_peer *it = context;
    unsigned count = it->peers->count;
    dz_buf *texts = calloc(count, sizeof *texts);
    dz_slice *slices = calloc(count, sizeof *slices);
    int *fds = calloc(count, sizeof *fds);
    int rc = texts && slices && fds ? 0 : DZ_E_NOMEM;
    for (unsigned i = 0; i < count && rc == 0; i++)
        fds[i] = i + 1 == it->number ? -1 : ask(it->peers->pairs[i][1]);
    if (rc == 0)
        rc = dz_metrics_write(it->core->metrics, &texts[it->number - 1]);
    uint64_t until = dz_now() + ANSWER_NS;
    for (unsigned i = 0; texts && fds && slices && i < count; i++) {
        if (fds[i] >= 0 && i + 1 != it->number) {
            hear(fds[i], &texts[i], until);
            close(fds[i]);
        }
        slices[i] = dz_buf_slice(&texts[i]);
    }
    if (rc == 0)
        rc = put_up(out, slices, count);
    if (rc == 0)
        rc = dz_metrics_merge(out, slices, count);
    for (unsigned i = 0; texts && i < count; i++)
        dz_buf_release(&texts[i]);
    free(texts);
    free(slices);
    free(fds);
    return rc;
}
