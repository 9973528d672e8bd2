#include "base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { ALIGN = _Alignof(max_align_t), FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20 };

struct dz_arena_block {
    dz_arena_block *older;
    _Alignas(max_align_t) char bytes[];
};

void dz_arena_init(dz_arena *arena, void *first, size_t size)
{
    *arena = (dz_arena){.next = first,
                        .end = first ? (char *)first + size : NULL,
                        .block_size = FIRST_BLOCK,
                        .first = first,
                        .first_size = size};
}

static void *alloc_in_new_block(dz_arena *arena, size_t size)
{
    size_t room = size > arena->block_size ? size : arena->block_size;
    if (room > SIZE_MAX - sizeof(dz_arena_block))
        return NULL;
    dz_arena_block *block = malloc(sizeof *block + room);
    if (!block)
        return NULL;
    block->older = arena->blocks;
    arena->blocks = block;
    if (arena->block_size < LARGEST_BLOCK)
        arena->block_size *= 2;
    /* A block made for one large piece must not throw away the room left in the current one. */
    if (room - size > (size_t)(arena->end - arena->next)) {
        arena->next = block->bytes + size;
        arena->end = block->bytes + room;
    }
    return block->bytes;
}

void *dz_arena_alloc(dz_arena *arena, size_t size)
{
    if (size > SIZE_MAX - ALIGN)
        return NULL;
    size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    size_t skew = (size_t)(-(uintptr_t)arena->next) & (ALIGN - 1);
    size_t room = (size_t)(arena->end - arena->next);
    if (skew > room || size > room - skew)
        return alloc_in_new_block(arena, size);
    char *at = arena->next + skew;
    arena->next = at + size;
    return at;
}

char *dz_arena_strndup(dz_arena *arena, const char *text, size_t len)
{
    if (len == SIZE_MAX)
        return NULL;
    char *copy = dz_arena_alloc(arena, len + 1);
    if (!copy)
        return NULL;
    if (len > 0)
        memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

dz_slice dz_arena_vprintf(dz_arena *arena, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    size_t room = (size_t)(arena->end - arena->next);
    int len = vsnprintf(arena->next, room, fmt, args);
    dz_slice out = {NULL, 0};
    if (len < 0)
        goto done;
    char *text = dz_arena_alloc(arena, (size_t)len + 1);
    if (!text)
        goto done;
    vsnprintf(text, (size_t)len + 1, fmt, again);
    out = dz_slice_make(text, (size_t)len);
done:
    va_end(again);
    return out;
}

void dz_arena_reset(dz_arena *arena)
{
    dz_arena_block *block = arena->blocks;
    while (block) {
        dz_arena_block *older = block->older;
        free(block);
        block = older;
    }
    dz_arena_init(arena, arena->first, arena->first_size);
}
