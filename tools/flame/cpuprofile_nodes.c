/* The tree of a .cpuprofile: nodes with call frames, told in any order. */
#include "cpuprofile_private.h"

#include <stdarg.h>
#include <stdlib.h>

void dz_cpu_complain(dz_cpu_reader *r, const char *format, ...)
{
    if (r->problem[0])
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(r->problem, sizeof r->problem, format, args);
    va_end(args);
}

static bool reserve(dz_cpu_reader *r, void **array, size_t count, size_t *cap, size_t size)
{
    if (count < *cap)
        return true;
    size_t want = *cap ? *cap * 2 : 256;
    void *more = want < UINT32_MAX ? reallocarray(*array, want, size) : NULL;
    if (!more) {
        r->out_of_memory = true;
        return false;
    }
    *array = more;
    *cap = want;
    return true;
}

static uint32_t bounded(int64_t n)
{
    return n < 0 ? 0 : n > UINT32_MAX - 1 ? UINT32_MAX - 1 : (uint32_t)n;
}

/* Theirs count from 0, -1 standing for unknown. */
static uint32_t from_one(int64_t n)
{
    return n < UINT32_MAX ? bounded(n + 1) : UINT32_MAX - 1;
}

uint32_t dz_cpu_id(dz_json *j)
{
    return bounded(dz_json_integer(j)) + 1;
}

static void call_frame(void *arg, dz_json *j, dz_slice key)
{
    dz_cpu_reader *r = arg;
    if (dz_slice_equal(key, DZ_LIT("functionName")))
        r->name = dz_profile_string(r->profile, dz_json_string(j));
    else if (dz_slice_equal(key, DZ_LIT("url")))
        r->url = dz_profile_string(r->profile, dz_json_string(j));
    else if (dz_slice_equal(key, DZ_LIT("lineNumber")))
        r->frame.line = from_one(dz_json_integer(j));
    else if (dz_slice_equal(key, DZ_LIT("columnNumber")))
        r->frame.column = from_one(dz_json_integer(j));
    else
        dz_json_skip(j);
}

static void child(void *arg, dz_json *j)
{
    dz_cpu_reader *r = arg;
    uint32_t id = dz_cpu_id(j);
    if (reserve(r, (void **)&r->children, r->child_count, &r->child_cap, sizeof *r->children))
        r->children[r->child_count++] = id;
}

static void tick_member(void *arg, dz_json *j, dz_slice key)
{
    dz_cpu_reader *r = arg;
    if (dz_slice_equal(key, DZ_LIT("line")))
        r->tick.line = bounded(dz_json_integer(j));
    else if (dz_slice_equal(key, DZ_LIT("ticks")))
        r->tick.ticks = bounded(dz_json_integer(j));
    else
        dz_json_skip(j);
}

static void tick(void *arg, dz_json *j)
{
    dz_cpu_reader *r = arg;
    r->tick = (dz_cpu_ticks){0};
    dz_json_members(j, tick_member, r);
    if (reserve(r, (void **)&r->ticks, r->tick_count, &r->tick_cap, sizeof *r->ticks))
        r->ticks[r->tick_count++] = r->tick;
}

/* What our own writer adds where the call frame does not tell it. */
static void own_member(dz_cpu_reader *r, dz_json *j, bool kind)
{
    dz_slice text = dz_json_string(j);
    if (!kind)
        r->frame.mark = (char)(text.len == 1 && strchr("*~", text.ptr[0]) ? text.ptr[0] : 0);
    for (int i = 0; kind && i < DZ_FRAME_KINDS; i++)
        if (dz_slice_equal(text, dz_slice_of(dz_frame_kind_name((dz_frame_kind)i))))
            r->kind = i;
}

static void node_member(void *arg, dz_json *j, dz_slice key)
{
    dz_cpu_reader *r = arg;
    if (dz_slice_equal(key, DZ_LIT("id")))
        r->current.id = dz_cpu_id(j);
    else if (dz_slice_equal(key, DZ_LIT("parent")))
        r->current.parent = dz_cpu_id(j);
    else if (dz_slice_equal(key, DZ_LIT("hitCount")))
        r->current.hits = bounded(dz_json_integer(j));
    else if (dz_slice_equal(key, DZ_LIT("callFrame")) && dz_json_peek(j) == '{')
        dz_json_members(j, call_frame, r);
    else if (dz_slice_equal(key, DZ_LIT("children")) && dz_json_peek(j) == '[')
        dz_json_elements(j, child, r);
    else if (dz_slice_equal(key, DZ_LIT("positionTicks")) && dz_json_peek(j) == '[')
        dz_json_elements(j, tick, r);
    else if (dz_slice_equal(key, DZ_LIT("kind")) && dz_json_peek(j) == '"')
        own_member(r, j, true);
    else if (dz_slice_equal(key, DZ_LIT("mark")) && dz_json_peek(j) == '"')
        own_member(r, j, false);
    else
        dz_json_skip(j);
}

