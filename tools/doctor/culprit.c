/* Who held the loop. */
#include "facts.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct window {
    const dz_js_series *series; /* NULL: all threads of a program that is not Node */
    uint64_t from, to;
    bool stalled;
} window;

/* Samples are in order of time: the interval that holds `at`, by halving. */
static const dz_js_sample *interval_at(const dz_js_series *series, uint64_t at)
{
    size_t low = 0, high = series->samples.count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (series->samples.at[mid].to < at)
            low = mid + 1;
        else
            high = mid;
    }
    return low < series->samples.count && series->samples.at[low].from <= at
               ? &series->samples.at[low]
               : NULL;
}

static bool in_window(const window *w, const dz_tick *t)
{
    if (t->at < w->from || t->at > w->to || (w->series && t->tid != w->series->tid))
        return false;
    if (!w->stalled || !w->series)
        return true;
    const dz_js_sample *s = interval_at(w->series, t->at);
    /* After the last interval the loop did not come back at all. */
    return s ? dz_is_stall(s) : true;
}

/* A tick lasts until the next one; while its thread has no core none comes, and a long gap would
 * count as work of whatever it was at. */
static uint64_t weight_of(const dz_tick *t)
{
    enum { LONGEST_NS = 4000000 };
    return t->weight < LONGEST_NS ? t->weight : LONGEST_NS;
}

static bool begins(dz_slice text, dz_slice with)
{
    return text.len >= with.len && memcmp(text.ptr, with.ptr, with.len) == 0;
}

