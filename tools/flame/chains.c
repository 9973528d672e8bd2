#include "chains.h"

#include <stdlib.h>

void dz_chains_close(dz_chains *c)
{
    free(c->links);
    dz_map_close(&c->map);
    *c = (dz_chains){0};
}

static uint32_t link_of(dz_chains *c, uint32_t caller, uint64_t address)
{
    uint64_t key = dz_map_mix(address, (uint64_t)caller + 1);
    uint32_t index;
    for (size_t at = SIZE_MAX; dz_map_next(&c->map, key, &at, &index);)
        if (c->links[index].address == address && c->links[index].caller == caller)
            return index;
    if (c->count == c->cap) {
        size_t cap = c->cap ? c->cap * 2 : 4096;
        dz_link *more = cap < UINT32_MAX ? reallocarray(c->links, cap, sizeof *more) : NULL;
        if (!more)
            return 0;
        c->links = more;
        c->cap = cap;
    }
    if (c->count == 0)
        c->links[c->count++] = (dz_link){0};
    if (!dz_map_put(&c->map, key, (uint32_t)c->count))
        return 0;
    c->links[c->count] = (dz_link){.address = address, .caller = caller};
    return (uint32_t)c->count++;
}

uint32_t dz_chains_add(dz_chains *c, const uint64_t *addresses, size_t depth)
{
    uint32_t at = 0;
    for (size_t i = depth; i-- > 0;) {
        at = link_of(c, at, addresses[i]);
        if (at == 0)
            break;
    }
    return at;
}

size_t dz_chains_read(const dz_chains *c, uint32_t chain, uint64_t *out, size_t cap)
{
    size_t n = 0;
    for (uint32_t at = chain; at && n < cap; at = c->links[at].caller)
        out[n++] = c->links[at].address;
    return n;
}
