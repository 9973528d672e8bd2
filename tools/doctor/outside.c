#include "outside.h"

#include "target/procfs.h"

#include <base/clock.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool reserve(dz_outside *o, void *vector, size_t size)
{
    DZ_VECTOR(void) *v = vector;
    if (v->count < v->cap)
        return true;
    size_t cap = v->cap ? v->cap * 2 : 64;
    void *more = reallocarray(v->at, cap, size);
    if (!more) {
        o->out_of_memory = true;
        return false;
    }
    v->at = more;
    v->cap = cap;
    return true;
}

void dz_outside_close(dz_outside *o)
{
    for (size_t i = 0; i < o->processes.count; i++)
        free(o->processes.at[i].samples.at);
    free(o->processes.at);
    dz_outside_forget_threads(o);
    free(o->marks.at);
    memset(o, 0, sizeof *o);
}

static dz_out_series *series_of(dz_outside *o, const dz_tree_proc *p, uint64_t now)
{
    for (size_t i = 0; i < o->processes.count; i++)
        if (o->processes.at[i].pid == p->pid && o->processes.at[i].start_ticks == p->start_ticks)
            return &o->processes.at[i];
    if (!reserve(o, &o->processes, sizeof *o->processes.at))
        return NULL;
    dz_out_series *s = &o->processes.at[o->processes.count++];
    *s = (dz_out_series){.pid = p->pid, .ppid = p->ppid, .start_ticks = p->start_ticks, .at = now};
    return s;
}

static const dz_tree_thread *main_thread(const dz_tree_proc *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->threads[i].tid == p->pid)
            return &p->threads[i];
    return NULL;
}

static float share(uint64_t now, uint64_t before, uint64_t span)
{
    return now > before && span ? (float)((double)(now - before) / (double)span) : 0;
}

/* The kernel counts a wait for a core when it ends. What is more than fits into the last interval
 * belongs to those before it, as far as the thread did not run in them. */
static void spread_wait(dz_out_series *s)
{
    dz_out_sample *last = &s->samples.at[s->samples.count - 1];
    float room = 1 - last->main_cpu;
    if (last->main_wait <= room)
        return;
    double span = (double)(last->to - last->from);
    double excess = (double)(last->main_wait - room) * span;
    last->wait -= last->main_wait - room;
    last->main_wait = room;
    for (size_t i = s->samples.count - 1; i-- > 0 && excess > 0;) {
        dz_out_sample *p = &s->samples.at[i];
        double part = (double)(p->to - p->from);
        double fits = part * (double)(1 - p->main_cpu - p->main_wait);
        if (fits <= 0)
            continue;
        double moved = excess < fits ? excess : fits;
        p->main_wait += (float)(moved / part);
        p->wait += (float)(moved / part);
        excess -= moved;
    }
}

static void tick_process(dz_outside *o, const dz_tree_proc *p, uint64_t now)
{
    dz_out_series *s = series_of(o, p, now);
    if (!s)
        return;
    memcpy(s->name, p->name, sizeof s->name);
    const dz_tree_thread *m = main_thread(p);
    uint64_t main_cpu = m ? m->cpu_ns : s->main_cpu, main_wait = m ? m->wait_ns : s->main_wait;
    uint64_t span = now - s->at;
    if (span > 0 && reserve(o, &s->samples, sizeof *s->samples.at)) {
        s->samples.at[s->samples.count++] = (dz_out_sample){
            .from = s->at,
            .to = now,
            .cpu = share(p->cpu_ns, s->cpu, span),
            .main_cpu = share(main_cpu, s->main_cpu, span),
            .wait = share(p->wait_ns, s->wait, span),
            .main_wait = share(main_wait, s->main_wait, span),
            .rss = p->rss,
            .fds = p->fds,
            .switches = (uint32_t)(p->switches > s->switches ? p->switches - s->switches : 0),
        };
        spread_wait(s);
    }
    s->at = now;
    s->cpu = p->cpu_ns;
    s->wait = p->wait_ns;
    s->main_cpu = main_cpu;
    s->main_wait = main_wait;
    s->switches = p->switches;
}

/* Busy time of all cores: user, nice, system, irq, softirq of the first line of /proc/stat. */
static uint64_t machine_busy(void)
{
    char text[512];
    uint64_t v[8] = {0};
    if (dz_procfs_read("/proc/stat", text, sizeof text) <= 0)
        return 0;
    if (sscanf(text,
               "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
               " %" SCNu64 " %" SCNu64,
               &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]) < 7)
        return 0;
    long hz = sysconf(_SC_CLK_TCK);
    return (v[0] + v[1] + v[2] + v[5] + v[6]) * (DZ_SEC / (uint64_t)(hz > 0 ? hz : 100));
}

void dz_outside_tick(dz_outside *o, const dz_tree *tree, uint64_t now)
{
    for (size_t i = 0; i < tree->count; i++)
        if (!tree->procs[i].gone)
            tick_process(o, &tree->procs[i], now);
    dz_outside_tick_threads(o, tree, now);
    o->ticked = now;
    if (now - o->busy_at >= 100 * DZ_MS) {
        o->busy = machine_busy();
        o->busy_at = now;
    }
}

/* Time the root's cgroup (version 2) was stopped by its quota; 0 when there is none. */
static uint64_t throttled(pid_t pid)
{
    char text[4096], path[4200];
    if (dz_procfs_read_pid(pid, "cgroup", text, sizeof text) <= 0)
        return 0;
    const char *at = strstr(text, "0::");
    if (!at)
        return 0;
    at += 3;
    snprintf(path, sizeof path, "/sys/fs/cgroup%.*s/cpu.stat", (int)strcspn(at, "\n"), at);
    if (dz_procfs_read(path, text, sizeof text) <= 0)
        return 0;
    at = strstr(text, "throttled_usec ");
    return at ? strtoull(at + 15, NULL, 10) * 1000 : 0;
}

