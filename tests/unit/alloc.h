/* alloc.h: an allocator that can be told to fail, for the calling thread alone. Link with
 * --wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=strndup. */
#ifndef DZ_TESTS_ALLOC_H
#define DZ_TESTS_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

/* Allocations that still succeed; below 0: any number. */
static _Thread_local int allocs_left = -1;

static inline bool alloc_fails(void)
{
    if (allocs_left == 0)
        return true;
    if (allocs_left > 0)
        allocs_left--;
    return false;
}

#define ALLOC_WRAP(type, name, parameters, arguments)                                              \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        return alloc_fails() ? NULL : __real_##name arguments;                                     \
    }

ALLOC_WRAP(void *, malloc, (size_t size), (size))
ALLOC_WRAP(void *, calloc, (size_t count, size_t size), (count, size))
ALLOC_WRAP(void *, realloc, (void *old, size_t size), (old, size))
ALLOC_WRAP(void *, aligned_alloc, (size_t align, size_t size), (align, size))
ALLOC_WRAP(char *, strndup, (const char *text, size_t len), (text, len))

/* Runs the statement with ever more allocations that succeed, until `done` holds after it; how many
 * it took. `failed` is what must hold after each other run. */
#define with_few_allocations(statement, done, failed)                                              \
    do {                                                                                           \
        for (int count_ = 0;; count_++) {                                                          \
            assert_true(count_ < 10000);                                                           \
            allocs_left = count_;                                                                  \
            statement;                                                                             \
            allocs_left = -1;                                                                      \
            if (done)                                                                              \
                break;                                                                             \
            assert_true(failed);                                                                   \
        }                                                                                          \
    } while (0)

#endif
