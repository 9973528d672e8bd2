#include "profile.h"

#include <donmaz/error.h>

#include <stdlib.h>

static bool reserve(dz_profile *p, void **array, size_t count, size_t *cap, size_t size)
{
    if (count < *cap)
        return true;
    size_t want = *cap ? *cap * 2 : 64;
    void *more = want < UINT32_MAX ? reallocarray(*array, want, size) : NULL;
    if (!more) {
        p->failed = true;
        return false;
    }
    *array = more;
    *cap = want;
    return true;
}

int dz_profile_init(dz_profile *p)
{
    memset(p, 0, sizeof *p);
    dz_arena_init(&p->arena, NULL, 0);
    dz_profile_string(p, DZ_LIT(""));
    dz_profile_frame(p, &(dz_frame){.name = dz_profile_string(p, DZ_LIT("(root)"))});
    if (reserve(p, (void **)&p->stacks, 0, &p->stack_cap, sizeof *p->stacks))
        p->stacks[p->stack_count++] = (dz_stack){0};
    if (!p->failed)
        return 0;
    dz_profile_close(p);
    return DZ_E_NOMEM;
}

void dz_profile_close(dz_profile *p)
{
    dz_arena_reset(&p->arena);
    free(p->strings);
    free(p->frames);
    free(p->stacks);
    free(p->ticks);
    free(p->lines);
    dz_map_close(&p->string_map);
    dz_map_close(&p->frame_map);
    dz_map_close(&p->stack_map);
    dz_map_close(&p->line_map);
    memset(p, 0, sizeof *p);
}

