#include "map.h"

#include <stdlib.h>

void dz_map_close(dz_map *map)
{
    free(map->slots);
    *map = (dz_map){0};
}

static void place(dz_map *map, uint64_t key, uint32_t value)
{
    size_t mask = map->cap - 1, i = (size_t)dz_map_mix(key, 1) & mask;
    while (map->slots[i].value)
        i = (i + 1) & mask;
    map->slots[i] = (dz_map_slot){key, value};
}

static bool grow(dz_map *map)
{
    dz_map bigger = {.cap = map->cap ? map->cap * 2 : 64, .count = map->count};
    bigger.slots = calloc(bigger.cap, sizeof *bigger.slots);
    if (!bigger.slots)
        return false;
    for (size_t i = 0; i < map->cap; i++)
        if (map->slots[i].value)
            place(&bigger, map->slots[i].key, map->slots[i].value);
    free(map->slots);
    *map = bigger;
    return true;
}

bool dz_map_put(dz_map *map, uint64_t key, uint32_t index)
{
    if ((map->count + 1) * 3 > map->cap * 2 && !grow(map))
        return false;
    place(map, key, index + 1);
    map->count++;
    return true;
}

bool dz_map_next(const dz_map *map, uint64_t key, size_t *at, uint32_t *index)
{
    if (map->cap == 0)
        return false;
    size_t mask = map->cap - 1;
    size_t i = *at == SIZE_MAX ? (size_t)dz_map_mix(key, 1) & mask : (*at + 1) & mask;
    for (; map->slots[i].value; i = (i + 1) & mask)
        if (map->slots[i].key == key) {
            *at = i;
            *index = map->slots[i].value - 1;
            return true;
        }
    return false;
}
