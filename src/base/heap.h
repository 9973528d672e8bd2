/* heap.h: intrusive 4-ary min-heap ordered by a 64-bit key, for timers and deadlines.
 * Insert, remove and move are O(log n); the minimum is O(1). Not thread-safe. */
#ifndef DZ_BASE_HEAP_H
#define DZ_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct dz_heap_node {
    uint64_t key;
    size_t at; /* index in the heap + 1; 0 when not in one */
} dz_heap_node;

typedef struct dz_heap {
    dz_heap_node **nodes;
    size_t count, cap;
} dz_heap;

void dz_heap_init(dz_heap *heap);
void dz_heap_close(dz_heap *heap); /* frees the array, not the nodes */

/* Makes room for `count` nodes in all, so that as many inserts can't fail. DZ_E_NOMEM. */
int dz_heap_reserve(dz_heap *heap, size_t count);

/* `node` must not be in a heap. DZ_E_NOMEM: the heap is unchanged. */
int dz_heap_insert(dz_heap *heap, dz_heap_node *node, uint64_t key);

/* Harmless when the node is in no heap. */
void dz_heap_remove(dz_heap *heap, dz_heap_node *node);

/* Gives a node of this heap another key. */
void dz_heap_move(dz_heap *heap, dz_heap_node *node, uint64_t key);

static inline dz_heap_node *dz_heap_min(const dz_heap *heap)
{
    return heap->count ? heap->nodes[0] : NULL;
}

static inline bool dz_heap_has(const dz_heap_node *node)
{
    return node->at != 0;
}

#endif
