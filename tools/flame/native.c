#include "native.h"

#include <donmaz/error.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Samples are kept as addresses and named at the end: naming is slow, and a JIT's map is whole only
 * then. */
typedef struct kept {
    uint64_t at, weight;
    pid_t pid, tid;
    uint32_t chain; /* index of the first address */
    uint16_t depth, kernel;
} kept;

struct dz_native {
    dz_perf *perf;
    bool kernel;
    dz_profile names; /* frames of all symbols */
    dz_symbols *symbols;
    kept *samples;
    size_t count, cap;
    uint64_t *addresses;
    size_t address_count, address_cap;
    pid_t pids[256];
    char *folders[256]; /* where each runs: V8 leaves its log there */
    size_t pid_count;
    uint64_t lost;
    bool out_of_memory;
};

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
    free(n->samples);
    free(n->addresses);
    free(n);
}

int dz_native_start_command(dz_native *n, pid_t pid, unsigned frequency)
{
    return dz_perf_open_command(&n->perf, pid, frequency, &n->kernel);
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

int dz_native_start_tree(dz_native *n, const dz_tree *tree, unsigned frequency)
{
    for (size_t i = 0; i < tree->count; i++)
        if (!tree->procs[i].gone)
            dz_symbols_read_maps(n->symbols, tree->procs[i].pid);
    return dz_perf_open_tree(&n->perf, tree, frequency, &n->kernel);
}

static bool reserve(dz_native *n, void **array, size_t count, size_t *cap, size_t size)
{
    if (count <= *cap)
        return true;
    size_t want = *cap ? *cap * 2 : 4096;
    void *more = want < UINT32_MAX ? reallocarray(*array, want, size) : NULL;
    if (!more) {
        n->out_of_memory = true;
        return false;
    }
    *array = more;
    *cap = want;
    return true;
}

static void on_sample(void *arg, const dz_perf_sample *s)
{
    dz_native *n = arg;
    know(n, s->pid);
    if (!reserve(n, (void **)&n->samples, n->count + 1, &n->cap, sizeof *n->samples) ||
        !reserve(n, (void **)&n->addresses, n->address_count + DZ_PERF_DEPTH, &n->address_cap,
                 sizeof *n->addresses))
        return;
    n->samples[n->count++] = (kept){.at = s->at,
                                    .weight = s->weight,
                                    .pid = s->pid,
                                    .tid = s->tid,
                                    .chain = (uint32_t)n->address_count,
                                    .depth = (uint16_t)s->depth,
                                    .kernel = (uint16_t)s->kernel};
    memcpy(n->addresses + n->address_count, s->chain, s->depth * sizeof *s->chain);
    n->address_count += s->depth;
}

static void on_map(void *arg, pid_t pid, uint64_t start, uint64_t length, uint64_t offset,
                   const char *name)
{
    dz_symbols_map(((dz_native *)arg)->symbols, pid, start, length, offset, name);
}

static void on_exec(void *arg, pid_t pid, const char *name)
{
    (void)name;
    dz_symbols_exec(((dz_native *)arg)->symbols, pid);
}

static void on_fork(void *arg, pid_t pid, pid_t parent)
{
    dz_symbols_fork(((dz_native *)arg)->symbols, pid, parent);
}

void dz_native_drain(dz_native *n)
{
    const dz_perf_events events = {
        .sample = on_sample, .map = on_map, .exec = on_exec, .fork = on_fork, .arg = n};
    if (n->perf)
        dz_perf_drain(n->perf, &events);
}

void dz_native_stop(dz_native *n)
{
    dz_native_drain(n);
    if (n->perf)
        n->lost = dz_perf_lost(n->perf);
    dz_perf_close(n->perf);
    n->perf = NULL;
    for (size_t i = 0; i < n->pid_count; i++) {
        dz_symbols_read_jit(n->symbols, n->pids[i], true);
        remove_log(n->folders[i], n->pids[i]);
    }
}

size_t dz_native_samples(const dz_native *n)
{
    return n->count;
}

bool dz_native_kernel(const dz_native *n)
{
    return n->kernel;
}

uint64_t dz_native_lost(const dz_native *n)
{
    return n->lost;
}

static uint32_t copy_frame(dz_profile *p, const dz_profile *from, uint32_t frame, char mark)
{
    dz_frame f = from->frames[frame];
    f.name = dz_profile_string(p, dz_profile_text(from, f.name));
    f.file = dz_profile_string(p, dz_profile_text(from, f.file));
    if (mark)
        f.mark = mark;
    return dz_profile_frame(p, &f);
}

static int by_time(const void *a, const void *b)
{
    const dz_tick *x = a, *y = b;
    if (x->tid != y->tid)
        return x->tid < y->tid ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* The tick of the thread that was current at `at`; NULL when the nearest is too far away. */
static const dz_tick *tick_at(const dz_tick *ticks, size_t count, pid_t tid, uint64_t at)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (ticks[mid].tid < tid || (ticks[mid].tid == tid && ticks[mid].at <= at))
            low = mid + 1;
        else
            high = mid;
    }
    enum { NEAR_NS = 5000000 };
    const dz_tick *before = low > 0 && ticks[low - 1].tid == tid ? &ticks[low - 1] : NULL;
    const dz_tick *after = low < count && ticks[low].tid == tid ? &ticks[low] : NULL;
    uint64_t back = before ? at - before->at : UINT64_MAX,
             ahead = after ? after->at - at : UINT64_MAX;
    const dz_tick *best = back <= ahead ? before : after;
    return (back <= ahead ? back : ahead) <= NEAR_NS ? best : NULL;
}

