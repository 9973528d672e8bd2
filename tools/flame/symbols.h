/* symbols.h: what code is at an address: ELF symbols and DWARF lines through elfutils, and the maps
 * that just-in-time compilers write (/tmp/perf-PID.map). One thread at a time. */
#ifndef DZ_FLAME_SYMBOLS_H
#define DZ_FLAME_SYMBOLS_H

#include "profile.h"

typedef struct dz_symbols dz_symbols;

/* NULL out of memory. Frames are made in `profile`, which must outlive it. */
dz_symbols *dz_symbols_new(dz_profile *profile);
void dz_symbols_free(dz_symbols *symbols);

/* A process maps a file's code; forks; runs another program. */
void dz_symbols_map(dz_symbols *symbols, pid_t pid, uint64_t start, uint64_t length,
                    uint64_t offset, const char *name);
void dz_symbols_fork(dz_symbols *symbols, pid_t pid, pid_t parent);
void dz_symbols_exec(dz_symbols *symbols, pid_t pid);

/* Reads what a running process has mapped. */
void dz_symbols_read_maps(dz_symbols *symbols, pid_t pid);

/* Reads a JIT's map of a process, if there is one, and removes it when `remove`. */
void dz_symbols_read_jit(dz_symbols *symbols, pid_t pid, bool remove);

typedef struct dz_place {
    uint32_t frame; /* of the profile */
    bool jit;       /* code made at run time */
    bool known;     /* has a name */
} dz_place;

dz_place dz_symbols_find(dz_symbols *symbols, pid_t pid, uint64_t address, bool kernel);

/* Rust's mangled names (both schemes) and Go's escapes as people write them; others are copied.
 * Returns `out`. */
const char *dz_demangle(const char *name, char *out, size_t cap);

#endif
