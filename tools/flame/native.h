/* native.h: perf events during a run, made into a profile, alone or together with what the V8
 * inspector saw of the same threads. */
#ifndef DZ_FLAME_NATIVE_H
#define DZ_FLAME_NATIVE_H

#include "collect.h"
#include "perf.h"
#include "symbols.h"

typedef struct dz_native dz_native;

typedef enum dz_unwind_by {
    DZ_UNWIND_AUTO,  /* by what the code's file says (CFI), else by frame pointers */
    DZ_UNWIND_FP,    /* the kernel's walk along frame pointers */
    DZ_UNWIND_DWARF, /* as AUTO, with as much of the stack as can be had, however long it takes */
} dz_unwind_by;

typedef struct dz_native_options {
    unsigned frequency;
    dz_unwind_by unwind;
    bool off_cpu;
} dz_native_options;

/* What could not be had. */
typedef struct dz_native_losses {
    uint64_t lost;              /* samples dropped by the kernel */
    uint64_t samples;           /* that came */
    uint64_t cut;               /* stacks deeper than what was copied of them */
    uint64_t astray;            /* that could not be followed to their end */
    uint64_t hurried;           /* followed by frame pointers alone, as there was no time */
    size_t unseen;              /* threads without a descriptor */
    bool kernel;                /* kernel code was seen */
    const char *nameless, *why; /* file that many samples without a name are in; NULL */
} dz_native_losses;

/* NULL out of memory. */
dz_native *dz_native_new(void);
void dz_native_free(dz_native *native);

/* Begin: a held command, or everything in the tree. Negative: see dz_perf_explain. */
int dz_native_start_command(dz_native *native, pid_t pid, const dz_native_options *options);
int dz_native_start_tree(dz_native *native, const dz_tree *tree, const dz_native_options *options);

/* Takes what has come; every 10 ms. */
void dz_native_drain(dz_native *native);

/* No more samples. Reads the JITs' maps, while the processes still live or have just ended. */
void dz_native_stop(dz_native *native);

/* Adds the samples to the profile. Threads in `js` (may be NULL; with ticks) get JavaScript frames
 * from there and native ones from here. Returns DZ_E_NOMEM or 0. */
int dz_native_build(dz_native *native, dz_profile *profile, const dz_profile *js);

/* How many samples there were. */
size_t dz_native_samples(const dz_native *native);

/* After dz_native_build. */
void dz_native_losses_get(dz_native *native, dz_native_losses *out);

#endif