/* A sample's addresses as frames, innermost first. */
static size_t resolve(dz_native *n, const kept *s, dz_place *out)
{
    for (size_t i = 0; i < s->depth; i++) {
        uint64_t address = n->addresses[s->chain + i];
        bool kernel = i < s->kernel;
        /* A return address lies behind its call, perhaps in the next function. */
        out[i] =
            dz_symbols_find(n->symbols, s->pid, i == 0 || kernel ? address : address - 1, kernel);
    }
    return s->depth;
}

static uint32_t add_native(dz_native *n, dz_profile *p, uint32_t stack, const dz_place *places,
                           size_t from, size_t to)
{
    for (size_t i = to; i-- > from;) {
        /* Where there are no frame pointers a chain goes astray: such frames say nothing. */
        if (!places[i].known && !places[i].jit && i > 0 &&
            n->names.frames[places[i].frame].kind != DZ_FRAME_KERNEL)
            continue;
        stack = dz_profile_child(p, stack, copy_frame(p, &n->names, places[i].frame, 0));
    }
    return stack;
}

/* What the JIT's map says of a JavaScript function: optimised or not; 0 unknown. */
static char mark_of(const dz_native *n, const dz_profile *js, uint32_t frame,
                    const dz_place *places, size_t depth)
{
    const dz_frame *want = &js->frames[frame];
    dz_slice name = dz_profile_text(js, want->name);
    for (size_t i = 0; i < depth; i++) {
        const dz_frame *f = &n->names.frames[places[i].frame];
        if (places[i].jit && f->mark && f->line == want->line &&
            dz_slice_equal(dz_profile_text(&n->names, f->name), name))
            return f->mark;
    }
    return 0;
}

/* V8's own name for machine code it does not look into. */
static bool is_opaque(const dz_profile *js, uint32_t frame)
{
    const dz_frame *f = &js->frames[frame];
    return f->kind == DZ_FRAME_IDLE ||
           dz_slice_equal(dz_profile_text(js, f->name), DZ_LIT("(program)"));
}

/* JavaScript from the inspector up to the top, then what runs below it in machine code. */
static uint32_t add_mixed(dz_native *n, dz_profile *p, const dz_profile *js, const dz_tick *tick,
                          uint32_t base, const dz_place *places, size_t depth)
{
    uint32_t path[1024];
    size_t count = 0, jit = 0;
    for (uint32_t at = tick->stack; at && count < 1024; at = js->stacks[at].parent)
        path[count++] = js->stacks[at].frame;
    if (count && is_opaque(js, path[0])) /* all machine code: its own stack says more */
        return add_native(n, p, base, places, 0, depth);
    uint32_t stack = base;
    char above = 0;
    for (size_t i = count; i-- > 0;) {
        char mark = mark_of(n, js, path[i], places, depth);
        /* Not in the chain itself, below one that is optimised: it was built into that one. */
        if (!mark && above == '*' && js->frames[path[i]].line)
            mark = '*';
        above = mark;
        stack = dz_profile_child(p, stack, copy_frame(p, js, path[i], mark));
    }
    while (jit < depth && !places[jit].jit)
        jit++;
    /* No code made at run time in the chain: it was cut short; only its top is sure. */
    return add_native(n, p, stack, places, 0, jit < depth ? jit : depth > 0 && !places[0].jit);
}

/* Our own script in the process: not the user's time. */
static bool is_reporter(const dz_profile *js, uint32_t stack)
{
    return dz_slice_equal(dz_profile_text(js, js->frames[js->stacks[stack].frame].name),
                          DZ_LIT("(reporter)"));
}

int dz_native_build(dz_native *n, dz_profile *p, const dz_profile *js)
{
    dz_tick *ticks = NULL;
    size_t tick_count = js ? js->tick_count : 0;
    if (tick_count) {
        ticks = reallocarray(NULL, tick_count, sizeof *ticks);
        if (!ticks)
            return DZ_E_NOMEM;
        memcpy(ticks, js->ticks, tick_count * sizeof *ticks);
        qsort(ticks, tick_count, sizeof *ticks, by_time);
    }
    for (size_t i = 0; i < n->count; i++) {
        const kept *s = &n->samples[i];
        dz_place places[DZ_PERF_DEPTH];
        size_t depth = resolve(n, s, places);
        const dz_tick *tick = tick_at(ticks, tick_count, s->tid, s->at);
        if (js && tick && is_reporter(js, tick->stack))
            continue;
        uint32_t stack = js && tick ? add_mixed(n, p, js, tick, 0, places, depth)
                                    : add_native(n, p, 0, places, 0, depth);
        dz_profile_add(p, stack, s->weight, s->at, s->tid);
    }
    for (size_t i = 0; js && i < js->line_count; i++)
        dz_profile_line(p, copy_frame(p, js, js->lines[i].frame, 0), js->lines[i].line,
                        js->lines[i].ticks);
    free(ticks);
    return n->out_of_memory || p->failed ? DZ_E_NOMEM : 0;
}
