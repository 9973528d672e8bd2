/* Aliases are replaced by copies of what they name, so a short file can ask for any amount of
 * memory ("billion laughs"). This counts the copies without making them. */
#include "common/yaml.h"

#include <stdlib.h>
#include <yaml.h>

/* Far above any experiment or scenario. */
enum { NODES_MAX = 1 << 18, BYTES_MAX = 64 << 20, DEPTH_MAX = 64, ANCHORS_MAX = 1 << 12 };

typedef struct amount {
    uint64_t nodes, bytes;
} amount;

typedef struct anchor {
    char *name;
    amount size;
} anchor;

typedef struct counter {
    amount total;
    anchor *anchors;
    size_t count;
    struct {
        char *anchor; /* NULL: none */
        amount before;
    } open[DEPTH_MAX]; /* the sequences and mappings around the present place */
    size_t depth;
} counter;

static bool remember(counter *c, char *name, amount before)
{
    anchor *grown =
        c->count < ANCHORS_MAX ? realloc(c->anchors, (c->count + 1) * sizeof *grown) : NULL;
    if (!grown)
        return false;
    c->anchors = grown;
    grown[c->count++] =
        (anchor){name, {c->total.nodes - before.nodes, c->total.bytes - before.bytes}};
    return true;
}

/* `name` NULL: no anchor. Takes the name. */
static bool close_node(counter *c, char *name, amount before)
{
    if (!name || remember(c, name, before))
        return true;
    free(name);
    return false;
}

static void add(counter *c, amount more)
{
    c->total.nodes += more.nodes;
    c->total.bytes += more.bytes;
}

static void add_alias(counter *c, const char *name)
{
    for (size_t i = c->anchors ? c->count : 0; i-- > 0;)
        if (strcmp(c->anchors[i].name, name) == 0) {
            add(c, c->anchors[i].size);
            return;
        }
}

static char *copy_name(const yaml_char_t *name)
{
    return name ? strdup((const char *)name) : NULL;
}

static bool open_node(counter *c, const yaml_char_t *name)
{
    if (c->depth == DEPTH_MAX)
        return false;
    c->open[c->depth].anchor = copy_name(name);
    c->open[c->depth++].before = c->total;
    add(c, (amount){1, 0});
    return true;
}

static bool count_event(counter *c, const yaml_event_t *event)
{
    amount before = c->total;
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        add(c, (amount){1, event->data.scalar.length});
        return close_node(c, copy_name(event->data.scalar.anchor), before);
    case YAML_ALIAS_EVENT:
        add_alias(c, (const char *)event->data.alias.anchor);
        return true;
    case YAML_SEQUENCE_START_EVENT:
        return open_node(c, event->data.sequence_start.anchor);
    case YAML_MAPPING_START_EVENT:
        return open_node(c, event->data.mapping_start.anchor);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        c->depth--; /* the parser pairs them */
        return close_node(c, c->open[c->depth].anchor, c->open[c->depth].before);
    default:
        return true;
    }
}

bool dz_yaml_fits(dz_yaml_text text)
{
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return false;
    yaml_parser_set_input_string(&parser, (const unsigned char *)text.data, text.len);
    counter c = {0};
    bool fits = true, more = true;
    while (fits && more) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event))
            break; /* not YAML: whoever reads it says why */
        fits = count_event(&c, &event) && c.total.nodes <= NODES_MAX && c.total.bytes <= BYTES_MAX;
        more = event.type != YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    while (c.depth > 0)
        free(c.open[--c.depth].anchor);
    for (size_t i = 0; c.anchors && i < c.count; i++)
        free(c.anchors[i].name);
    free(c.anchors);
    yaml_parser_delete(&parser);
    return fits;
}
