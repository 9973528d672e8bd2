#include "perf.h"

#include "target/procfs.h"

#include <donmaz/error.h>

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A record is copied out of its ring before it is read, as it may wrap around the end. */
enum { PAGES = 64, RECORD = 65536 }; /* a record's size is 16 bits */

typedef struct ring {
    int fd;
    struct perf_event_mmap_page *page;
    char *data;
    uint64_t size;
} ring;

struct dz_perf {
    ring *rings; /* one a core */
    size_t ring_count;
    int *more; /* further events that write into them */
    size_t more_count, more_cap;
    uint64_t lost;
    char record[RECORD];
};

static int open_event(pid_t tid, int cpu, unsigned frequency, bool on_exec, bool kernel)
{
    struct perf_event_attr a = {
        .size = sizeof a,
        .type = PERF_TYPE_SOFTWARE, /* also where there is no performance counter, as in a VM */
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .sample_freq = frequency,
        .freq = 1,
        .sample_type =
            PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_PERIOD,
        .disabled = 1,
        .inherit = 1,
        .mmap = 1,
        .mmap2 = 1,
        .comm = 1,
        .comm_exec = 1,
        .task = 1,
        .enable_on_exec = on_exec,
        .exclude_kernel = !kernel,
        .exclude_hv = 1,
        .exclude_callchain_kernel = !kernel,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
    };
    int fd = (int)syscall(SYS_perf_event_open, &a, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int map_ring(ring *r)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *memory = MAP_FAILED;
    /* What an unprivileged user may lock is shared by all of the user's rings. */
    for (size_t pages = PAGES; pages >= 4 && memory == MAP_FAILED; pages /= 2) {
        r->size = pages * page;
        memory = mmap(NULL, r->size + page, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
    }
    if (memory == MAP_FAILED)
        return -errno;
    r->page = memory;
    r->data = (char *)memory + page;
    return 0;
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

/* One event for a thread on every core: the first thread's hold the rings. */
static int add_thread(dz_perf *p, pid_t tid, unsigned frequency, bool on_exec, bool kernel)
{
    bool first = p->ring_count == 0;
    int cores = (int)sysconf(_SC_NPROCESSORS_CONF);
    if (first) {
        p->rings = calloc((size_t)cores, sizeof *p->rings);
        if (!p->rings)
            return DZ_E_NOMEM;
    }
    for (int cpu = 0, at = 0; cpu < cores; cpu++) {
        int fd = open_event(tid, cpu, frequency, on_exec, kernel);
        if (fd == -ENODEV) /* the core is off */
            continue;
        if (fd < 0)
            return fd;
        int rc = 0;
        if (first) {
            ring *r = &p->rings[p->ring_count++];
            r->fd = fd;
            rc = map_ring(r);
        } else {
            rc = ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, p->rings[at].fd) < 0 ? -errno : keep(p, fd);
            if (rc < 0)
                close(fd);
        }
        if (rc < 0)
            return rc;
        at++;
        if (!on_exec)
            ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
    }
    return 0;
}

static int open_command(dz_perf **out, pid_t pid, unsigned frequency, bool kernel)
{
    dz_perf *p = calloc(1, sizeof *p);
    int rc = p ? add_thread(p, pid, frequency, true, kernel) : DZ_E_NOMEM;
    if (rc < 0)
        dz_perf_close(p);
    else
        *out = p;
    return rc;
}

static int open_tree(dz_perf **out, const dz_tree *tree, unsigned frequency, bool kernel)
{
    dz_perf *p = calloc(1, sizeof *p);
    int rc = p ? 0 : DZ_E_NOMEM;
    for (size_t i = 0; i < tree->count && rc >= 0; i++)
        for (size_t k = 0; k < tree->procs[i].count && rc >= 0; k++) {
            if (tree->procs[i].threads[k].gone)
                continue;
            rc = add_thread(p, tree->procs[i].threads[k].tid, frequency, false, kernel);
            if (rc == -ESRCH && p->ring_count > 0)
                rc = 0; /* ended meanwhile */
        }
    if (rc == 0 && p->ring_count == 0)
        rc = -ESRCH;
    if (rc < 0)
        dz_perf_close(p);
    else
        *out = p;
    return rc;
}

static bool refused(int rc)
{
    return rc == -EACCES || rc == -EPERM;
}

int dz_perf_open_command(dz_perf **out, pid_t pid, unsigned frequency, bool *kernel)
{
    int rc = open_command(out, pid, frequency, true);
    *kernel = rc == 0;
    return refused(rc) ? open_command(out, pid, frequency, false) : rc;
}

int dz_perf_open_tree(dz_perf **out, const dz_tree *tree, unsigned frequency, bool *kernel)
{
    int rc = open_tree(out, tree, frequency, true);
    *kernel = rc == 0;
    return refused(rc) ? open_tree(out, tree, frequency, false) : rc;
}

void dz_perf_close(dz_perf *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->ring_count; i++) {
        if (p->rings[i].page)
            munmap(p->rings[i].page, p->rings[i].size + (size_t)sysconf(_SC_PAGESIZE));
        close(p->rings[i].fd);
    }
    for (size_t i = 0; i < p->more_count; i++)
        close(p->more[i]);
    free(p->rings);
    free(p->more);
    free(p);
}

uint64_t dz_perf_lost(const dz_perf *p)
{
    return p->lost;
}

static uint64_t take(const char **at, const char *end, size_t size)
{
    uint64_t value = 0;
    if ((size_t)(end - *at) < size) {
        *at = end;
        return 0;
    }
    memcpy(&value, *at, size); /* little-endian or not: size is 4 only where the kernel wrote 4 */
    if (size == 4) {
        uint32_t half;
        memcpy(&half, *at, 4);
        value = half;
    }
    *at += size;
    return value;
}

/* In the order of the sample_type bits: TID, TIME, PERIOD, CALLCHAIN. */
static void on_sample(const dz_perf_events *events, const char *at, const char *end)
{
    dz_perf_sample s = {.pid = (pid_t)take(&at, end, 4), .tid = (pid_t)take(&at, end, 4)};
    s.at = take(&at, end, 8);
    s.weight = take(&at, end, 8);
    uint64_t count = take(&at, end, 8);
    bool kernel = false;
    for (uint64_t i = 0; i < count && at < end && s.depth < DZ_PERF_DEPTH; i++) {
        uint64_t ip = take(&at, end, 8);
        if (ip >= PERF_CONTEXT_MAX) { /* marks whose the next ones are */
            kernel = ip == (uint64_t)PERF_CONTEXT_KERNEL;
            continue;
        }
        s.chain[s.depth++] = ip;
        s.kernel += kernel;
    }
    events->sample(events->arg, &s);
}

static void on_map(const dz_perf_events *events, const char *at, const char *end, bool two)
{
    pid_t pid = (pid_t)take(&at, end, 4);
    take(&at, end, 4);
    uint64_t start = take(&at, end, 8), length = take(&at, end, 8), offset = take(&at, end, 8);
    if (two) {
        for (int i = 0; i < 3; i++) /* device, inode, generation (or build id) */
            take(&at, end, 8);
        take(&at, end, 8); /* protection and flags: without data maps only code is reported */
    }
    if (at < end && memchr(at, 0, (size_t)(end - at)))
        events->map(events->arg, pid, start, length, offset, at);
}

static void on_record(dz_perf *p, const dz_perf_events *events, const struct perf_event_header *h,
                      const char *at)
{
    const char *end = at + h->size - sizeof *h;
    pid_t pid, other;
    switch (h->type) {
    case PERF_RECORD_SAMPLE:
        on_sample(events, at, end);
        break;
    case PERF_RECORD_MMAP:
        on_map(events, at, end, false);
        break;
    case PERF_RECORD_MMAP2:
        on_map(events, at, end, true);
        break;
    case PERF_RECORD_COMM:
        pid = (pid_t)take(&at, end, 4);
        take(&at, end, 4);
        if ((h->misc & PERF_RECORD_MISC_COMM_EXEC) && at < end)
            events->exec(events->arg, pid, at);
        break;
    case PERF_RECORD_FORK:
        pid = (pid_t)take(&at, end, 4);
        other = (pid_t)take(&at, end, 4);
        if (pid != other)
            events->fork(events->arg, pid, other);
        break;
    case PERF_RECORD_LOST:
        take(&at, end, 8);
        p->lost += take(&at, end, 8);
        break;
    default:
        break;
    }
}

static void copy_out(const ring *r, uint64_t from, char *to, size_t size)
{
    uint64_t at = from % r->size, first = r->size - at;
    first = first < size ? first : size;
    memcpy(to, r->data + at, first);
    memcpy(to + first, r->data, size - first);
}

static void drain_ring(dz_perf *p, ring *r, const dz_perf_events *events)
{
    uint64_t head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
    uint64_t tail = r->page->data_tail;
    while (tail < head) {
        struct perf_event_header h;
        copy_out(r, tail, (char *)&h, sizeof h);
        if (h.size < sizeof h)
            break; /* can't be */
        copy_out(r, tail + sizeof h, p->record, h.size - sizeof h);
        on_record(p, events, &h, p->record);
        tail += h.size;
    }
    __atomic_store_n(&r->page->data_tail, head, __ATOMIC_RELEASE);
}

void dz_perf_drain(dz_perf *p, const dz_perf_events *events)
{
    for (size_t i = 0; i < p->ring_count; i++)
        drain_ring(p, &p->rings[i], events);
}

void dz_perf_explain(int error, bool kernel, char *out, size_t cap)
{
    char text[32] = "";
    dz_procfs_read("/proc/sys/kernel/perf_event_paranoid", text, sizeof text);
    int paranoid = (int)strtol(text, NULL, 10);
    out[0] = 0;
    if (error == -EACCES || error == -EPERM)
        snprintf(out, cap,
                 "no native stacks: kernel.perf_event_paranoid is %d; to allow them for your own "
                 "processes: sudo sysctl kernel.perf_event_paranoid=2",
                 paranoid);
    else if (error == -ENOSYS || error == -ENOENT || error == -EOPNOTSUPP)
        snprintf(out, cap, "no native stacks: this kernel has no perf events");
    else if (error < 0)
        snprintf(out, cap, "no native stacks: %s", dz_strerror(error));
    else if (!kernel)
        snprintf(out, cap,
                 "no kernel code: kernel.perf_event_paranoid is %d; to see it: "
                 "sudo sysctl kernel.perf_event_paranoid=1",
                 paranoid);
}
