/* spool.h: numbers put aside to be read again in the same order: in memory while they are few, in a
 * temporary file without a name when they are many. One thread at a time. */
#ifndef DZ_FLAME_SPOOL_H
#define DZ_FLAME_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct dz_spool {
    int64_t *memory;
    size_t count, cap; /* in memory */
    size_t total, at;  /* written; read again */
    FILE *file;
    int error; /* -errno; what was put after it is gone */
} dz_spool;

void dz_spool_put(dz_spool *spool, int64_t number);

/* Begins to read from the first. 0, or what went wrong in writing: -errno. */
int dz_spool_rewind(dz_spool *spool);

/* False at the end. */
bool dz_spool_next(dz_spool *spool, int64_t *number);

void dz_spool_close(dz_spool *spool);

#endif
