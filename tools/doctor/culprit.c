/* Who held the loop. */
#include "facts.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct window {
    const dz_js_series *series;
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
    if (t->tid != w->series->tid || t->at < w->from || t->at > w->to)
        return false;
    if (!w->stalled)
        return true;
    const dz_js_sample *s = interval_at(w->series, t->at);
    /* After the last interval the loop did not come back at all. */
    return s ? dz_is_stall(s) : true;
}

/* The user's own frame nearest to the top of the stack; a dependency's when there is none. */
static uint32_t blamed(const dz_profile *p, uint32_t stack)
{
    uint32_t deps = 0;
    for (uint32_t at = stack; at; at = p->stacks[at].parent) {
        const dz_frame *f = &p->frames[p->stacks[at].frame];
        if (f->kind == DZ_FRAME_APP || f->kind == DZ_FRAME_WASM)
            return p->stacks[at].frame;
        if (f->kind == DZ_FRAME_DEPS && !deps)
            deps = p->stacks[at].frame;
    }
    return deps;
}

static uint32_t largest(const uint64_t *sums, size_t count)
{
    uint32_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (sums[i] > sums[best])
            best = (uint32_t)i;
    return best;
}

void dz_facts_culprit(dz_culprit *out, const dz_profile *p, const dz_js_series *series,
                      uint64_t from, uint64_t to, bool stalled)
{
    window w = {.series = series, .from = from, .to = to, .stalled = stalled};
    uint64_t *sums = calloc(p->frame_count, sizeof *sums), total = 0;
    uint64_t *inner = calloc(p->frame_count, sizeof *inner);
    memset(out, 0, sizeof *out);
    for (int pass = 0; sums && inner && pass < 2; pass++) {
        uint32_t best = pass ? largest(sums, p->frame_count) : 0;
        for (size_t i = 0; i < p->tick_count; i++) {
            const dz_tick *t = &p->ticks[i];
            uint32_t top = p->stacks[t->stack].frame;
            if (p->frames[top].kind == DZ_FRAME_IDLE || !in_window(&w, t))
                continue;
            uint32_t frame = blamed(p, t->stack);
            if (pass == 0) {
                total += t->weight;
                sums[frame] += t->weight;
            } else if (frame == best) {
                inner[top] += t->weight;
            }
        }
        if (pass == 0) {
            sums[0] = 0; /* time in nobody's function */
            continue;
        }
        if (best == 0 || total == 0)
            break;
        const dz_frame *f = &p->frames[best];
        dz_slice name = dz_profile_text(p, f->name), file = dz_profile_text(p, f->file);
        out->known = true;
        out->share = (double)sums[best] / (double)total;
        out->line = f->line;
        snprintf(out->name, sizeof out->name, "%.*s", (int)name.len, name.ptr);
        snprintf(out->file, sizeof out->file, "%.*s", (int)file.len, file.ptr);
        uint32_t top = largest(inner, p->frame_count);
        if (top != best && top) {
            name = dz_profile_text(p, p->frames[top].name);
            snprintf(out->inner, sizeof out->inner, "%.*s", (int)name.len, name.ptr);
            out->inner_share = (double)inner[top] / (double)sums[best];
        }
    }
    free(sums);
    free(inner);
}
