#include "base/heap.h"

#include <donmaz/error.h>

#include <stdlib.h>

enum { ARITY = 4, FIRST_CAP = 64 };

void dz_heap_init(dz_heap *heap)
{
    *heap = (dz_heap){0};
}

void dz_heap_close(dz_heap *heap)
{
    free(heap->nodes);
    *heap = (dz_heap){0};
}

static void place(dz_heap *heap, size_t at, dz_heap_node *node)
{
    heap->nodes[at] = node;
    node->at = at + 1;
}

static void sift_up(dz_heap *heap, size_t at)
{
    dz_heap_node *node = heap->nodes[at];
    while (at > 0) {
        size_t parent = (at - 1) / ARITY;
        if (heap->nodes[parent]->key <= node->key)
            break;
        place(heap, at, heap->nodes[parent]);
        at = parent;
    }
    place(heap, at, node);
}

static void sift_down(dz_heap *heap, size_t at)
{
    dz_heap_node *node = heap->nodes[at];
    for (;;) {
        size_t first = at * ARITY + 1;
        if (first >= heap->count)
            break;
        size_t end = first + ARITY < heap->count ? first + ARITY : heap->count;
        size_t least = first;
        for (size_t child = first + 1; child < end; child++)
            if (heap->nodes[child]->key < heap->nodes[least]->key)
                least = child;
        if (heap->nodes[least]->key >= node->key)
            break;
        place(heap, at, heap->nodes[least]);
        at = least;
    }
    place(heap, at, node);
}

int dz_heap_reserve(dz_heap *heap, size_t count)
{
    if (count <= heap->cap)
        return 0;
    size_t cap = heap->cap ? heap->cap : FIRST_CAP;
    while (cap < count) {
        if (cap > SIZE_MAX / 2 / sizeof(void *))
            return DZ_E_NOMEM;
        cap *= 2;
    }
    dz_heap_node **nodes = realloc(heap->nodes, cap * sizeof(dz_heap_node *));
    if (!nodes)
        return DZ_E_NOMEM;
    heap->nodes = nodes;
    heap->cap = cap;
    return 0;
}

int dz_heap_insert(dz_heap *heap, dz_heap_node *node, uint64_t key)
{
    int rc = dz_heap_reserve(heap, heap->count + 1);
    if (rc < 0)
        return rc;
    node->key = key;
    heap->nodes[heap->count++] = node;
    sift_up(heap, heap->count - 1);
    return 0;
}

/* After nodes[at] changed: one of the two does nothing. */
static void restore(dz_heap *heap, size_t at)
{
    dz_heap_node *node = heap->nodes[at];
    sift_up(heap, at);
    sift_down(heap, node->at - 1);
}

void dz_heap_remove(dz_heap *heap, dz_heap_node *node)
{
    if (!dz_heap_has(node))
        return;
    size_t at = node->at - 1;
    node->at = 0;
    dz_heap_node *last = heap->nodes[--heap->count];
    if (last == node)
        return;
    place(heap, at, last);
    restore(heap, at);
}

void dz_heap_move(dz_heap *heap, dz_heap_node *node, uint64_t key)
{
    node->key = key;
    restore(heap, node->at - 1);
}
