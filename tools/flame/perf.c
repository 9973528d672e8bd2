#include "perf.h"

#include "perf_ring.h"

#include "target/procfs.h"

#include <base/clock.h>
#include <donmaz/error.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

struct dz_perf {
    dz_perf_options options;
    bool on_exec, kernel;
    dz_ring *rings; /* one a core */
    size_t ring_count;
    int *more; /* further events that write into them */
    size_t more_count, more_cap;
    uint64_t lost;
    size_t unseen;
    _Alignas(8) char record[DZ_RECORD];
};

static int open_event(const dz_perf *p, pid_t tid, int cpu)
{
    const dz_perf_options *o = &p->options;
    struct perf_event_attr a = {
        .size = sizeof a,
        .type = PERF_TYPE_SOFTWARE, /* also where there is no performance counter, as in a VM */
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .sample_freq = o->frequency,
        .freq = 1,
        .sample_type =
            PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_PERIOD,
        .sample_id_all = 1,
        .disabled = 1,
        .inherit = 1,
        .mmap = 1,
        .mmap2 = 1,
        .comm = 1,
        .comm_exec = 1,
        .task = 1,
        .enable_on_exec = p->on_exec,
        .exclude_kernel = !p->kernel,
        .exclude_hv = 1,
        .exclude_callchain_kernel = !p->kernel,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
    };
    if (o->off_cpu) { /* switching happens in the kernel: where that is barred, no stack comes */
        a.config = p->kernel ? PERF_COUNT_SW_CONTEXT_SWITCHES : PERF_COUNT_SW_DUMMY;
        a.freq = 0;
        a.sample_period = 1;
        a.context_switch = 1;
    }
    if (o->stack && dz_ring_registers()) {
        a.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
        a.sample_regs_user = dz_ring_registers();
        a.sample_stack_user = o->stack;
    }
    int fd = (int)syscall(SYS_perf_event_open, &a, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int keep(dz_perf *p, int fd)
{
    if (p->more_count == p->more_cap) {
        size_t cap = p->more_cap ? p->more_cap * 2 : 64;
        int *more = reallocarray(p->more, cap, sizeof *more);
        if (!more)
            return DZ_E_NOMEM;
        p->more = more;
        p->more_cap = cap;
    }
    p->more[p->more_count++] = fd;
    return 0;
}

/* A stack's copy is what takes room: those of 20 ms at the usual frequency, twice as much as comes
 * between two drains. */
static size_t room(const dz_perf *p)
{
    enum { PLAIN = 256 << 10, PERIODS = 32, MOST = 4 << 20 };
    size_t want = PLAIN + (size_t)p->options.stack * PERIODS;
    return want < MOST ? want : MOST;
}

static int add_ring(dz_perf *p, int fd)
{
    dz_ring *r = &p->rings[p->ring_count++];
    r->fd = fd;
    return dz_ring_map(r, room(p));
}

/* One event for a thread on every core: the first thread's hold the rings. */
static int add_thread(dz_perf *p, pid_t tid)
{
    bool first = p->ring_count == 0;
    int cores = (int)sysconf(_SC_NPROCESSORS_CONF);
    if (!p->rings)
        p->rings = calloc((size_t)cores, sizeof *p->rings);
    if (!p->rings)
        return DZ_E_NOMEM;
    for (int cpu = 0, at = 0; cpu < cores; cpu++) {
        int fd = open_event(p, tid, cpu);
        if (fd == -ENODEV) /* the core is off */
            continue;
        if (fd < 0)
            return fd;
        int rc = 0;
        if (first) {
            rc = add_ring(p, fd);
        } else {
            rc = ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, p->rings[at].fd) < 0 ? -errno : keep(p, fd);
            if (rc < 0)
                close(fd);
        }
        if (rc < 0)
            return rc;
        at++;
    }
    return 0;
}

/* Once all are there: opening thousands takes longer than the rings have room for. */
static void enable(const dz_perf *p)
{
    for (size_t i = 0; i < p->ring_count; i++)
        ioctl(p->rings[i].fd, PERF_EVENT_IOC_ENABLE, 0);
    for (size_t i = 0; i < p->more_count; i++)
        ioctl(p->more[i], PERF_EVENT_IOC_ENABLE, 0);
}

static size_t count_threads(const dz_tree *tree)
{
    size_t n = 0;
    for (size_t i = 0; i < tree->count; i++)
        n += tree->procs[i].gone ? 0 : tree->procs[i].count;
    return n;
}

/* A thread takes a descriptor a core. Returns for how many there are enough, with some left for all
 * else; raises our own limit as far as that is allowed. */
static size_t descriptors_for(size_t threads)
{
    enum { OTHERS = 64 };
    struct rlimit limit;
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC); /* the lowest free: all below are taken */
    rlim_t taken = (rlim_t)next;
    rlim_t cores = (rlim_t)sysconf(_SC_NPROCESSORS_CONF);
    if (next < 0)
        return 0;
    close(next);
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return threads;
    rlim_t want = (rlim_t)threads * cores + OTHERS + taken;
    if (limit.rlim_cur < want && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = want < limit.rlim_max ? want : limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur < taken + OTHERS)
        return 0;
    return (limit.rlim_cur - taken - OTHERS) / cores;
}

