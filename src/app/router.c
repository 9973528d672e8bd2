#include "app/router.h"

#include <stdlib.h>

/* The tree has one level a segment. A node knows its children by kind; literal children are in an
 * open-addressed table so that a thousand routes under one prefix cost what one does. */

typedef struct leaf {
    void *route;
    char *text; /* the pattern; names point into it */
    uint8_t name_count;
    dz_slice names[];
} leaf;

typedef struct leaf_set {
    uint32_t methods; /* bit m: by_method[m] is set */
    leaf *by_method[DZ_ROUTER_METHODS];
} leaf_set;

typedef struct node node;
struct node {
    dz_slice shape; /* of the segment that leads here; ours */
    uint64_t hash;  /* of shape */
    node **literals;
    size_t literal_count, literal_slots; /* slots: 0 or a power of two, at most half full */
    node *mixed;                         /* first of the children with parameters inside */
    node *next_mixed;
    node *param;
    leaf_set *leaves;   /* routes that end here */
    leaf_set *wildcard; /* routes whose wildcard starts here */
};

struct dz_router {
    node root;
};

/* The keys are the program's own routes, so speed is all that is asked of the hash. */
static uint64_t hash_of(dz_slice text)
{
    const uint64_t multiplier = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t hash = text.len * multiplier;
    size_t i = 0;
    for (; i + 8 <= text.len; i += 8) {
        uint64_t word;
        memcpy(&word, text.ptr + i, 8);
        hash = (hash ^ word) * multiplier;
        hash ^= hash >> 32;
    }
    uint64_t rest = 0;
    for (; i < text.len; i++)
        rest = rest << 8 | (unsigned char)text.ptr[i];
    hash = (hash ^ rest) * multiplier;
    return hash ^ hash >> 32;
}

static node *find_literal(const node *parent, dz_slice text)
{
    if (parent->literal_slots == 0)
        return NULL;
    uint64_t hash = hash_of(text);
    size_t mask = parent->literal_slots - 1;
    for (size_t i = hash & mask; parent->literals[i]; i = (i + 1) & mask)
        if (parent->literals[i]->hash == hash && dz_slice_equal(parent->literals[i]->shape, text))
            return parent->literals[i];
    return NULL;
}

static void place_literal(node **slots, size_t count, node *child)
{
    size_t i = child->hash & (count - 1);
    while (slots[i])
        i = (i + 1) & (count - 1);
    slots[i] = child;
}

/* Makes room for one more literal child. */
static int reserve_literal(node *parent)
{
    if ((parent->literal_count + 1) * 2 <= parent->literal_slots)
        return 0;
    size_t slots = parent->literal_slots ? parent->literal_slots * 2 : 4;
    node **table = calloc(slots, sizeof(node *));
    if (!table)
        return DZ_E_NOMEM;
    for (size_t i = 0; i < parent->literal_slots; i++)
        if (parent->literals[i])
            place_literal(table, slots, parent->literals[i]);
    free(parent->literals);
    parent->literals = table;
    parent->literal_slots = slots;
    return 0;
}

static node *new_node(dz_slice shape)
{
    node *made = calloc(1, sizeof *made + shape.len);
    if (!made)
        return NULL;
    memcpy(made + 1, shape.ptr, shape.len);
    made->shape = dz_slice_make(made + 1, shape.len);
    made->hash = hash_of(shape);
    return made;
}

static node *find_child(const node *parent, dz_segment segment)
{
    if (segment.kind == DZ_SEGMENT_PARAM)
        return parent->param;
    if (segment.kind == DZ_SEGMENT_LITERAL)
        return find_literal(parent, segment.shape);
    node *child = parent->mixed;
    while (child && !dz_slice_equal(child->shape, segment.shape))
        child = child->next_mixed;
    return child;
}

/* The child for `segment`, made when there is none; NULL out of memory. */
static node *child_for(node *parent, dz_segment segment)
{
    node *child = find_child(parent, segment);
    if (child)
        return child;
    if (segment.kind == DZ_SEGMENT_LITERAL && reserve_literal(parent) < 0)
        return NULL;
    child = new_node(segment.shape);
    if (!child)
        return NULL;
    if (segment.kind == DZ_SEGMENT_LITERAL) {
        place_literal(parent->literals, parent->literal_slots, child);
        parent->literal_count++;
    } else if (segment.kind == DZ_SEGMENT_PARAM) {
        parent->param = child;
    } else {
        node **last = &parent->mixed;
        while (*last)
            last = &(*last)->next_mixed;
        *last = child;
    }
    return child;
}

static void free_leaf(leaf *gone)
{
    if (gone)
        free(gone->text);
    free(gone);
}

static void free_leaves(leaf_set *set)
{
    if (set)
        for (size_t i = 0; i < DZ_ROUTER_METHODS; i++)
            free_leaf(set->by_method[i]);
    free(set);
}

static void free_node(node *gone);

/* Depth is at most DZ_PATTERN_SEGMENTS. */
static void free_children(node *parent)
{
    for (size_t i = 0; i < parent->literal_slots; i++)
        free_node(parent->literals[i]);
    free(parent->literals);
    for (node *child = parent->mixed, *next; child; child = next) {
        next = child->next_mixed;
        free_node(child);
    }
    free_node(parent->param);
    free_leaves(parent->leaves);
    free_leaves(parent->wildcard);
}