/* TCP segments sent in the network namespace of a process, by all that is in it; 0 unknown. The
 * second line that begins with "Tcp:" has the values; OutSegs is the eleventh. */
static uint64_t segments(pid_t pid)
{
    enum { OUT_SEGS = 11 };
    char *text, path[64];
    snprintf(path, sizeof path, "/proc/%d/net/snmp", (int)pid);
    text = dz_procfs_slurp(path, NULL);
    const char *at = text ? strstr(text, "\nTcp:") : NULL;
    at = at ? strstr(at + 1, "\nTcp:") : NULL;
    for (int i = 0; at && i < OUT_SEGS; i++)
        at = strchr(at + 1, ' ');
    uint64_t sent = at ? strtoull(at, NULL, 10) : 0;
    free(text);
    return sent;
}

void dz_outside_mark(dz_outside *o, const dz_tree *tree, uint64_t now)
{
    o->marks.count = 0;
    o->marked = now;
    o->busy_mark = machine_busy();
    o->throttled_mark = throttled(tree->root);
    o->segments_mark = segments(tree->root);
    for (size_t i = 0; i < tree->count; i++)
        for (size_t k = 0; k < tree->procs[i].count; k++) {
            const dz_tree_thread *t = &tree->procs[i].threads[k];
            if (reserve(o, &o->marks, sizeof *o->marks.at))
                o->marks.at[o->marks.count++] = (dz_out_mark){
                    .pid = tree->procs[i].pid,
                    .tid = t->tid,
                    .cpu = t->cpu_ns,
                    .wait = t->wait_ns,
                };
        }
}

static dz_out_mark mark_of(const dz_outside *o, pid_t pid, const dz_tree_thread *t)
{
    for (size_t i = 0; i < o->marks.count; i++)
        if (o->marks.at[i].pid == pid && o->marks.at[i].tid == t->tid)
            return o->marks.at[i];
    return (dz_out_mark){.cpu = t->first_cpu_ns, .wait = t->first_wait_ns};
}

typedef struct thread_sums {
    double run, wait; /* ns */
    double wanted, busiest;
} thread_sums;

/* Over all threads. A wait counts by `own`, the part of it that is for each other and not for other
 * programs. */
static thread_sums sum_threads(const dz_outside *o, const dz_tree *tree, double span, double own)
{
    thread_sums sums = {0};
    for (size_t i = 0; i < tree->count; i++)
        for (size_t k = 0; k < tree->procs[i].count; k++) {
            const dz_tree_thread *t = &tree->procs[i].threads[k];
            dz_out_mark m = mark_of(o, tree->procs[i].pid, t);
            double r = (double)(t->cpu_ns - m.cpu), w = (double)(t->wait_ns - m.wait);
            double wants = (r + w * own) / span;
            wants = wants < 1 ? wants : 1;
            sums.run += r;
            sums.wait += w;
            /* Whatever it waited for: a thread that always waits for a core is a full one. */
            double full = (r + w) / span < 1 ? (r + w) / span : 1;
            sums.busiest = full > sums.busiest ? full : sums.busiest;
            if (wants >= 0.05) /* helpers that hardly run are no demand */
                sums.wanted += wants;
        }
    return sums;
}

double dz_outside_cpu_ms(const dz_outside *o, uint64_t from, uint64_t to)
{
    double cpu = 0;
    for (size_t i = 0; i < o->processes.count; i++)
        for (size_t k = 0; k < o->processes.at[i].samples.count; k++) {
            const dz_out_sample *p = &o->processes.at[i].samples.at[k];
            uint64_t start = p->from > from ? p->from : from, end = p->to < to ? p->to : to;
            cpu += end > start ? (double)p->cpu * (double)(end - start) / 1e6 : 0;
        }
    return cpu;
}

dz_demand dz_outside_demand(const dz_outside *o, const dz_tree *tree, uint64_t now, double load_ns)
{
    dz_demand d = {0};
    /* What was read last belongs to then: we may have been kept from reading since. */
    double span = (double)o->ticked - (double)o->marked, whole = (double)(now - o->marked);
    if (o->marked == 0 || span <= 0)
        return d;
    d.machine = o->busy_at > o->marked
                    ? (double)(o->busy - o->busy_mark) / (double)(o->busy_at - o->marked)
                    : (double)(machine_busy() - o->busy_mark) / whole;
    thread_sums sums = sum_threads(o, tree, span, 1);
    d.running = sums.run / span;
    d.busiest = sums.busiest;
    d.ready = sums.wanted;
    double others = d.machine - d.running - load_ns / span;
    d.others = others > 0 ? others : 0;
    /* At least half: on a full machine it can't be told whom one waits for. */
    double own = d.running + d.others > 0 ? d.running / (d.running + d.others) : 1;
    sums = sum_threads(o, tree, span, own > 0.5 ? own : 0.5);
    d.wanted = sums.wanted;
    d.waiting = sums.run + sums.wait > 0 ? sums.wait / (sums.run + sums.wait) : 0;
    uint64_t sent = segments(tree->root);
    d.segments = sent > o->segments_mark ? (double)(sent - o->segments_mark) / (whole / 1e9) : 0;
    d.throttled = (double)(throttled(tree->root) - o->throttled_mark) / whole;
    return d;
}
