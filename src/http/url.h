/* url.h: percent-encoding, paths and queries (RFC 3986; queries as HTML forms write them).
 *
 * Decisions:
 *  - A bad escape (%zz, a cut %4) is an error, never taken as text; %00 is one too.
 *  - Routes match the path as sent, segment by segment, and decode each parameter after it was cut
 *    out. So %2F is a byte of a parameter, never a separator, and `..` in a route has no meaning:
 *    clients resolve it before they send.
 *  - Where a path names a file, dz_path_clean decodes it, resolves `.` and `..`, drops empty
 *    segments, and refuses what could name something else: `..` above the root, a decoded slash or
 *    backslash.
 *  - In a query + is a space; in a path it is itself. */
#ifndef DZ_HTTP_URL_H
#define DZ_HTTP_URL_H

#include <donmaz/error.h>
#include <donmaz/slice.h>

/* Decodes into out[0..text.len), which may be text's own memory. `plus`: + becomes a space.
 * Returns the decoded length, or DZ_E_FORMAT. */
int dz_percent_decode(char *out, dz_slice text, bool plus);

/* Whether decoding would change anything: false for most text, which can then be used as it is. */
bool dz_percent_needed(dz_slice text, bool plus);

/* A decoded, resolved path for file names: begins with '/', ends with one only when `path` names a
 * folder that way. out has room for path.len + 1 bytes. Returns the length, or DZ_E_FORMAT. */
int dz_path_clean(char *out, dz_slice path);

/* Takes the next key and value off *query, both still encoded; empty pairs are passed over. A key
 * without '=' has a value with ptr NULL. False at the end. */
bool dz_query_next(dz_slice *query, dz_slice *key, dz_slice *value);

/* The first value, still encoded, of the key that decodes to `key`. False when there is none. A
 * pair whose key has a bad escape matches nothing. */
bool dz_query_find(dz_slice query, dz_slice key, dz_slice *value);

#endif
