#include "session.h"

#include <base/clock.h>
#include <donmaz/error.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

extern const char dz_node_preload[];
extern const size_t dz_node_preload_len;

/* How the profiler's side of the preload script is spoken to. */
#define STATE "globalThis[Symbol.for('donmaz.preload')]"
/* A worker may hear this before its reporter runs. */
#define WATCHED "globalThis[Symbol.for('donmaz.watched')] = true"

static int write_file(const char *path, const char *text, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int rc = 0;
    while (len > 0 && rc == 0) {
        ssize_t n = write(fd, text, len);
        if (n < 0 && errno != EINTR)
            rc = -errno;
        text += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    if (close(fd) < 0 && rc == 0)
        rc = -errno;
    return rc;
}

static int make_directory(dz_node *node)
{
    const char *base = getenv("TMPDIR");
    if (!base || !*base || strlen(base) > 100)
        base = "/tmp";
    snprintf(node->dir, sizeof node->dir, "%s/donmaz-XXXXXX", base);
    if (!mkdtemp(node->dir)) {
        node->dir[0] = 0;
        return -errno;
    }
    snprintf(node->preload, sizeof node->preload, "%s/preload.cjs", node->dir);
    snprintf(node->fifo_path, sizeof node->fifo_path, "%s/feed", node->dir);
    int rc = write_file(node->preload, dz_node_preload, dz_node_preload_len);
    if (rc == 0 && mkfifo(node->fifo_path, 0600) < 0)
        rc = -errno;
    if (rc < 0)
        return rc;
    /* For writing too: then it never ends, however many processes come and go. */
    node->fifo = open(node->fifo_path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (node->fifo < 0)
        return -errno;
    enum { ROOM = 1 << 20 }; /* a second or two of a busy cluster; refused where it is too much */
    fcntl(node->fifo, F_SETPIPE_SZ, ROOM);
    return 0;
}

/* NODE_OPTIONS splits at spaces; inside double quotes a backslash keeps the next character. */
static int make_environment(dz_node *node)
{
    const char *old = getenv("NODE_OPTIONS");
    int n = 0;
    /* publish-uid: Node would otherwise write the inspector's address to the user's stderr. */
    if (asprintf(&node->environment[n++], "NODE_OPTIONS=%s%s--require \"%s\"%s%s", old ? old : "",
                 old && *old ? " " : "", node->preload,
                 node->options.inspect ? " --inspect-publish-uid=http" : "",
                 node->options.perf_map ? " --perf-basic-prof" : "") < 0 ||
        asprintf(&node->environment[n++], "DONMAZ_FEED=%s", node->fifo_path) < 0 ||
        (node->options.inspect && asprintf(&node->environment[n++], "DONMAZ_INSPECT=%s",
                                           node->options.from_start ? "wait" : "1") < 0)) {
        node->environment[n - 1] = NULL; /* asprintf leaves it undefined */
        return DZ_E_NOMEM;
    }
    return 0;
}

int dz_node_open(dz_node *node, const dz_node_options *options)
{
    memset(node, 0, sizeof *node);
    node->options = *options;
    node->fifo = -1;
    node->profiling = options->from_start;
    dz_feed_init(&node->feed);
    int rc = make_directory(node);
    if (rc == 0)
        rc = make_environment(node);
    if (rc < 0)
        dz_node_close(node);
    return rc;
}

void dz_node_close(dz_node *node)
{
    for (size_t i = 0; i < node->links.count; i++)
        dz_inspector_close(node->links.at[i].inspector);
    free(node->links.at);
    if (node->fifo >= 0)
        close(node->fifo);
    if (node->dir[0]) {
        unlink(node->preload);
        unlink(node->fifo_path);
        rmdir(node->dir);
    }
    for (size_t i = 0; i < 5; i++)
        free(node->environment[i]);
    dz_feed_close(&node->feed);
    memset(node, 0, sizeof *node);
    node->fifo = -1;
}

const char *const *dz_node_environment(const dz_node *node)
{
    return (const char *const *)node->environment;
}

int dz_node_add(dz_node *node, dz_node_link link)
{
    if (node->links.count == node->links.cap) {
        size_t cap = node->links.cap ? node->links.cap * 2 : 4;
        dz_node_link *more = reallocarray(node->links.at, cap, sizeof *more);
        if (!more)
            return DZ_E_NOMEM;
        node->links.at = more;
        node->links.cap = cap;
    }
    node->links.at[node->links.count++] = link;
    return 0;
}

static void connect_new(dz_node *node)
{
    for (; node->looked_at < node->feed.threads.count; node->looked_at++) {
        const dz_js_series *s = &node->feed.threads.at[node->looked_at];
        if (!node->options.inspect || strcmp(s->role, "worker") == 0)
            continue; /* a worker is reached through its process */
        if (!s->url[0])
            return; /* its next line; later series come after it */
        dz_inspector *in;
        if (s->url[0] == '-' || dz_inspector_open(&in, s->pid, s->url, 1000) < 0)
            continue; /* gone already */
        if (dz_node_add(node, (dz_node_link){.inspector = in}) < 0) {
            dz_inspector_close(in);
            continue;
        }
        dz_inspector_evaluate(in, STATE ".attached = true");
        dz_inspector_on_worker(in, WATCHED);
        if (node->profiling)
            dz_inspector_profile_start(in, node->options.interval_us);
        /* Queued behind the start, so that nothing runs unseen. */
        dz_inspector_evaluate(in, STATE ".done = true");
    }
}

static void let_go(dz_inspector *in)
{
    dz_inspector_evaluate(in, STATE "&&(" STATE ".attached = false, " STATE ".done = true)");
    dz_inspector_hang_up(in);
}

/* A process that ends by itself waits for this: its profile is fetched, then it may go. */
static void serve_exits(dz_node *node)
{
    for (size_t i = 0; i < node->feed.threads.count; i++) {
        dz_js_series *s = &node->feed.threads.at[i];
        if (!s->exiting)
            continue;
        for (size_t k = 0; k < node->links.count; k++) {
            dz_inspector *in = node->links.at[k].inspector;
            if (dz_inspector_pid(in) != s->pid || dz_inspector_gone(in))
                continue;
            if (s->number) {
                if (dz_inspector_worker_stop(in, s->number)) {
                    dz_inspector_worker_evaluate(in, s->number, STATE ".done = true");
                    s->exiting = false;
                }
                continue;
            }
            dz_inspector_profile_stop(in); /* asks once: stopped threads are passed over */
            if (!dz_inspector_busy(in)) {
                let_go(in);
                s->exiting = false;
            }
        }
    }
}

static void read_fifo(dz_node *node)
{
    char bytes[65536];
    for (;;) {
        ssize_t n = read(node->fifo, bytes, sizeof bytes);
        if (n <= 0)
            return;
        dz_feed_take(&node->feed, dz_slice_make(bytes, (size_t)n));
        if ((size_t)n < sizeof bytes)
            return;
    }
}

void dz_node_poll(dz_node *node, unsigned ms, int fd)
{
    enum { MAX = 128 };
    struct pollfd p[MAX] = {{.fd = node->fifo, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    nfds_t n = 2;
    for (size_t i = 0; i < node->links.count && n < MAX; i++)
        if (!dz_inspector_gone(node->links.at[i].inspector))
            p[n++] = (struct pollfd){.fd = dz_inspector_fd(node->links.at[i].inspector),
                                     .events = dz_inspector_events(node->links.at[i].inspector)};
    if (poll(p, n, (int)ms) < 0)
        return; /* a signal: the caller looks */
    if (p[0].revents)
        read_fifo(node);
    for (size_t i = 0; i < node->links.count; i++) {
        if (node->profiling)
            dz_inspector_save_workers(node->links.at[i].inspector);
        dz_inspector_pump(node->links.at[i].inspector);
    }
    connect_new(node);
    serve_exits(node);
}

void dz_node_profile_start(dz_node *node)
{
    node->profiling = true;
    for (size_t i = 0; i < node->links.count; i++)
        dz_inspector_profile_start(node->links.at[i].inspector, node->options.interval_us);
}

/* Until none of them is at it any more, for at most `ms`. */
static void await_all(dz_node *node, bool (*at_it)(const dz_inspector *), unsigned ms)
{
    uint64_t deadline = dz_now() + ms * DZ_MS;
    for (bool busy = true; busy && dz_now() < deadline;) {
        busy = false;
        for (size_t i = 0; i < node->links.count; i++)
            busy |= at_it(node->links.at[i].inspector);
        if (busy)
            dz_node_poll(node, 10, -1);
    }
}

void dz_node_collect_garbage(dz_node *node, unsigned ms)
{
    for (size_t i = 0; i < node->links.count; i++)
        if (!dz_inspector_gone(node->links.at[i].inspector))
            dz_inspector_collect_garbage(node->links.at[i].inspector);
    await_all(node, dz_inspector_collecting, ms);
}

void dz_node_profile_stop(dz_node *node, unsigned ms)
{
    node->profiling = false;
    for (size_t i = 0; i < node->links.count; i++)
        dz_inspector_profile_stop(node->links.at[i].inspector);
    await_all(node, dz_inspector_busy, ms);
    for (size_t i = 0; i < node->links.count; i++)
        if (!node->links.at[i].attached && !dz_inspector_gone(node->links.at[i].inspector))
            let_go(node->links.at[i].inspector);
}