static void finish_frame(dz_cpu_reader *r)
{
    dz_profile *p = r->profile;
    dz_slice name = dz_profile_text(p, r->name);
    if (name.len == 0)
        r->name = dz_profile_string(p, DZ_LIT("(anonymous)"));
    r->frame.name = r->name;
    dz_slice url = dz_profile_text(p, r->url);
    r->frame.kind = (uint8_t)(r->kind < 0 ? dz_frame_classify(name, url) : (dz_frame_kind)r->kind);
    r->frame.file = dz_frame_file(p, url);
    if (url.len == 0)
        r->frame.line = r->frame.column = 0;
    r->current.frame = dz_profile_frame(p, &r->frame);
}

dz_cpu_node *dz_cpu_find(dz_cpu_reader *r, uint32_t id)
{
    uint32_t index;
    size_t at = SIZE_MAX;
    return dz_map_next(&r->by_id, id, &at, &index) ? &r->nodes[index] : NULL;
}

void dz_cpu_read_node(void *arg, dz_json *j)
{
    dz_cpu_reader *r = arg;
    r->current = (dz_cpu_node){0};
    r->frame = (dz_frame){0};
    r->name = r->url = 0;
    r->kind = -1;
    r->child_count = r->tick_count = 0;
    dz_json_members(j, node_member, r);
    if (dz_json_error(j))
        return;
    if (r->current.id == 0) {
        dz_cpu_complain(r, "node %zu of \"nodes\" has no \"id\"", r->node_count + 1);
        return;
    }
    if (dz_cpu_find(r, r->current.id)) {
        dz_cpu_complain(r, "two nodes have the id %u", r->current.id - 1);
        return;
    }
    finish_frame(r);
    for (size_t i = 0; i < r->tick_count; i++)
        dz_profile_line(r->profile, r->current.frame, r->ticks[i].line, r->ticks[i].ticks);
    if (!reserve(r, (void **)&r->nodes, r->node_count, &r->node_cap, sizeof *r->nodes) ||
        !dz_map_put(&r->by_id, r->current.id, (uint32_t)r->node_count)) {
        r->out_of_memory = true;
        return;
    }
    r->nodes[r->node_count++] = r->current;
    /* Children may come before or after their parent: whose they are is kept apart, by keys that no
     * id can have. */
    for (size_t i = 0; i < r->child_count; i++)
        if (!dz_map_put(&r->by_id, (UINT64_C(1) << 32) | r->children[i], r->current.id - 1))
            r->out_of_memory = true;
}

static uint32_t parent_of(dz_cpu_reader *r, const dz_cpu_node *n)
{
    uint32_t id;
    size_t at = SIZE_MAX;
    if (n->parent)
        return n->parent;
    return dz_map_next(&r->by_id, (UINT64_C(1) << 32) | n->id, &at, &id) ? id + 1 : 0;
}

/* Makes the stack of a node and of all above it; V8's own root is ours. Iterative, as stacks may be
 * deep; a circle in a damaged file is cut where the walk up has taken as many steps as there are
 * nodes. */
uint32_t dz_cpu_stack(dz_cpu_reader *r, dz_cpu_node *n)
{
    while (!n->resolved) {
        dz_cpu_node *at = n, *up = dz_cpu_find(r, parent_of(r, at));
        for (size_t steps = 0; up && !up->resolved && steps < r->node_count; steps++) {
            at = up;
            up = dz_cpu_find(r, parent_of(r, at));
        }
        dz_slice name = dz_profile_text(r->profile, r->profile->frames[at->frame].name);
        bool root = !up && dz_slice_equal(name, DZ_LIT("(root)"));
        at->stack = root ? 0 : dz_profile_child(r->profile, up ? up->stack : 0, at->frame);
        at->resolved = true;
    }
    return n->stack;
}
