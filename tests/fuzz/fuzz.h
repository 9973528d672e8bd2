/* fuzz.h: what every fuzz target shares. A target aborts when a property does not hold. */
#ifndef DZ_TESTS_FUZZ_H
#define DZ_TESTS_FUZZ_H

#include <donmaz/slice.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Unlike assert, never compiled out. */
#define HOLDS(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);         \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* A copy of exactly len bytes, so that the address sanitizer sees any read beyond them. */
static inline char *fuzz_copy(const void *bytes, size_t len)
{
    char *copy = malloc(len ? len : 1);
    HOLDS(copy);
    if (len > 0)
        memcpy(copy, bytes, len);
    return copy;
}

/* Whether part lies in bytes[0..len), or shows nothing. */
static inline bool fuzz_within(dz_slice part, const char *bytes, size_t len)
{
    if (part.len == 0)
        return true;
    uintptr_t start = (uintptr_t)bytes, at = (uintptr_t)part.ptr;
    return at >= start && at - start <= len && part.len <= len - (at - start);
}

#endif
