/* conditional.h: conditional requests (RFC 9110 13): a client that has a copy already is answered
 * 304 without a body, and one that would overwrite somebody else's change 412.
 *
 * A handler names what it is about to send with dz_res_etag or dz_res_last_modified. Then either
 *   - dz_preconditions decides before the work is done, and before anything is changed, or
 *   - the middleware dz_conditional decides when the response is about to be sent: enough for GET.
 * Calls are for the handler's thread. */
#ifndef DONMAZ_CONDITIONAL_H
#define DONMAZ_CONDITIONAL_H

#include <donmaz/export.h>
#include <donmaz/request.h>
#include <donmaz/response.h>

/* Sets ETag. `opaque` is what stands between the quotes: any visible bytes but the quote, copied.
 * A strong tag changes with every byte of the body; a weak one with its meaning only.
 * DZ_E_INVALID, DZ_E_STATE (already answered), DZ_E_NOMEM. */
DZ_API int dz_res_etag(dz_response *res, dz_slice opaque, bool weak);

/* Sets Last-Modified; seconds since 1970, UTC. Errors as dz_res_etag. */
DZ_API int dz_res_last_modified(dz_response *res, int64_t seconds);

/* Whether the handler should go on, by If-Match, If-Unmodified-Since, If-None-Match and
 * If-Modified-Since in the order of RFC 9110 13.2.2. False: 304 or 412 is sent, and it should
 * return. Compares with the ETag and Last-Modified set so far; `exists`: whether the resource does
 * (If-None-Match: * guards a PUT that must only create). Call it before anything is changed. */
DZ_API bool dz_preconditions(dz_request *req, dz_response *res, bool exists);

/* Middleware: answers GET and HEAD with 304 or 412 where the response, about to be sent with 2xx,
 * shows that it applies. A response without an ETag gets a strong one, a hash of its body (XXH3,
 * 128 bits); streamed responses have no body yet, and only the handler's own validators count.
 * The handler has run by then: this saves bytes, not work. */
DZ_API void dz_conditional(dz_request *req, dz_response *res);

/* The same with weak computed tags, for bodies that mean the same though their bytes differ. */
DZ_API void dz_conditional_weak(dz_request *req, dz_response *res);

#endif
