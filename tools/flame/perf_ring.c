#include "perf_ring.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

uint64_t dz_ring_registers(void)
{
    const dz_arch *arch = dz_arch_here();
    return arch ? arch->asked : 0;
}

int dz_ring_map(dz_ring *r, size_t least)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = 4;
    void *memory = MAP_FAILED;
    while (pages * page < least)
        pages *= 2;
    /* What an unprivileged user may lock is shared by all of the user's rings. */
    for (; pages >= 4 && memory == MAP_FAILED; pages /= 2) {
        r->size = pages * page;
        memory = mmap(NULL, r->size + page, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
    }
    if (memory == MAP_FAILED) /* EPERM here is about locked memory, not about looking */
        return errno == EPERM ? -ENOMEM : -errno;
    r->page = memory;
    r->data = (char *)memory + page;
    return 0;
}

void dz_ring_close(dz_ring *r)
{
    if (r->page)
        munmap(r->page, r->size + (size_t)sysconf(_SC_PAGESIZE));
    close(r->fd);
}

static void copy_out(const dz_ring *r, uint64_t from, char *to, size_t size)
{
    uint64_t at = from % r->size, first = r->size - at;
    first = first < size ? first : size;
    memcpy(to, r->data + at, first);
    memcpy(to + first, r->data, size - first);
}

/* Every record but a sample ends in a trailer, whose last part is the time. */
static void find_time(dz_ring *r)
{
    struct perf_event_header h;
    if (r->tail >= r->head)
        return;
    copy_out(r, r->tail, (char *)&h, sizeof h);
    uint64_t at = h.type == PERF_RECORD_SAMPLE ? sizeof h + 8 : h.size - 8U;
    if (h.size < sizeof h + 16) /* can't be: nothing of ours is so short */
        r->tail = r->head;
    else
        copy_out(r, r->tail + at, (char *)&r->at, sizeof r->at);
}

void dz_ring_look(dz_ring *r)
{
    r->head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
    find_time(r);
}

void dz_ring_take(dz_ring *r, char *record)
{
    struct perf_event_header h;
    copy_out(r, r->tail, (char *)&h, sizeof h);
    copy_out(r, r->tail, record, h.size);
    r->tail += h.size;
    __atomic_store_n(&r->page->data_tail, r->tail, __ATOMIC_RELEASE);
    find_time(r);
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

/* Registers, then the stack: how much room it has, the bytes, how many of them were filled. */
static void take_stack(dz_perf_sample *s, const char *at, const char *end)
{
    const dz_arch *arch = dz_arch_here();
    if (take(&at, end, 8) != PERF_SAMPLE_REGS_ABI_64 || !arch) /* none, or a 32-bit program's */
        return;
    for (size_t i = 0; i < arch->regs; i++)
        s->registers[arch->by_kernel[i]] = take(&at, end, 8);
    uint64_t size = take(&at, end, 8);
    if (size == 0 || size > (uint64_t)(end - at))
        return;
    s->stack = at;
    at += size;
    uint64_t filled = take(&at, end, 8);
    s->stack_len = filled < size ? filled : size;
}

/* In the order of the sample_type bits: TID, TIME, PERIOD, CALLCHAIN, REGS_USER, STACK_USER. */
static void tell_sample(const dz_perf_events *events, const char *at, const char *end,
                        bool pressing)
{
    static dz_perf_sample s; /* large; one thread at a time */
    s.depth = s.kernel = s.stack_len = 0;
    s.pressing = pressing;
    s.pid = (pid_t)take(&at, end, 4);
    s.tid = (pid_t)take(&at, end, 4);
    s.at = take(&at, end, 8);
    s.weight = take(&at, end, 8);
    uint64_t count = take(&at, end, 8);
    bool kernel = false;
    for (uint64_t i = 0; i < count && at < end; i++) {
        uint64_t ip = take(&at, end, 8);
        if (ip >= PERF_CONTEXT_MAX) { /* marks whose the next ones are */
            kernel = ip == (uint64_t)PERF_CONTEXT_KERNEL;
        } else if (s.depth < DZ_PERF_DEPTH) {
            s.chain[s.depth++] = ip;
            s.kernel += kernel;
        }
    }
    if (at < end)
        take_stack(&s, at, end);
    events->sample(events->arg, &s);
}

static void tell_map(const dz_perf_events *events, const char *at, const char *end, bool two,
                     uint64_t time)
{
    dz_mapped m = {.pid = (pid_t)take(&at, end, 4), .at = time};
    take(&at, end, 4);
    m.start = take(&at, end, 8);
    m.length = take(&at, end, 8);
    m.offset = take(&at, end, 8);
    if (two) {
        take(&at, end, 8); /* device */
        m.inode = take(&at, end, 8);
        take(&at, end, 8); /* generation */
        take(&at, end, 8); /* protection and flags: without data maps only code is reported */
    }
    m.name = at;
    if (at < end && memchr(at, 0, (size_t)(end - at)))
        events->map(events->arg, &m);
}

static void tell_task(const dz_perf_events *events, const char *at, const char *end, bool fork,
                      uint64_t time)
{
    pid_t pid = (pid_t)take(&at, end, 4), parent = (pid_t)take(&at, end, 4);
    pid_t tid = (pid_t)take(&at, end, 4);
    if (!fork)
        events->end(events->arg, tid, time);
    else if (pid != parent) /* not a thread */
        events->fork(events->arg, pid, parent, time);
}

uint64_t dz_ring_tell(const char *record, const dz_perf_events *events, bool pressing)
{
    struct perf_event_header h;
    memcpy(&h, record, sizeof h);
    const char *at = record + sizeof h, *end = record + h.size, *trailer = end - 16;
    const char *time_at = end - 8;
    uint64_t time = take(&time_at, end, 8);
    pid_t pid, tid;
    switch (h.type) {
    case PERF_RECORD_SAMPLE:
        tell_sample(events, at, end, pressing);
        break;
    case PERF_RECORD_MMAP:
    case PERF_RECORD_MMAP2:
        tell_map(events, at, end, h.type == PERF_RECORD_MMAP2, time);
        break;
    case PERF_RECORD_COMM:
        if (h.misc & PERF_RECORD_MISC_COMM_EXEC)
            events->exec(events->arg, (pid_t)take(&at, end, 4), time);
        break;
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
        tell_task(events, at, end, h.type == PERF_RECORD_FORK, time);
        break;
    case PERF_RECORD_SWITCH:
        pid = (pid_t)take(&trailer, end, 4);
        tid = (pid_t)take(&trailer, end, 4);
        events->turn(events->arg, pid, tid, time, !(h.misc & PERF_RECORD_MISC_SWITCH_OUT),
                     (h.misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT) != 0);
        break;
    case PERF_RECORD_LOST:
        take(&at, end, 8);
        return take(&at, end, 8);
    default:
        break;
    }
    return 0;
}
