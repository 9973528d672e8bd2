/* negotiate.h: fields by which a client says what it takes or has: Accept-Encoding and its kin,
 * If-Match and If-None-Match. */
#ifndef DZ_HTTP_NEGOTIATE_H
#define DZ_HTTP_NEGOTIATE_H

#include <donmaz/slice.h>

/* The weight, 0 to 1000, that `field` (an Accept-Encoding value) gives a content coding (RFC 9110
 * 12.5.3): its own entry, else that of "*", else 0; "identity" is taken unless refused. An entry
 * with a malformed weight counts as refused. An empty field allows only identity. */
int dz_accept_encoding(dz_slice field, dz_slice coding);

/* Whether `etag` (quoted, perhaps W/"...") is in the list `field`, or the list is "*". `weak`
 * compares as If-None-Match does, else as If-Match does: a weak tag then never matches (RFC 9110
 * 8.8.3.2). What is malformed ends the list. */
bool dz_etag_match(dz_slice field, dz_slice etag, bool weak);

#endif