/* A static function of the library; its others are named dz_. */
static bool is_donmaz(dz_slice file)
{
    static const char *const folders[] = {"/src/app/", "/src/http/", "/src/loop/", "/src/pool/"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        if (memmem(file.ptr, file.len, folders[i], strlen(folders[i])))
            return true;
    return false;
}

/* Machine code with a known source that is neither the system's (Debian builds its libraries from
 * "./") nor donmaz's own. */
static bool is_users_native(const dz_profile *p, const dz_frame *f, bool wide)
{
    dz_slice name = dz_profile_text(p, f->name);
    if (f->kind != DZ_FRAME_NATIVE || begins(name, DZ_LIT("[")))
        return false;
    dz_slice file = dz_profile_text(p, f->file);
    return wide || (f->line && !begins(name, DZ_LIT("dz_")) && !begins(file, DZ_LIT("./")) &&
                    !is_donmaz(file));
}

/* `wide`: the user's own functions were hardly there; of Node dependencies count too, of others
 * whatever has a name. */
static bool is_users(const dz_profile *p, const window *w, const dz_frame *f, bool wide)
{
    if (!w->series)
        return is_users_native(p, f, wide);
    return f->kind == DZ_FRAME_APP || f->kind == DZ_FRAME_WASM ||
           (wide && f->kind == DZ_FRAME_DEPS);
}

/* What the functions of the user did in the window. */
typedef struct tally {
    uint64_t *total; /* per frame: time with it anywhere on the stack, counted once */
    uint64_t *depth; /* per frame: the same, times how deep it was */
    uint64_t all;
    bool wide; /* see is_users */
} tally;

static void add_stack(const dz_profile *p, const window *w, tally *t, uint32_t stack,
                      uint64_t weight)
{
    uint64_t depth = 0;
    for (uint32_t at = stack; at; at = p->stacks[at].parent)
        depth++;
    for (uint32_t at = stack; at; at = p->stacks[at].parent, depth--) {
        uint32_t frame = p->stacks[at].frame;
        const dz_frame *f = &p->frames[frame];
        if (!is_users(p, w, f, t->wide))
            continue;
        bool inside = false; /* a recursive call */
        for (uint32_t up = p->stacks[at].parent; up && !inside; up = p->stacks[up].parent)
            inside = p->stacks[up].frame == frame;
        if (inside)
            continue;
        t->total[frame] += weight;
        t->depth[frame] += weight * depth;
    }
}

static void count(const dz_profile *p, const window *w, tally *t)
{
    memset(t->total, 0, p->frame_count * sizeof *t->total);
    memset(t->depth, 0, p->frame_count * sizeof *t->depth);
    t->all = 0;
    for (size_t i = 0; i < p->tick_count; i++) {
        const dz_tick *tick = &p->ticks[i];
        if (p->frames[p->stacks[tick->stack].frame].kind == DZ_FRAME_IDLE || !in_window(w, tick))
            continue;
        t->all += weight_of(tick);
        add_stack(p, w, t, tick->stack, weight_of(tick));
    }
}

/* The innermost function with four fifths of the time of the one that has the largest share: its
 * callers only pass the time on, its callees each have a part only. */
static uint32_t dominant(const dz_profile *p, const tally *t)
{
    uint32_t best = 0, most = 0;
    double best_depth = 0;
    for (uint32_t i = 1; i < p->frame_count; i++)
        if (t->total[i] > t->total[most])
            most = i;
    for (uint32_t i = 1; i < p->frame_count; i++) {
        double depth = t->total[i] ? (double)t->depth[i] / (double)t->total[i] : 0;
        if (t->total[i] * 5 >= t->total[most] * 4 && depth > best_depth) {
            best = i;
            best_depth = depth;
        }
    }
    return best;
}

/* Below the culprit, what runs most; above it, the user's function that calls it most. */
static void neighbours(const dz_profile *p, const window *w, uint32_t culprit, uint64_t *below,
                       uint64_t *above)
{
    for (size_t i = 0; i < p->tick_count; i++) {
        const dz_tick *tick = &p->ticks[i];
        uint32_t top = p->stacks[tick->stack].frame, at = tick->stack;
        while (at && p->stacks[at].frame != culprit)
            at = p->stacks[at].parent;
        if (!at || !in_window(w, tick))
            continue;
        below[top] += weight_of(tick);
        for (at = p->stacks[at].parent; at; at = p->stacks[at].parent) {
            uint32_t frame = p->stacks[at].frame;
            if (frame != culprit && is_users(p, w, &p->frames[frame], false)) {
                above[frame] += weight_of(tick);
                break;
            }
        }
    }
}

static uint32_t largest(const uint64_t *sums, size_t n)
{
    uint32_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (sums[i] > sums[best])
            best = (uint32_t)i;
    return best;
}

static void copy(char *out, size_t cap, dz_slice text)
{
    snprintf(out, cap, "%.*s", (int)text.len, text.ptr);
}

static void describe(dz_culprit *out, const dz_profile *p, const window *w, uint32_t frame,
                     const tally *t)
{
    const dz_frame *f = &p->frames[frame];
    out->known = true;
    out->share = (double)t->total[frame] / (double)t->all;
    out->line = f->line;
    copy(out->name, sizeof out->name, dz_profile_text(p, f->name));
    copy(out->file, sizeof out->file, dz_profile_text(p, f->file));
    uint64_t total = t->total[frame];
    memset(t->total, 0, p->frame_count * sizeof *t->total);
    memset(t->depth, 0, p->frame_count * sizeof *t->depth);
    neighbours(p, w, frame, t->total, t->depth);
    uint32_t below = largest(t->total, p->frame_count), above = largest(t->depth, p->frame_count);
    if (below && below != frame) {
        copy(out->inner, sizeof out->inner, dz_profile_text(p, p->frames[below].name));
        out->inner_share = (double)t->total[below] / (double)total;
    }
    if (above && t->depth[above]) {
        const dz_frame *c = &p->frames[above];
        copy(out->caller, sizeof out->caller, dz_profile_text(p, c->name));
        copy(out->caller_file, sizeof out->caller_file, dz_profile_text(p, c->file));
        out->caller_line = c->line;
    }
}

void dz_facts_culprit(dz_culprit *out, const dz_profile *p, const dz_js_series *series,
                      uint64_t from, uint64_t to, bool stalled)
{
    window w = {.series = series, .from = from, .to = to, .stalled = stalled};
    tally t = {.total = calloc(p->frame_count, sizeof *t.total),
               .depth = calloc(p->frame_count, sizeof *t.depth)};
    memset(out, 0, sizeof *out);
    for (int pass = 0; t.total && t.depth && pass < 2 && !out->known; pass++) {
        t.wide = pass == 1;
        count(p, &w, &t);
        uint32_t frame = dominant(p, &t);
        if (frame && t.total[frame] * 10 >= t.all)
            describe(out, p, &w, frame, &t);
    }
    free(t.total);
    free(t.depth);
}

double dz_facts_garbage(const dz_profile *p, const dz_js_series *series, uint64_t from, uint64_t to,
                        bool stalled)
{
    window w = {.series = series, .from = from, .to = to, .stalled = stalled};
    double garbage = 0, all = 0;
    for (size_t i = 0; i < p->tick_count; i++) {
        const dz_tick *tick = &p->ticks[i];
        dz_frame_kind kind = (dz_frame_kind)p->frames[p->stacks[tick->stack].frame].kind;
        if (kind == DZ_FRAME_IDLE || !in_window(&w, tick))
            continue;
        all += (double)weight_of(tick);
        garbage += kind == DZ_FRAME_GC ? (double)weight_of(tick) : 0;
    }
    return all > 0 ? garbage / all : -1;
}
