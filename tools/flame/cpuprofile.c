/* V8's .cpuprofile: nodes with call frames, samples naming nodes, and the time between them. */
#include "formats.h"
#include "json_stream.h"
#include "reorder.h"
#include "spool.h"

#include <donmaz/error.h>

#include <stdlib.h>

typedef struct node {
    uint32_t id, parent, frame; /* parent: id; 0 none */
    uint32_t stack;
    uint64_t hits;
    bool resolved;
} node;

typedef struct reader {
    dz_profile *profile;
    node *nodes;
    size_t node_count, node_cap;
    dz_map by_id;
    dz_spool samples, deltas;
    int64_t start, end;
    dz_timed last; /* the sample whose end is not yet known */
    bool has_last;
    pid_t tid;
    /* of the node being read */
    uint32_t *children;
    size_t child_count, child_cap;
    struct {
        uint32_t line;
        uint64_t ticks;
    } ticks[64], tick;
    size_t tick_count;
    node current;
    dz_frame frame;
    uint32_t name, url;
    bool out_of_memory;
} reader;

static bool reserve(reader *r, void **array, size_t count, size_t *cap, size_t size)
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

static void call_frame(void *arg, dz_json *j, dz_slice key)
{
    reader *r = arg;
    if (dz_slice_equal(key, DZ_LIT("functionName")))
        r->name = dz_profile_string(r->profile, dz_json_string(j));
    else if (dz_slice_equal(key, DZ_LIT("url")))
        r->url = dz_profile_string(r->profile, dz_json_string(j));
    else if (dz_slice_equal(key, DZ_LIT("lineNumber")))
        r->frame.line = bounded(dz_json_integer(j) + 1); /* theirs counts from 0 */
    else if (dz_slice_equal(key, DZ_LIT("columnNumber")))
        r->frame.column = bounded(dz_json_integer(j) + 1);
    else
        dz_json_skip(j);
}

static void child(void *arg, dz_json *j)
{
    reader *r = arg;
    uint32_t id = bounded(dz_json_integer(j));
    if (reserve(r, (void **)&r->children, r->child_count, &r->child_cap, sizeof *r->children))
        r->children[r->child_count++] = id;
}

static void tick_member(void *arg, dz_json *j, dz_slice key)
{
    reader *r = arg;
    if (dz_slice_equal(key, DZ_LIT("line")))
        r->tick.line = bounded(dz_json_integer(j));
    else if (dz_slice_equal(key, DZ_LIT("ticks")))
        r->tick.ticks = bounded(dz_json_integer(j));
    else
        dz_json_skip(j);
}

static void tick(void *arg, dz_json *j)
{
    reader *r = arg;
    r->tick.line = 0;
    r->tick.ticks = 0;
    dz_json_members(j, tick_member, r);
    if (r->tick_count < sizeof r->ticks / sizeof r->ticks[0]) {
        r->ticks[r->tick_count].line = r->tick.line;
        r->ticks[r->tick_count++].ticks = r->tick.ticks;
    }
}

static void node_member(void *arg, dz_json *j, dz_slice key)
{
    reader *r = arg;
    if (dz_slice_equal(key, DZ_LIT("id")))
        r->current.id = bounded(dz_json_integer(j));
    else if (dz_slice_equal(key, DZ_LIT("parent")))
        r->current.parent = bounded(dz_json_integer(j));
    else if (dz_slice_equal(key, DZ_LIT("hitCount")))
        r->current.hits = bounded(dz_json_integer(j));
    else if (dz_slice_equal(key, DZ_LIT("callFrame")) && dz_json_peek(j) == '{')
        dz_json_members(j, call_frame, r);
    else if (dz_slice_equal(key, DZ_LIT("children")) && dz_json_peek(j) == '[')
        dz_json_elements(j, child, r);
    else if (dz_slice_equal(key, DZ_LIT("positionTicks")) && dz_json_peek(j) == '[')
        dz_json_elements(j, tick, r);
    else
        dz_json_skip(j);
}

/* "file:///a/b.js" is shown as the path it is. */
static uint32_t file_of(reader *r)
{
    dz_slice url = dz_profile_text(r->profile, r->url);
    if (url.len < 7 || memcmp(url.ptr, "file://", 7) != 0)
        return r->url;
    dz_buf path = {0};
    for (size_t i = 7; i < url.len; i++) {
        char c = url.ptr[i], hex[3];
        if (c == '%' && i + 2 < url.len) {
            memcpy(hex, url.ptr + i + 1, 2);
            hex[2] = 0;
            char *end;
            unsigned long byte = strtoul(hex, &end, 16);
            if (*end == 0) {
                c = (char)byte;
                i += 2;
            }
        }
        if (dz_buf_append(&path, dz_slice_make(&c, 1)) < 0)
            break;
    }
    uint32_t file = dz_profile_string(r->profile, dz_buf_slice(&path));
    dz_buf_release(&path);
    return file;
}

static void finish_frame(reader *r)
{
    dz_profile *p = r->profile;
    dz_slice name = dz_profile_text(p, r->name);
    if (name.len == 0)
        r->name = dz_profile_string(p, DZ_LIT("(anonymous)"));
    r->frame.name = r->name;
    r->frame.kind = (uint8_t)dz_frame_classify(name, dz_profile_text(p, r->url));
    r->frame.file = file_of(r);
    if (r->frame.kind == DZ_FRAME_NATIVE || r->frame.kind == DZ_FRAME_GC)
        r->frame.line = r->frame.column = 0;
    r->current.frame = dz_profile_frame(p, &r->frame);
}