static uint64_t hash_text(dz_slice text)
{
    uint64_t h = text.len;
    for (size_t i = 0; i < text.len; i++)
        h = (h ^ (unsigned char)text.ptr[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
    return h;
}

uint32_t dz_profile_string(dz_profile *p, dz_slice text)
{
    uint64_t key = hash_text(text);
    uint32_t index;
    for (size_t at = SIZE_MAX; dz_map_next(&p->string_map, key, &at, &index);)
        if (dz_slice_equal(p->strings[index], text))
            return index;
    char *copy = dz_arena_strndup(&p->arena, text.len ? text.ptr : "", text.len);
    if (!copy ||
        !reserve(p, (void **)&p->strings, p->string_count, &p->string_cap, sizeof *p->strings) ||
        !dz_map_put(&p->string_map, key, (uint32_t)p->string_count)) {
        p->failed = true;
        return 0;
    }
    p->strings[p->string_count] = dz_slice_make(copy, text.len);
    return (uint32_t)p->string_count++;
}

dz_slice dz_profile_text(const dz_profile *p, uint32_t string)
{
    return string < p->string_count ? p->strings[string] : DZ_LIT("");
}

static bool same_frame(const dz_frame *a, const dz_frame *b)
{
    return a->name == b->name && a->file == b->file && a->line == b->line &&
           a->column == b->column && a->kind == b->kind && a->mark == b->mark;
}

uint32_t dz_profile_frame(dz_profile *p, const dz_frame *frame)
{
    uint64_t key = dz_map_mix(((uint64_t)frame->name << 32) | frame->file,
                              ((uint64_t)frame->line << 32) ^ ((uint64_t)frame->column << 16) ^
                                  (uint64_t)(frame->kind << 8) ^ (unsigned char)frame->mark);
    uint32_t index;
    for (size_t at = SIZE_MAX; dz_map_next(&p->frame_map, key, &at, &index);)
        if (same_frame(&p->frames[index], frame))
            return index;
    if (!reserve(p, (void **)&p->frames, p->frame_count, &p->frame_cap, sizeof *p->frames) ||
        !dz_map_put(&p->frame_map, key, (uint32_t)p->frame_count)) {
        p->failed = true;
        return 0;
    }
    p->frames[p->frame_count] = *frame;
    return (uint32_t)p->frame_count++;
}

uint32_t dz_profile_child(dz_profile *p, uint32_t parent, uint32_t frame)
{
    uint64_t key = ((uint64_t)parent << 32) | frame;
    uint32_t index;
    size_t at = SIZE_MAX;
    if (dz_map_next(&p->stack_map, key, &at, &index))
        return index;
    if (!reserve(p, (void **)&p->stacks, p->stack_count, &p->stack_cap, sizeof *p->stacks) ||
        !dz_map_put(&p->stack_map, key, (uint32_t)p->stack_count)) {
        p->failed = true;
        return 0;
    }
    index = (uint32_t)p->stack_count++;
    p->stacks[index] =
        (dz_stack){.frame = frame, .parent = parent, .next_sibling = p->stacks[parent].first_child};
    p->stacks[parent].first_child = index;
    return index;
}

void dz_profile_add(dz_profile *p, uint32_t stack, uint64_t weight, uint64_t at, pid_t tid)
{
    p->stacks[stack].self += weight;
    if (!p->keep_ticks || at == 0 ||
        !reserve(p, (void **)&p->ticks, p->tick_count, &p->tick_cap, sizeof *p->ticks))
        return;
    p->ticks[p->tick_count++] = (dz_tick){.at = at, .weight = weight, .stack = stack, .tid = tid};
}

void dz_profile_line(dz_profile *p, uint32_t frame, uint32_t line, uint64_t ticks)
{
    uint64_t key = ((uint64_t)frame << 32) | line;
    uint32_t index;
    size_t at = SIZE_MAX;
    if (dz_map_next(&p->line_map, key, &at, &index)) {
        p->lines[index].ticks += ticks;
        return;
    }
    if (!reserve(p, (void **)&p->lines, p->line_count, &p->line_cap, sizeof *p->lines) ||
        !dz_map_put(&p->line_map, key, (uint32_t)p->line_count)) {
        p->failed = true;
        return;
    }
    p->lines[p->line_count++] = (dz_line){.frame = frame, .line = line, .ticks = ticks};
}

void dz_profile_merge(dz_profile *into, const dz_profile *from, const char *under, bool as_base)
{
    uint32_t *frames = calloc(from->frame_count + 1, sizeof *frames);
    uint32_t *stacks = calloc(from->stack_count + 1, sizeof *stacks);
    if (!frames || !stacks) {
        into->failed = true;
        goto done;
    }
    for (size_t i = 0; i < from->frame_count; i++) {
        dz_frame f = from->frames[i];
        f.name = dz_profile_string(into, dz_profile_text(from, f.name));
        f.file = dz_profile_string(into, dz_profile_text(from, f.file));
        frames[i] = dz_profile_frame(into, &f);
    }
    if (under) {
        dz_frame f = {.name = dz_profile_string(into, dz_slice_of(under)), .kind = DZ_FRAME_NATIVE};
        stacks[0] = dz_profile_child(into, 0, dz_profile_frame(into, &f));
    }
    /* A parent is always made before its children. */
    for (size_t i = 0; i < from->stack_count; i++) {
        const dz_stack *s = &from->stacks[i];
        if (i > 0)
            stacks[i] = dz_profile_child(into, stacks[s->parent], frames[s->frame]);
        if (as_base)
            into->stacks[stacks[i]].base += s->self;
        else
            into->stacks[stacks[i]].self += s->self;
    }
    for (size_t i = 0; !as_base && i < from->line_count; i++)
        dz_profile_line(into, frames[from->lines[i].frame], from->lines[i].line,
                        from->lines[i].ticks);
    for (size_t i = 0; !as_base && into->keep_ticks && i < from->tick_count; i++) {
        const dz_tick *t = &from->ticks[i];
        into->stacks[stacks[t->stack]].self -= t->weight; /* counted above */
        dz_profile_add(into, stacks[t->stack], t->weight, t->at, t->tid);
    }
done:
    free(frames);
    free(stacks);
}

int dz_profile_drop_file(dz_profile *p, dz_slice file)
{
    uint32_t name = dz_profile_string(p, file);
    bool *drop = calloc(p->stack_count, sizeof *drop);
    if (!drop || p->failed) {
        free(drop);
        return DZ_E_NOMEM;
    }
    for (size_t i = 1; i < p->stack_count; i++) {
        drop[i] = drop[p->stacks[i].parent] || p->frames[p->stacks[i].frame].file == name;
        if (drop[i])
            p->stacks[i].self = 0;
    }
    dz_frame none = {.name = dz_profile_string(p, DZ_LIT("(reporter)")), .kind = DZ_FRAME_IDLE};
    uint32_t idle = dz_profile_child(p, 0, dz_profile_frame(p, &none));
    for (size_t i = 0; i < p->tick_count; i++)
        if (drop[p->ticks[i].stack])
            p->ticks[i].stack = idle;
    free(drop);
    return 0;
}
