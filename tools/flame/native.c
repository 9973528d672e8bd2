#include "native_private.h"

#include "unwind.h"

#include <base/clock.h>
#include <donmaz/error.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Of the 10 ms between two drains; and how much of each stack is copied. A record is at most 64
 * KiB, the addresses in it included. */
enum { BUDGET_NS = 5000000, STACK = 16384, WHOLE_STACK = 57344 };

dz_native *dz_native_new(void)
{
    dz_native *n = calloc(1, sizeof *n);
    if (!n || dz_profile_init(&n->names) < 0) {
        free(n);
        return NULL;
    }
    n->symbols = dz_symbols_new(&n->names);
    if (!n->symbols) {
        dz_native_free(n);
        return NULL;
    }
    return n;
}

void dz_native_free(dz_native *n)
{
    if (!n)
        return;
    for (size_t i = 0; i < n->pid_count; i++)
        free(n->folders[i]);
    dz_perf_close(n->perf);
    dz_symbols_free(n->symbols);
    dz_profile_close(&n->names);
    dz_chains_close(&n->chains);
    dz_offcpu_close(&n->off);
    free(n->samples);
    free(n);
}

static dz_perf_options perf_options(const dz_native *n)
{
    return (dz_perf_options){.frequency = n->options.frequency,
                             .off_cpu = n->options.off_cpu,
                             .stack = n->options.unwind == DZ_UNWIND_FP      ? 0
                                      : n->options.unwind == DZ_UNWIND_DWARF ? WHOLE_STACK
                                                                             : STACK};
}

int dz_native_start_command(dz_native *n, pid_t pid, const dz_native_options *options)
{
    n->options = *options;
    n->ours = true;
    dz_perf_options o = perf_options(n);
    return dz_perf_open_command(&n->perf, pid, &o);
}

int dz_native_start_tree(dz_native *n, const dz_tree *tree, const dz_native_options *options)
{
    n->options = *options;
    dz_perf_options o = perf_options(n);
    int rc = dz_perf_open_tree(&n->perf, tree, &o);
    /* After the events: what is mapped in between is then told twice, not never. */
    for (size_t i = 0; i < tree->count && rc == 0; i++)
        if (!tree->procs[i].gone)
            dz_symbols_read_maps(n->symbols, tree->procs[i].pid);
    return rc;
}

/* Beside the map that was asked for V8 opens an empty log, "isolate-0x1234-PID-v8.log". */
static void remove_log(const char *folder, pid_t pid)
{
    char end[32], path[4500];
    snprintf(end, sizeof end, "-%d-v8.log", (int)pid);
    DIR *d = folder ? opendir(folder) : NULL;
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        size_t len = strlen(e->d_name), tail = strlen(end);
        if (strncmp(e->d_name, "isolate", 7) != 0 || len < tail ||
            strcmp(e->d_name + len - tail, end) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        unlink(path);
    }
    if (d)
        closedir(d);
}

static char *folder_of(pid_t pid)
{
    char path[64], folder[4096];
    snprintf(path, sizeof path, "/proc/%d/cwd", (int)pid);
    ssize_t len = readlink(path, folder, sizeof folder - 1);
    if (len <= 0)
        return NULL;
    folder[len] = 0;
    return strdup(folder);
}

static void know(dz_native *n, pid_t pid)
{
    for (size_t i = 0; i < n->pid_count; i++)
        if (n->pids[i] == pid)
            return;
    if (n->pid_count < sizeof n->pids / sizeof n->pids[0]) {
        n->folders[n->pid_count] = folder_of(pid);
        n->pids[n->pid_count++] = pid;
    }
}

/* Where the copy of the stack ends, the kernel's walk along frame pointers may go on. */
static size_t append_rest(const dz_perf_sample *s, uint64_t *out, size_t depth)
{
    for (size_t i = s->kernel; i < s->depth; i++) {
        if (s->chain[i] != out[depth - 1])
            continue;
        for (i++; i < s->depth && depth < DZ_PERF_DEPTH; i++)
            out[depth++] = s->chain[i];
        break;
    }
    return depth;
}

static uint32_t unwound(dz_native *n, uint32_t image, const dz_perf_sample *s)
{
    uint64_t out[DZ_PERF_DEPTH];
    size_t depth, kernel = s->kernel;
    memcpy(out, s->chain, kernel * sizeof *out);
    dz_unwound how = dz_unwind(dz_arch_here(), n->symbols, image, s, out + kernel,
                               DZ_PERF_DEPTH - kernel, &depth);
    depth += kernel;
    if (how != DZ_UNWOUND_WHOLE) {
        size_t more = depth > kernel ? append_rest(s, out, depth) : depth;
        if (s->depth > more) { /* the kernel's walk came further */
            n->losses.astray++;
            return dz_chains_add(&n->chains, s->chain, s->depth);
        }
        n->losses.cut += how == DZ_UNWOUND_CUT && more == depth;
        n->losses.astray += how == DZ_UNWOUND_ASTRAY && more == depth;
        depth = more;
    }
    return dz_chains_add(&n->chains, out, depth);
}