static void one_node(void *arg, dz_json *j)
{
    reader *r = arg;
    r->current = (node){0};
    r->frame = (dz_frame){0};
    r->name = r->url = 0;
    r->child_count = r->tick_count = 0;
    dz_json_members(j, node_member, r);
    if (dz_json_error(j) || r->current.id == 0)
        return;
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

static void one_sample(void *arg, dz_json *j)
{
    dz_spool_put(&((reader *)arg)->samples, bounded(dz_json_integer(j)));
}

static void one_delta(void *arg, dz_json *j)
{
    dz_spool_put(&((reader *)arg)->deltas, dz_json_integer(j));
}

static void member(void *arg, dz_json *j, dz_slice key)
{
    reader *r = arg;
    if (dz_slice_equal(key, DZ_LIT("nodes")))
        dz_json_elements(j, one_node, r);
    else if (dz_slice_equal(key, DZ_LIT("samples")))
        dz_json_elements(j, one_sample, r);
    else if (dz_slice_equal(key, DZ_LIT("timeDeltas")))
        dz_json_elements(j, one_delta, r);
    else if (dz_slice_equal(key, DZ_LIT("startTime")))
        r->start = dz_json_integer(j);
    else if (dz_slice_equal(key, DZ_LIT("endTime")))
        r->end = dz_json_integer(j);
    else
        dz_json_skip(j);
}

static node *find(reader *r, uint32_t id)
{
    uint32_t index;
    size_t at = SIZE_MAX;
    return dz_map_next(&r->by_id, id, &at, &index) ? &r->nodes[index] : NULL;
}

static uint32_t parent_of(reader *r, const node *n)
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
static uint32_t resolve(reader *r, node *n)
{
    while (!n->resolved) {
        node *at = n, *up = find(r, parent_of(r, at));
        for (size_t steps = 0; up && !up->resolved && steps < r->node_count; steps++) {
            at = up;
            up = find(r, parent_of(r, at));
        }
        dz_slice name = dz_profile_text(r->profile, r->profile->frames[at->frame].name);
        bool root = !up && dz_slice_equal(name, DZ_LIT("(root)"));
        at->stack = root ? 0 : dz_profile_child(r->profile, up ? up->stack : 0, at->frame);
        at->resolved = true;
    }
    return n->stack;
}

static void lasted(reader *r, int64_t until)
{
    const dz_timed *s = &r->last;
    node *n = find(r, s->id);
    if (n && r->has_last)
        dz_profile_add(r->profile, resolve(r, n), (uint64_t)(until - s->at) * 1000,
                       (uint64_t)(s->at > 0 ? s->at : 0) * 1000, r->tid);
}

/* A sample lasts until the next one begins, the last until the end. */
static void in_order(void *arg, const dz_timed *s)
{
    reader *r = arg;
    lasted(r, s->at);
    r->last = *s;
    r->has_last = true;
}

static int add_samples(reader *r)
{
    dz_reorder order;
    int rc = dz_spool_rewind(&r->samples);
    if (rc == 0)
        rc = dz_spool_rewind(&r->deltas);
    if (rc == 0 && !dz_reorder_init(&order, in_order, r))
        rc = DZ_E_NOMEM;
    if (rc < 0)
        return rc;
    int64_t at = r->start, id, delta;
    while (dz_spool_next(&r->samples, &id) && dz_spool_next(&r->deltas, &delta)) {
        if (__builtin_add_overflow(at, delta, &at))
            at = INT64_MAX / 2;
        dz_reorder_put(&order, at, (uint32_t)id);
    }
    dz_reorder_finish(&order);
    lasted(r, r->end > r->last.at ? r->end : r->last.at);
    return 0;
}

/* Without samples only counts are known: the time is shared out by them. */
static void add_hits(reader *r)
{
    uint64_t hits = 0;
    for (size_t i = 0; i < r->node_count; i++)
        hits += r->nodes[i].hits;
    double each =
        hits && r->end > r->start ? (double)(r->end - r->start) * 1e3 / (double)hits : 1e6;
    for (size_t i = 0; i < r->node_count; i++)
        if (r->nodes[i].hits)
            dz_profile_add(r->profile, resolve(r, &r->nodes[i]),
                           (uint64_t)((double)r->nodes[i].hits * each), 0, 0);
}

int dz_read_cpuprofile_of(dz_profile *profile, FILE *in, pid_t tid, dz_read_error *error)
{
    reader r = {.profile = profile, .tid = tid};
    dz_json j;
    dz_json_open(&j, in);
    dz_json_members(&j, member, &r);
    int rc = 0;
    if (dz_json_error(&j)) {
        snprintf(error->text, sizeof error->text, "line %llu: %s", (unsigned long long)j.line,
                 dz_json_error(&j));
        rc = DZ_E_FORMAT;
    } else if (r.node_count == 0) {
        snprintf(error->text, sizeof error->text, "no \"nodes\": not a CPU profile");
        rc = DZ_E_FORMAT;
    } else if (r.samples.total) {
        for (size_t i = 0; i < r.node_count; i++)
            resolve(&r, &r.nodes[i]); /* in file order, parents mostly first: short walks */
        rc = add_samples(&r);
    } else {
        add_hits(&r);
    }
    if (rc == 0 && (r.out_of_memory || profile->failed))
        rc = DZ_E_NOMEM;
    dz_json_close(&j);
    free(r.nodes);
    dz_spool_close(&r.samples);
    dz_spool_close(&r.deltas);
    free(r.children);
    dz_map_close(&r.by_id);
    return rc;
}

int dz_read_cpuprofile(dz_profile *profile, FILE *in, dz_read_error *error)
{
    return dz_read_cpuprofile_of(profile, in, 0, error);
}
