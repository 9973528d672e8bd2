/* symbols.h: what code is at an address of a process: ELF symbols and DWARF lines through elfutils,
 * and the maps that just-in-time compilers write (/tmp/perf-PID.map). One thread at a time.
 *
 * Times are the samples' (ns, CLOCK_MONOTONIC); 0 is "since ever". Processes are told apart over
 * time by their image (images.h). */
#ifndef DZ_FLAME_SYMBOLS_H
#define DZ_FLAME_SYMBOLS_H

#include "cfi.h"
#include "images.h"
#include "profile.h"

typedef struct dz_symbols dz_symbols;

/* NULL out of memory. Frames are made in `profile`, which must outlive it. */
dz_symbols *dz_symbols_new(dz_profile *profile);
void dz_symbols_free(dz_symbols *symbols);

/* A process maps a file's code; forks; runs another program. */
void dz_symbols_map(dz_symbols *symbols, const dz_mapped *mapped);
void dz_symbols_fork(dz_symbols *symbols, pid_t pid, pid_t parent, uint64_t at);
void dz_symbols_exec(dz_symbols *symbols, pid_t pid, uint64_t at);

/* Reads what a running process has mapped. */
void dz_symbols_read_maps(dz_symbols *symbols, pid_t pid);

/* Reads a JIT's map of a process, if there is one, and removes it when `remove`. */
void dz_symbols_read_jit(dz_symbols *symbols, pid_t pid, bool remove);

/* What the process ran at that time; DZ_NO_IMAGE when it is not known. */
uint32_t dz_symbols_image(const dz_symbols *symbols, pid_t pid, uint64_t at);

typedef struct dz_place {
    uint32_t frame; /* of the profile */
    bool jit;       /* code made at run time */
    bool mapped;    /* there is code at the address */
    bool known;     /* has a name */
} dz_place;

/* An address in the upper half is the kernel's. */
dz_place dz_symbols_find(dz_symbols *symbols, uint32_t image, uint64_t address, uint64_t at);

typedef struct dz_found_rule {
    bool mapped; /* there is code at the address */
    const dz_cfi *cfi;
    const dz_cfi_rule *rule; /* NULL: nothing is told of it; valid until the next call */
} dz_found_rule;

dz_found_rule dz_symbols_rule(dz_symbols *symbols, uint32_t image, uint64_t address, uint64_t at);

/* Counts a sample for the file at its innermost address. */
void dz_symbols_count(dz_symbols *symbols, uint32_t image, uint64_t address, uint64_t at,
                      bool known);

/* The file that most nameless samples were in, when they are more than `share` of all, and why it
 * has no names; NULL when there is none. */
const char *dz_symbols_nameless(dz_symbols *symbols, double share, const char **why);

/* Rust's mangled names (both schemes), C++'s and Go's as people write them; others are copied.
 * Returns `out`. */
const char *dz_demangle(const char *name, char *out, size_t cap);

#endif
