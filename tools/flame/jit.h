/* jit.h: names of code made at run time, from the maps its makers write: /tmp/perf-PID.map, as the
 * process sees /tmp and its own number (it may live in a container). One thread at a time. */
#ifndef DZ_FLAME_JIT_H
#define DZ_FLAME_JIT_H

#include "profile.h"

typedef struct dz_jit_entry {
    uint64_t start, end;
    pid_t pid;
    uint32_t frame;
    size_t order; /* later entries replace earlier ones at the same address */
} dz_jit_entry;

typedef struct dz_jit {
    dz_jit_entry *entries;
    size_t count, cap;
} dz_jit;

void dz_jit_close(dz_jit *jit);

/* Reads the map of a process, if there is one, and removes it when `remove`. */
void dz_jit_read(dz_jit *jit, dz_profile *profile, pid_t pid, bool remove);

/* The newest entry that holds the address; NULL. */
const dz_jit_entry *dz_jit_find(const dz_jit *jit, pid_t pid, uint64_t address);

#endif
