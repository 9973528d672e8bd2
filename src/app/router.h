/* router.h: finds the route for a method and a path. No I/O; pattern.h tells what patterns are.
 *
 * Among the patterns that match a path, the one decided earliest from the left wins, and at each
 * segment: literal text, then parameters inside a segment (in order of registration), then a whole
 * parameter, then a wildcard. A pattern that lacks the method is passed over, so with
 * `POST /users/me` and `GET /users/:id`, `GET /users/me` finds the second.
 *
 * Paths are compared byte by byte, still percent-encoded; case matters. One trailing slash is
 * ignored, except in a wildcard's value. An empty segment ("//") matches only inside a wildcard.
 *
 * Building is for one thread; a router no longer changed may be searched by any number of threads
 * at once. A search allocates nothing and looks at each node of the tree at most once. */
#ifndef DZ_APP_ROUTER_H
#define DZ_APP_ROUTER_H

#include "app/pattern.h"

#include <donmaz/error.h>
#include <donmaz/slice.h>

#include <stdint.h>

/* Methods are small numbers, 0 to 14 (http.h names them). DZ_ANY registers for all of them: it is
 * taken when the pattern has no route for the method itself. */
enum { DZ_ANY = 15, DZ_ROUTER_METHODS = 16 };

typedef struct dz_router dz_router;

typedef struct dz_param {
    dz_slice name;  /* lives as long as the router */
    dz_slice value; /* a part of the path, still percent-encoded: decode before use */
} dz_param;

typedef struct dz_route_match {
    void *route;      /* as given to dz_router_add */
    uint32_t allowed; /* bit m: the path exists for method m. Complete when nothing was found. */
    uint8_t param_count;
    dz_param params[DZ_PATTERN_PARAMS]; /* in the order of the pattern */
} dz_route_match;

/* NULL out of memory. */
dz_router *dz_router_new(void);
void dz_router_free(dz_router *router); /* not the routes; NULL is fine */

/* `pattern` is copied; `route` (not NULL) stays the caller's. Two patterns may name the parameters
 * at one place differently. DZ_E_INVALID: bad pattern, method or route; DZ_E_EXISTS: the method has
 * a pattern of this shape; DZ_E_NOMEM. After an error the router matches what it did before. */
int dz_router_add(dz_router *router, unsigned method, const char *pattern, void *route);

/* `path` starts with '/' and has no query; it must outlive the match's use. 0: found.
 * DZ_E_NOT_FOUND: match->allowed tells 404 (0) from 405 (the methods for Allow). */
int dz_router_find(const dz_router *router, unsigned method, dz_slice path, dz_route_match *match);

#endif
