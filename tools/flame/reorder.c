#include "reorder.h"

#include <stdlib.h>

static bool before(const dz_timed *a, const dz_timed *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

bool dz_reorder_init(dz_reorder *r, void (*out)(void *arg, const dz_timed *sample), void *arg)
{
    *r = (dz_reorder){.out = out, .arg = arg, .floor = INT64_MIN};
    r->heap = reallocarray(NULL, DZ_REORDER, sizeof *r->heap);
    return r->heap != NULL;
}

static void sink(dz_reorder *r, dz_timed value)
{
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < r->count; i = child) {
        if (child + 1 < r->count && before(&r->heap[child + 1], &r->heap[child]))
            child++;
        if (before(&value, &r->heap[child]))
            break;
        r->heap[i] = r->heap[child];
    }
    r->heap[i] = value;
}

static void give(dz_reorder *r)
{
    dz_timed first = r->heap[0];
    r->floor = first.at;
    r->count--;
    if (r->count)
        sink(r, r->heap[r->count]);
    r->out(r->arg, &first);
}

void dz_reorder_put(dz_reorder *r, int64_t at, uint32_t id)
{
    if (r->count == DZ_REORDER)
        give(r);
    dz_timed value = {.at = at < r->floor ? r->floor : at, .order = r->order++, .id = id};
    size_t i = r->count++;
    for (; i > 0 && before(&value, &r->heap[(i - 1) / 2]); i = (i - 1) / 2)
        r->heap[i] = r->heap[(i - 1) / 2];
    r->heap[i] = value;
}

void dz_reorder_finish(dz_reorder *r)
{
    while (r->count)
        give(r);
    free(r->heap);
    r->heap = NULL;
}
