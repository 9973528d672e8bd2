/* arena.h: memory that is freed all at once, such as what one request needs.
 *
 * The first block is part of whatever holds the arena (or given by it), so small requests never
 * call malloc; later blocks double in size. One thread at a time. */
#ifndef DZ_BASE_ARENA_H
#define DZ_BASE_ARENA_H

#include <donmaz/slice.h>

#include <stdarg.h>
#include <stddef.h>

typedef struct dz_arena_block dz_arena_block;

typedef struct dz_arena {
    char *next, *end;       /* free room in the current block */
    dz_arena_block *blocks; /* blocks from malloc, newest first */
    size_t block_size;      /* size of the next block */
    char *first;            /* the given first block, kept by reset */
    size_t first_size;
} dz_arena;

/* `first` (may be NULL) of `size` bytes belongs to the caller and must outlive the arena. */
void dz_arena_init(dz_arena *arena, void *first, size_t size);

/* Memory aligned for any type, not zeroed; NULL out of memory. Valid until reset. */
void *dz_arena_alloc(dz_arena *arena, size_t size);

/* A NUL-terminated copy; NULL out of memory. */
char *dz_arena_strndup(dz_arena *arena, const char *text, size_t len);

/* Formats into the arena, NUL-terminated; .ptr NULL out of memory. */
dz_slice dz_arena_vprintf(dz_arena *arena, const char *fmt, va_list args)
    __attribute__((format(printf, 2, 0)));

/* Frees everything allocated; the arena is as after init. */
void dz_arena_reset(dz_arena *arena);

#endif
