/* rust_v0.h: Rust's newer name scheme (RFC 2603, "v0"), as the reference shows names in short:
 * hashes of crates and types of constants are left out.
 *
 * A recursive descent over the grammar that prints as it goes. Back references go to an earlier
 * place of the name, so depth and length are bounded. Private to rust_v0*.c: rust_v0.c        paths
 * and types rust_v0_const.c  constants rust_v0_read.c   letters, numbers, identifiers
 *   rust_v0_print.c  text, Punycode, quotes */
#ifndef DZ_FLAME_RUST_V0_H
#define DZ_FLAME_RUST_V0_H

#include "demangle.h"

typedef struct dz_v0 {
    const char *name; /* without the prefix: what back references count in */
    size_t len, at;
    unsigned depth;
    uint64_t bound; /* lifetimes named by the binders around */
    bool bad, silent;
    dz_sink *out;
} dz_v0;

typedef struct dz_v0_ident {
    const char *text;
    size_t len;
    bool punycode;
} dz_v0_ident;

/* Reading. What does not fit the grammar sets `bad`. */
char dz_v0_peek(const dz_v0 *p);
bool dz_v0_eat(dz_v0 *p, char c);
char dz_v0_next(dz_v0 *p);
uint64_t dz_v0_base62(dz_v0 *p); /* "_" is 0, "0_" is 1 */
uint64_t dz_v0_optional(dz_v0 *p,
                        char tag); /* 0 when it is not there, else one more than its number */
dz_v0_ident dz_v0_read_ident(dz_v0 *p);

/* Hexadecimal digits up to "_", and their value where it fits. */
void dz_v0_hex(dz_v0 *p, uint64_t *small, dz_v0_ident *hex);

/* Printing: nothing while silent. */
void dz_v0_text(dz_v0 *p, const char *text);
void dz_v0_bytes(dz_v0 *p, const char *bytes, size_t len);
void dz_v0_number(dz_v0 *p, uint64_t n);
void dz_v0_ident_text(dz_v0 *p, const dz_v0_ident *ident);
void dz_v0_lifetime(dz_v0 *p, uint64_t index);
void dz_v0_quoted(dz_v0 *p, uint32_t c, char quote);

/* Grammar. dz_v0_enter is false when there are too many inside each other, or the output is full:
 * nothing is gained then. Each that entered lessens depth when it is done. */
bool dz_v0_enter(dz_v0 *p);
void dz_v0_back(dz_v0 *p, void (*what)(dz_v0 *p)); /* runs `what` at an earlier place */
size_t dz_v0_list(dz_v0 *p, void (*item)(dz_v0 *p), const char *between); /* up to "E"; how many */
void dz_v0_path(dz_v0 *p, bool value);
void dz_v0_type(dz_v0 *p);
void dz_v0_constant(dz_v0 *p);

#endif
