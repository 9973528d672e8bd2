/* cpuprofile_private.h: shared by cpuprofile_nodes.c (the tree of nodes) and cpuprofile.c (samples
 * and time). */
#ifndef DZ_FLAME_CPUPROFILE_PRIVATE_H
#define DZ_FLAME_CPUPROFILE_PRIVATE_H

#include "json_stream.h"
#include "profile.h"
#include "reorder.h"
#include "spool.h"

/* Ids are kept plus one: some writers count from 0, and 0 stands for none here. */
typedef struct dz_cpu_node {
    uint32_t id, parent, frame; /* parent: id */
    uint32_t stack;
    uint64_t hits;
    bool resolved;
} dz_cpu_node;

typedef struct dz_cpu_ticks {
    uint32_t line;
    uint64_t ticks;
} dz_cpu_ticks;

typedef struct dz_cpu_reader {
    dz_profile *profile;
    dz_cpu_node *nodes;
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
    dz_cpu_ticks *ticks, tick;
    size_t tick_count, tick_cap;
    dz_cpu_node current;
    dz_frame frame;
    uint32_t name, url;
    int kind; /* as our own writer notes it; -1 */
    char problem[96];
    bool out_of_memory;
} dz_cpu_reader;

/* The first complaint stays; what is complained of is an error. */
void dz_cpu_complain(dz_cpu_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Reads an id, plus one. */
uint32_t dz_cpu_id(dz_json *json);

/* Reads one element of "nodes"; `arg` is the reader. */
void dz_cpu_read_node(void *arg, dz_json *json);

/* NULL when there is none. */
dz_cpu_node *dz_cpu_find(dz_cpu_reader *reader, uint32_t id);

/* The profile's stack of a node, made with all above it. */
uint32_t dz_cpu_stack(dz_cpu_reader *reader, dz_cpu_node *node);

#endif
