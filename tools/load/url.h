/* url.h: the part of URLs that a load generator needs. */
#ifndef DZ_LOAD_URL_H
#define DZ_LOAD_URL_H

#include <donmaz/slice.h>

#include <stdbool.h>
#include <stdint.h>

typedef struct load_url {
    bool tls;
    dz_slice host;        /* IPv6 without brackets; empty when the text began with '/' */
    dz_slice port;        /* empty: the scheme's own */
    dz_slice path;        /* with the query, without the fragment; empty means "/" */
    uint64_t connections; /* from an "@N" at the end; 0: none */
} load_url;

/* Parses http://host[:port][/path][@N], https://..., host[:port]/path (http), or /path. The slices
 * point into text. 0, or DZ_E_INVALID with the reason in *why (static). */
int load_url_parse(const char *text, load_url *out, const char **why);

/* The URL with a host and port filled in and without "@N"; NULL when memory ran out. Free it. */
char *load_url_print(const load_url *url);

#endif
