/* chains.h: chains of addresses, each distinct one kept once, so that memory grows with the number
 * of different stacks and not with the length of the recording. One thread at a time. */
#ifndef DZ_FLAME_CHAINS_H
#define DZ_FLAME_CHAINS_H

#include "map.h"

typedef struct dz_link {
    uint64_t address;
    uint32_t caller; /* 0: none */
} dz_link;

typedef struct dz_chains {
    dz_link *links; /* the first is no link */
    size_t count, cap;
    dz_map map;
} dz_chains;

void dz_chains_close(dz_chains *chains);

/* The chain of these addresses, innermost first; 0 out of memory or when there are none. */
uint32_t dz_chains_add(dz_chains *chains, const uint64_t *addresses, size_t depth);

/* Writes at most `cap` addresses of a chain, innermost first; how many. */
size_t dz_chains_read(const dz_chains *chains, uint32_t chain, uint64_t *out, size_t cap);

#endif