static void free_node(node *gone)
{
    if (!gone)
        return;
    free_children(gone);
    free(gone);
}

dz_router *dz_router_new(void)
{
    return calloc(1, sizeof(dz_router));
}

void dz_router_free(dz_router *router)
{
    if (!router)
        return;
    free_children(&router->root);
    free(router);
}

static leaf *new_leaf(const dz_pattern *pattern, const char *text, void *route)
{
    leaf *made = calloc(1, sizeof *made + pattern->param_count * sizeof(dz_slice));
    if (!made)
        return NULL;
    made->text = strdup(text);
    if (!made->text) {
        free(made);
        return NULL;
    }
    made->route = route;
    made->name_count = pattern->param_count;
    for (size_t i = 0; i < pattern->param_count; i++)
        made->names[i] =
            dz_slice_make(made->text + (pattern->names[i].ptr - text), pattern->names[i].len);
    return made;
}

int dz_router_add(dz_router *router, unsigned method, const char *text, void *route)
{
    dz_pattern pattern;
    if (method >= DZ_ROUTER_METHODS || !route)
        return DZ_E_INVALID;
    int rc = dz_pattern_parse(&pattern, text);
    if (rc < 0)
        return rc;
    node *at = &router->root;
    leaf_set **set = &at->leaves;
    for (size_t i = 0; i < pattern.segment_count; i++) {
        if (pattern.segments[i].kind == DZ_SEGMENT_WILDCARD) {
            set = &at->wildcard;
            break;
        }
        at = child_for(at, pattern.segments[i]);
        if (!at)
            return DZ_E_NOMEM; /* nodes without routes match nothing */
        set = &at->leaves;
    }
    if (!*set)
        *set = calloc(1, sizeof **set);
    if (!*set)
        return DZ_E_NOMEM;
    if ((*set)->methods & 1u << method)
        return DZ_E_EXISTS;
    leaf *made = new_leaf(&pattern, text, route);
    if (!made)
        return DZ_E_NOMEM;
    (*set)->by_method[method] = made;
    (*set)->methods |= 1u << method;
    return 0;
}

typedef struct search_state {
    unsigned method;
    const char *end; /* of the path */
    dz_route_match *match;
} search_state;

/* Takes the route of `set` for the method; names the `count` values captured on the way. */
static bool take(const search_state *search, const leaf_set *set, size_t count)
{
    if (!set)
        return false;
    search->match->allowed |= set->methods;
    const leaf *found = set->by_method[search->method];
    if (!found)
        found = set->by_method[DZ_ANY];
    if (!found)
        return false;
    for (size_t i = 0; i < count; i++)
        search->match->params[i].name = found->names[i];
    search->match->param_count = (uint8_t)count;
    search->match->route = found->route;
    return true;
}

static void capture(const search_state *search, size_t at, dz_slice value)
{
    search->match->params[at].value = value;
}

static bool descend(const search_state *search, const node *parent, const char *at, size_t count);

static bool descend_mixed(const search_state *search, const node *parent, dz_slice segment,
                          size_t count)
{
    for (const node *child = parent->mixed; child; child = child->next_mixed) {
        dz_slice values[DZ_PATTERN_PARAMS];
        size_t found = dz_shape_match(child->shape, segment, values);
        if (found == 0)
            continue;
        for (size_t i = 0; i < found; i++)
            capture(search, count + i, values[i]);
        if (descend(search, child, segment.ptr + segment.len, count + found))
            return true;
    }
    return false;
}

/* `at` is the '/' before the next segment, or the end. A node's level is the number of segments
 * before `at`, so a search meets each node once, and recursion is DZ_PATTERN_SEGMENTS deep at most.
 * A pattern has no more parameters than match->params has room for. */
static bool descend(const search_state *search, const node *parent, const char *at, size_t count)
{
    size_t left = (size_t)(search->end - at);
    if (left <= 1)
        return take(search, parent->leaves, count);
    const char *start = at + 1;
    const char *slash = memchr(start, '/', left - 1);
    dz_slice segment = dz_slice_make(start, slash ? (size_t)(slash - start) : left - 1);
    if (segment.len > 0) {
        const node *child = find_literal(parent, segment);
        if (child && descend(search, child, start + segment.len, count))
            return true;
        if (parent->mixed && descend_mixed(search, parent, segment, count))
            return true;
        if (parent->param) {
            capture(search, count, segment);
            if (descend(search, parent->param, start + segment.len, count + 1))
                return true;
        }
    }
    if (!parent->wildcard)
        return false;
    capture(search, count, dz_slice_make(start, left - 1));
    return take(search, parent->wildcard, count + 1);
}

int dz_router_find(const dz_router *router, unsigned method, dz_slice path, dz_route_match *match)
{
    match->route = NULL;
    match->allowed = 0;
    match->param_count = 0;
    if (method >= DZ_ROUTER_METHODS || path.len == 0 || path.ptr[0] != '/')
        return DZ_E_NOT_FOUND;
    search_state search = {.method = method, .end = path.ptr + path.len, .match = match};
    return descend(&search, &router->root, path.ptr, 0) ? 0 : DZ_E_NOT_FOUND;
}
