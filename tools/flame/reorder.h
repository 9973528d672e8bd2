/* reorder.h: puts samples in order of time while holding only a window of them: V8's clock now and
 * then goes back a little. One that is late by more than the window takes its place at the window's
 * beginning. One thread at a time. */
#ifndef DZ_FLAME_REORDER_H
#define DZ_FLAME_REORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct dz_timed {
    int64_t at;
    uint64_t order;
    uint32_t id;
} dz_timed;

enum { DZ_REORDER = 65536 };

typedef struct dz_reorder {
    dz_timed *heap; /* the earliest first */
    size_t count;
    uint64_t order;
    int64_t floor; /* time of the last one given out */
    void (*out)(void *arg, const dz_timed *sample);
    void *arg;
} dz_reorder;

/* False out of memory. `out` gets the samples in order; nothing is given out before either the
 * window is full or dz_reorder_finish is called. */
bool dz_reorder_init(dz_reorder *reorder, void (*out)(void *arg, const dz_timed *sample),
                     void *arg);
void dz_reorder_put(dz_reorder *reorder, int64_t at, uint32_t id);
void dz_reorder_finish(dz_reorder *reorder); /* the rest; frees */

#endif
