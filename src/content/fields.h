/* fields.h: header fields of requests and responses, as this layer needs them. */
#ifndef DZ_CONTENT_FIELDS_H
#define DZ_CONTENT_FIELDS_H

#include "content/preconditions.h"
#include "http/request.h"

/* A list-valued field of the request as if sent once: several are joined with commas (RFC 9110
 * 5.3). .ptr NULL: absent; also when memory is out and it came more than once. */
dz_slice dz_content_list(dz_request *req, const char *name);

/* A field of the response so far; .ptr NULL: not set. */
dz_slice dz_content_get(const dz_response *res, const char *name);

/* Takes a field off the response. */
void dz_content_remove(dz_response *res, const char *name);

/* Adds `Vary: Accept-Encoding` unless it is said already. DZ_E_NOMEM. */
int dz_content_vary(dz_response *res);

void dz_content_conditions(dz_request *req, dz_conditions *conditions);

/* The validators that the response has so far. */
void dz_content_validators(const dz_response *res, bool exists, dz_validators *validators);

/* Makes the response a 304: takes off what a 304 has no business with (RFC 9110 15.4.5). */
void dz_content_not_modified(dz_response *res);

/* Takes off what describes a body that is not sent after all. */
void dz_content_forget_body(dz_response *res);

int64_t dz_content_now(void); /* seconds since 1970 */

#endif
