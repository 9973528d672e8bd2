/* native_private.h: shared by native.c (recording) and merge.c (naming and putting together). */
#ifndef DZ_FLAME_NATIVE_PRIVATE_H
#define DZ_FLAME_NATIVE_PRIVATE_H

#include "chains.h"
#include "native.h"
#include "offcpu.h"

/* Samples are kept as addresses and named at the end: naming is slow, and a JIT's map is whole only
 * then. */
typedef struct dz_kept {
    uint64_t at, weight;
    pid_t tid;
    uint32_t image, chain;
} dz_kept;

struct dz_native {
    dz_native_options options;
    dz_perf *perf;
    dz_profile names; /* frames of all symbols */
    dz_symbols *symbols;
    dz_chains chains;
    dz_offcpu off;
    dz_kept *samples;
    size_t count, cap;
    uint64_t deadline; /* of the drain that goes on */
    pid_t pids[256];
    char *folders[256]; /* where each runs: V8 leaves its log there */
    size_t pid_count;
    dz_native_losses losses;
    bool ours; /* the command was started here: maps and logs of V8's are there for us alone */
    bool out_of_memory;
};

#endif
