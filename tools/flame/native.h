/* native.h: perf events during a run, made into a profile, alone or together with what the V8
 * inspector saw of the same threads. */
#ifndef DZ_FLAME_NATIVE_H
#define DZ_FLAME_NATIVE_H

#include "collect.h"
#include "perf.h"
#include "symbols.h"

typedef struct dz_native dz_native;

/* NULL out of memory. */
dz_native *dz_native_new(void);
void dz_native_free(dz_native *native);

/* Begin: a held command, or everything in the tree. Negative: see dz_perf_explain. */
int dz_native_start_command(dz_native *native, pid_t pid, unsigned frequency);
int dz_native_start_tree(dz_native *native, const dz_tree *tree, unsigned frequency);

/* Takes what has come; every 10 ms. */
void dz_native_drain(dz_native *native);

/* No more samples. Reads the JITs' maps, while the processes still live or have just ended. */
void dz_native_stop(dz_native *native);

/* Adds the samples to the profile. Threads in `js` (may be NULL; with ticks) get JavaScript frames
 * from there and native ones from here. Returns DZ_E_NOMEM or 0. */
int dz_native_build(dz_native *native, dz_profile *profile, const dz_profile *js);

/* How many samples there were, and whether the kernel's code could be seen. */
size_t dz_native_samples(const dz_native *native);
bool dz_native_kernel(const dz_native *native);
uint64_t dz_native_lost(const dz_native *native);

#endif
