/* demangle.h: shared by demangle.c, rust_legacy.c and rust_v0.c. */
#ifndef DZ_FLAME_DEMANGLE_H
#define DZ_FLAME_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct dz_sink {
    char *out; /* always ended by NUL */
    size_t len, cap;
} dz_sink;

static inline void dz_sink_put(dz_sink *s, const char *text, size_t len)
{
    for (size_t i = 0; i < len && s->len + 1 < s->cap; i++)
        s->out[s->len++] = text[i];
    s->out[s->len] = 0;
}

/* A name that begins with _ZN; false when it is not Rust's. */
bool dz_demangle_rust_legacy(const char *name, dz_sink *out);

/* A name that begins with _R; false, and nothing put, when it is none. */
bool dz_demangle_rust_v0(const char *name, dz_sink *out);

#endif
