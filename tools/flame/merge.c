/* Samples named, and joined with what V8's inspector saw of the same thread at the same time. */
#include "native_private.h"

#include <donmaz/error.h>

#include <stdlib.h>

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
static size_t resolve(dz_native *n, const dz_kept *s, dz_place *out)
{
    uint64_t addresses[DZ_PERF_DEPTH];
    size_t depth = dz_chains_read(&n->chains, s->chain, addresses, DZ_PERF_DEPTH);
    for (size_t i = 0; i < depth; i++) {
        /* A return address lies behind its call, perhaps in the next function. */
        bool behind = i > 0 && !(addresses[i] >> 63);
        out[i] = dz_symbols_find(n->symbols, s->image, addresses[i] - behind, s->at);
    }
    if (depth > 0)
        dz_symbols_count(n->symbols, s->image, addresses[0], s->at, out[0].known);
    return depth;
}

static uint32_t add_native(dz_native *n, dz_profile *p, uint32_t stack, const dz_place *places,
                           size_t from, size_t to)
{
    uint32_t last = UINT32_MAX;
    for (size_t i = to; i-- > from;) {
        const dz_place *at = &places[i];
        bool kernel = n->names.frames[at->frame].kind == DZ_FRAME_KERNEL;
        /* Where there are no frame pointers a chain goes astray: such frames say nothing. */
        if (!at->mapped && i > 0 && !kernel)
            continue;
        if (!at->known && at->frame == last) /* code without names, calling itself: one frame */
            continue;
        last = at->frame;
        stack = dz_profile_child(p, stack, copy_frame(p, &n->names, at->frame, 0));
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

/* Where waiting may be timed but not looked at. */
static uint32_t add_blind(dz_profile *p, uint32_t stack)
{
    dz_frame f = {.name = dz_profile_string(p, DZ_LIT("[waits, its stack may not be seen]")),
                  .kind = DZ_FRAME_NATIVE};
    return dz_profile_child(p, stack, dz_profile_frame(p, &f));
}

static void add_sample(dz_native *n, dz_profile *p, const dz_profile *js, const dz_tick *ticks,
                       size_t tick_count, const dz_kept *s)
{
    dz_place places[DZ_PERF_DEPTH];
    size_t depth = resolve(n, s, places);
    const dz_tick *tick = tick_at(ticks, tick_count, s->tid, s->at);
    if (js && tick && is_reporter(js, tick->stack))
        return;
    uint32_t stack = js && tick ? add_mixed(n, p, js, tick, 0, places, depth)
                                : add_native(n, p, 0, places, 0, depth);
    if (depth == 0 && n->options.off_cpu)
        stack = add_blind(p, stack);
    dz_profile_add(p, stack, s->weight, s->at, s->tid);
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
    for (size_t i = 0; i < n->count; i++)
        add_sample(n, p, js, ticks, tick_count, &n->samples[i]);
    for (size_t i = 0; js && !n->options.off_cpu && i < js->line_count; i++)
        dz_profile_line(p, copy_frame(p, js, js->lines[i].frame, 0), js->lines[i].line,
                        js->lines[i].ticks);
    free(ticks);
    return n->out_of_memory || p->failed ? DZ_E_NOMEM : 0;
}
