/* map.h: hash map from a 64-bit hash or key to a 32-bit index, open addressing. Keys that may
 * collide (hashes) are told apart by the caller, who goes on to the next match. */
#ifndef DZ_FLAME_MAP_H
#define DZ_FLAME_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct dz_map_slot {
    uint64_t key;
    uint32_t value; /* index + 1; 0: free */
} dz_map_slot;

typedef struct dz_map {
    dz_map_slot *slots;
    size_t count, cap; /* cap is a power of two */
} dz_map;

void dz_map_close(dz_map *map);

/* False out of memory: the map is unchanged. */
bool dz_map_put(dz_map *map, uint64_t key, uint32_t index);

/* Walks the indices stored under `key`: start with *at = SIZE_MAX; false when there are no more. */
bool dz_map_next(const dz_map *map, uint64_t key, size_t *at, uint32_t *index);

static inline uint64_t dz_map_mix(uint64_t a, uint64_t b)
{
    uint64_t h = (a ^ (b * UINT64_C(0x9e3779b97f4a7c15))) * UINT64_C(0xbf58476d1ce4e5b9);
    h ^= h >> 29;
    h *= UINT64_C(0x94d049bb133111eb);
    return h ^ (h >> 32);
}

#endif
