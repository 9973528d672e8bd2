/* Sums over a profile: totals, hottest functions. */
#include "profile.h"

#include <stdlib.h>

static bool is_idle(const dz_profile *p, uint32_t stack)
{
    return p->frames[p->stacks[stack].frame].kind == DZ_FRAME_IDLE;
}

uint64_t dz_profile_total(const dz_profile *p)
{
    uint64_t total = 0;
    for (size_t i = 0; i < p->stack_count; i++)
        if (!is_idle(p, (uint32_t)i))
            total += p->stacks[i].self;
    return total;
}

uint64_t *dz_profile_totals(const dz_profile *p)
{
    uint64_t *totals = calloc(p->stack_count, sizeof *totals);
    if (!totals)
        return NULL;
    /* Children come after their parents, so one pass backwards is enough. */
    for (size_t i = p->stack_count; i-- > 0;) {
        if (!is_idle(p, (uint32_t)i))
            totals[i] += p->stacks[i].self;
        if (i > 0)
            totals[p->stacks[i].parent] += totals[i];
    }
    return totals;
}

/* Frames that differ only by mark are one function: each frame's representative. */
static uint32_t *unmarked(const dz_profile *p)
{
    uint32_t *same = calloc(p->frame_count, sizeof *same);
    dz_map map = {0};
    for (size_t i = 0; same && i < p->frame_count; i++) {
        const dz_frame *f = &p->frames[i];
        uint64_t key =
            dz_map_mix(((uint64_t)f->name << 32) | f->file, ((uint64_t)f->line << 32) | f->column);
        uint32_t other;
        same[i] = (uint32_t)i;
        bool found = false;
        for (size_t at = SIZE_MAX; !found && dz_map_next(&map, key, &at, &other);) {
            const dz_frame *o = &p->frames[other];
            found = o->name == f->name && o->file == f->file && o->line == f->line &&
                    o->column == f->column && o->kind == f->kind;
            if (found)
                same[i] = other;
        }
        if (!found && !dz_map_put(&map, key, (uint32_t)i)) {
            free(same);
            same = NULL;
        }
    }
    dz_map_close(&map);
    return same;
}

static int by_self(const void *a, const void *b)
{
    const dz_hot *x = a, *y = b;
    if (x->self != y->self)
        return x->self < y->self ? 1 : -1;
    return x->total != y->total ? (x->total < y->total ? 1 : -1) : 0;
}

/* Adds a function's total once for each stack in which it is the outermost of its kind: a walk over
 * the tree that counts how often each function is above. */
static bool add_totals(const dz_profile *p, const uint64_t *totals, const uint32_t *same,
                       dz_hot *all)
{
    uint32_t *above = calloc(p->frame_count, sizeof *above);
    if (!above)
        return false;
    for (uint32_t at = p->stacks[0].first_child; at;) {
        const dz_stack *s = &p->stacks[at];
        uint32_t f = same[s->frame];
        if (above[f]++ == 0)
            all[f].total += totals[at];
        if (s->first_child) {
            at = s->first_child;
            continue;
        }
        while (at && !p->stacks[at].next_sibling) { /* up from the last of its siblings */
            above[same[p->stacks[at].frame]]--;
            at = p->stacks[at].parent;
        }
        if (at) {
            above[same[p->stacks[at].frame]]--;
            at = p->stacks[at].next_sibling;
        }
    }
    free(above);
    return true;
}

/* Self time per stack, of the whole profile or of the ticks in the window, idle ones left out. */
static uint64_t *selves_of(const dz_profile *p, dz_tick_filter *window, void *arg)
{
    uint64_t *selves = calloc(p->stack_count, sizeof *selves);
    for (size_t i = 0; selves && !window && i < p->stack_count; i++)
        selves[i] = is_idle(p, (uint32_t)i) ? 0 : p->stacks[i].self;
    for (size_t i = 0; selves && window && i < p->tick_count; i++)
        if (!is_idle(p, p->ticks[i].stack) && window(arg, &p->ticks[i]))
            selves[p->ticks[i].stack] += p->ticks[i].weight;
    return selves;
}

long dz_profile_hottest(const dz_profile *p, dz_hot *out, size_t cap, dz_tick_filter *window,
                        void *arg)
{
    long count = -1;
    uint32_t *same = unmarked(p);
    uint64_t *totals = selves_of(p, window, arg), *best = calloc(p->frame_count, sizeof *best);
    dz_hot *all = calloc(p->frame_count, sizeof *all);
    if (!same || !totals || !all || !best)
        goto done;
    for (size_t i = 0; i < p->frame_count; i++)
        all[i].frame = (uint32_t)i;
    for (size_t i = 1; i < p->stack_count; i++)
        all[same[p->stacks[i].frame]].self += totals[i]; /* not yet its children's */
    for (size_t i = p->stack_count; i-- > 1;)
        totals[p->stacks[i].parent] += totals[i];
    if (!add_totals(p, totals, same, all))
        goto done;
    for (size_t i = 0; i < p->line_count; i++) {
        uint32_t f = same[p->lines[i].frame];
        if (p->lines[i].ticks > best[f]) {
            best[f] = p->lines[i].ticks;
            all[f].line = p->lines[i].line;
        }
    }
    qsort(all, p->frame_count, sizeof *all, by_self);
    count = 0;
    while ((size_t)count < cap && (size_t)count < p->frame_count && all[count].total > 0) {
        out[count] = all[count];
        count++;
    }
done:
    free(same);
    free(totals);
    free(all);
    free(best);
    return count;
}

static bool begins(dz_slice text, const char *with)
{
    size_t len = strlen(with);
    return text.len >= len && memcmp(text.ptr, with, len) == 0;
}

dz_frame_kind dz_frame_classify(dz_slice name, dz_slice url)
{
    if (dz_slice_equal(name, DZ_LIT("(idle)")))
        return DZ_FRAME_IDLE;
    if (dz_slice_equal(name, DZ_LIT("(garbage collector)")))
        return DZ_FRAME_GC;
    if (url.len == 0)
        return DZ_FRAME_NATIVE;
    if (begins(url, "wasm:"))
        return DZ_FRAME_WASM;
    if (begins(url, "node:") || begins(url, "internal/") || begins(url, "native "))
        return DZ_FRAME_CORE;
    if (memmem(url.ptr, url.len, "/node_modules/", 14))
        return DZ_FRAME_DEPS;
    return DZ_FRAME_APP;
}

const char *dz_frame_kind_name(dz_frame_kind kind)
{
    static const char *const names[DZ_FRAME_KINDS] = {
        "app", "deps", "core", "native", "wasm", "kernel", "gc", "idle",
    };
    return (unsigned)kind < DZ_FRAME_KINDS ? names[kind] : "native";
}