/* In bounded time: what does not fit into a turn's share waits for the next; where too much waits,
 * frame pointers alone are followed. */
static uint32_t chain_of(dz_native *n, uint32_t image, const dz_perf_sample *s)
{
    if (s->stack_len == 0 || image == DZ_NO_IMAGE)
        return dz_chains_add(&n->chains, s->chain, s->depth);
    if (n->options.unwind == DZ_UNWIND_AUTO && s->pressing && dz_now() > n->deadline) {
        n->losses.hurried++;
        return dz_chains_add(&n->chains, s->chain, s->depth);
    }
    return unwound(n, image, s);
}

static void keep(dz_native *n, dz_kept sample)
{
    if (n->count == n->cap) {
        size_t cap = n->cap ? n->cap * 2 : 4096;
        dz_kept *more = reallocarray(n->samples, cap, sizeof *more);
        if (!more) {
            n->out_of_memory = true;
            return;
        }
        n->samples = more;
        n->cap = cap;
    }
    n->samples[n->count++] = sample;
}

static void on_sample(void *arg, const dz_perf_sample *s)
{
    dz_native *n = arg;
    know(n, s->pid);
    n->losses.samples++;
    uint32_t image = dz_symbols_image(n->symbols, s->pid, s->at), chain = chain_of(n, image, s);
    if (s->depth > 0 && chain == 0)
        n->out_of_memory = true;
    if (n->options.off_cpu)
        n->out_of_memory |= !dz_offcpu_leave(&n->off, s->pid, s->tid, chain, s->at);
    else
        keep(n,
             (dz_kept){
                 .at = s->at, .weight = s->weight, .tid = s->tid, .image = image, .chain = chain});
}

static void on_wait(void *arg, const dz_wait *w)
{
    dz_native *n = arg;
    keep(n, (dz_kept){.at = w->from,
                      .weight = w->to - w->from,
                      .tid = w->tid,
                      .image = dz_symbols_image(n->symbols, w->pid, w->from),
                      .chain = w->chain});
}

static void on_turn(void *arg, pid_t pid, pid_t tid, uint64_t at, bool in, bool preempted)
{
    dz_native *n = arg;
    dz_wait wait;
    know(n, pid);
    if (!in)
        n->out_of_memory |= !dz_offcpu_left(&n->off, pid, tid, at, preempted);
    else if (dz_offcpu_back(&n->off, tid, at, &wait))
        on_wait(n, &wait);
}

static void on_end(void *arg, pid_t tid, uint64_t at)
{
    (void)at;
    dz_offcpu_end(&((dz_native *)arg)->off, tid);
}

static void on_map(void *arg, const dz_mapped *mapped)
{
    dz_symbols_map(((dz_native *)arg)->symbols, mapped);
}

static void on_exec(void *arg, pid_t pid, uint64_t at)
{
    dz_symbols_exec(((dz_native *)arg)->symbols, pid, at);
}

static void on_fork(void *arg, pid_t pid, pid_t parent, uint64_t at)
{
    dz_symbols_fork(((dz_native *)arg)->symbols, pid, parent, at);
}

static void drain(dz_native *n, bool all)
{
    const dz_perf_events events = {.sample = on_sample,
                                   .map = on_map,
                                   .exec = on_exec,
                                   .fork = on_fork,
                                   .turn = on_turn,
                                   .end = on_end,
                                   .arg = n};
    n->deadline = all ? 0 : dz_now() + BUDGET_NS;
    if (n->perf)
        dz_perf_drain(n->perf, &events, n->deadline);
}

void dz_native_drain(dz_native *n)
{
    drain(n, false);
}

void dz_native_stop(dz_native *n)
{
    drain(n, true);
    dz_offcpu_finish(&n->off, dz_now(), on_wait, n);
    if (n->perf) {
        n->losses.lost = dz_perf_lost(n->perf);
        n->losses.unseen = dz_perf_unseen(n->perf);
        n->losses.kernel = dz_perf_kernel(n->perf);
    }
    dz_perf_close(n->perf);
    n->perf = NULL;
    for (size_t i = 0; i < n->pid_count; i++) {
        dz_symbols_read_jit(n->symbols, n->pids[i], n->ours);
        if (n->ours)
            remove_log(n->folders[i], n->pids[i]);
    }
}

size_t dz_native_samples(const dz_native *n)
{
    return n->count;
}

void dz_native_losses_get(dz_native *n, dz_native_losses *out)
{
    *out = n->losses;
    out->nameless = dz_symbols_nameless(n->symbols, 0.05, &out->why);
}
