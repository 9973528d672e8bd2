/* slice.h: a pointer and its length. Borrowed: a slice never owns what it shows. */
#ifndef DONMAZ_SLICE_H
#define DONMAZ_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct dz_slice {
    const char *ptr; /* not NUL-terminated; may be NULL when len is 0 */
    size_t len;      /* bytes */
} dz_slice;

/* A slice of a string literal. */
#define DZ_LIT(text) ((dz_slice){("" text), sizeof(text) - 1})

static inline dz_slice dz_slice_of(const char *text)
{
    return (dz_slice){text, text ? strlen(text) : 0};
}

static inline dz_slice dz_slice_make(const void *ptr, size_t len)
{
    return (dz_slice){(const char *)ptr, len};
}

static inline bool dz_slice_equal(dz_slice a, dz_slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/* Equal but for the case of ASCII letters, as header names compare (RFC 9110 5.1). */
static inline bool dz_slice_equal_nocase(dz_slice a, dz_slice b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++) {
        unsigned char x = (unsigned char)a.ptr[i], y = (unsigned char)b.ptr[i];
        x = (unsigned char)(x >= 'A' && x <= 'Z' ? x | 0x20 : x);
        y = (unsigned char)(y >= 'A' && y <= 'Z' ? y | 0x20 : y);
        if (x != y)
            return false;
    }
    return true;
}

#endif