static int add_tree(dz_perf *p, const dz_tree *tree)
{
    size_t seen = 0, room = descriptors_for(count_threads(tree));
    for (size_t i = 0; i < tree->count; i++)
        for (size_t k = 0; k < tree->procs[i].count; k++) {
            const dz_tree_thread *t = &tree->procs[i].threads[k];
            if (t->gone || tree->procs[i].gone)
                continue;
            int rc = seen < room ? add_thread(p, t->tid) : -EMFILE;
            if (rc == -EMFILE)
                p->unseen++;
            else if (rc < 0 && rc != -ESRCH) /* which ended meanwhile */
                return rc;
            seen += rc == 0;
        }
    return seen ? 0 : p->unseen ? -EMFILE : -ESRCH;
}

static int open_all(dz_perf **out, pid_t pid, const dz_tree *tree, const dz_perf_options *options,
                    bool kernel)
{
    dz_perf *p = calloc(1, sizeof *p);
    if (!p)
        return DZ_E_NOMEM;
    p->options = *options;
    p->kernel = kernel;
    p->on_exec = tree == NULL;
    int rc = tree ? add_tree(p, tree) : add_thread(p, pid);
    if (rc < 0) {
        dz_perf_close(p);
        return rc;
    }
    if (!p->on_exec)
        enable(p);
    *out = p;
    return 0;
}

/* Kernel code as well where that is allowed. */
static int open_best(dz_perf **out, pid_t pid, const dz_tree *tree, const dz_perf_options *options)
{
    int rc = open_all(out, pid, tree, options, true);
    return rc == -EACCES || rc == -EPERM ? open_all(out, pid, tree, options, false) : rc;
}

int dz_perf_open_command(dz_perf **out, pid_t pid, const dz_perf_options *options)
{
    return open_best(out, pid, NULL, options);
}

int dz_perf_open_tree(dz_perf **out, const dz_tree *tree, const dz_perf_options *options)
{
    return open_best(out, 0, tree, options);
}

void dz_perf_close(dz_perf *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->ring_count; i++)
        dz_ring_close(&p->rings[i]);
    for (size_t i = 0; i < p->more_count; i++)
        close(p->more[i]);
    free(p->rings);
    free(p->more);
    free(p);
}

bool dz_perf_kernel(const dz_perf *p)
{
    return p->kernel;
}

uint64_t dz_perf_lost(const dz_perf *p)
{
    return p->lost;
}

size_t dz_perf_unseen(const dz_perf *p)
{
    return p->unseen;
}

static dz_ring *oldest(dz_perf *p, uint64_t until)
{
    dz_ring *best = NULL;
    for (size_t i = 0; i < p->ring_count; i++) {
        dz_ring *r = &p->rings[i];
        if (r->tail < r->head && r->at <= until && (!best || r->at < best->at))
            best = r;
    }
    return best;
}

/* A process wanders from core to core, and what it maps on one it runs on the other: so records go
 * by their time over all rings, and none is taken that is younger than the look at the first. */
void dz_perf_drain(dz_perf *p, const dz_perf_events *events, uint64_t deadline)
{
    uint64_t until = deadline ? dz_now() : UINT64_MAX;
    for (size_t i = 0; i < p->ring_count; i++)
        dz_ring_look(&p->rings[i]);
    for (dz_ring *r; (r = oldest(p, until));) {
        bool pressing = deadline && r->head - r->tail > r->size / 2;
        if (deadline && !pressing && dz_now() > deadline)
            break;
        dz_ring_take(r, p->record);
        p->lost += dz_ring_tell(p->record, events, pressing);
    }
}

void dz_perf_explain(int error, bool kernel, char *out, size_t cap)
{
    char text[32] = "";
    dz_procfs_read("/proc/sys/kernel/perf_event_paranoid", text, sizeof text);
    dz_perf_explain_at(error, kernel, (int)strtol(text, NULL, 10), out, cap);
}

void dz_perf_explain_at(int error, bool kernel, int paranoid, char *out, size_t cap)
{
    out[0] = 0;
    if ((error == -EACCES || error == -EPERM) && paranoid > 2)
        snprintf(out, cap,
                 "no native stacks: kernel.perf_event_paranoid is %d; to allow them for your own "
                 "processes: sudo sysctl kernel.perf_event_paranoid=2",
                 paranoid);
    else if (error == -EACCES || error == -EPERM)
        snprintf(
            out, cap,
            "no native stacks: the process belongs to another user, or this container bars perf "
            "events; to see it: run this as that user, or with sudo outside of it");
    else if (error == -ENOSYS || error == -ENOENT || error == -EOPNOTSUPP)
        snprintf(out, cap, "no native stacks: this kernel has no perf events");
    else if (error == -EMFILE)
        snprintf(out, cap, "no native stacks: too few file descriptors; to allow more: ulimit -n");
    else if (error < 0)
        snprintf(out, cap, "no native stacks: %s", dz_strerror(error));
    else if (!kernel)
        snprintf(out, cap,
                 "no kernel code: kernel.perf_event_paranoid is %d; to see it: "
                 "sudo sysctl kernel.perf_event_paranoid=1",
                 paranoid);
}
