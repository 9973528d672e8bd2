/* cookie.h: the Cookie field of a request (RFC 6265 4.2 and, for what clients really send, 5.4). */
#ifndef DZ_HTTP_COOKIE_H
#define DZ_HTTP_COOKIE_H

#include <donmaz/slice.h>

/* Takes the next cookie off *field (a Cookie field's value). Quotes around a value are dropped; the
 * value is not decoded. Pairs with no '=', with a name that is no token or with a byte in the value
 * that may not be there are passed over: a browser sends along what any site of the domain has set,
 * so one bad cookie must not cost the others. False at the end. */
bool dz_cookie_next(dz_slice *field, dz_slice *name, dz_slice *value);

/* The first cookie of that name (case-sensitive). False when there is none. */
bool dz_cookie_find(dz_slice field, dz_slice name, dz_slice *value);

#endif
