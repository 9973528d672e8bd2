/* response.h: how a handler answers.
 *
 * A response is sent whole by one dz_send_* call, or streamed by dz_stream, dz_write and dz_end.
 * A handler that returns without answering has its response completed with 500. All calls are for
 * the request's own handler: another thread, or another request's handler, gets DZ_E_STATE and
 * changes nothing. They return 0, or
 *   DZ_E_STATE    already answered           DZ_E_INVALID  a status or header that may not be sent
 *   DZ_E_NOMEM    DZ_E_CLOSED  the client is gone (streams only: a whole response is just dropped)
 */
#ifndef DONMAZ_RESPONSE_H
#define DONMAZ_RESPONSE_H

#include <donmaz/buf.h>
#include <donmaz/error.h>
#include <donmaz/export.h>
#include <donmaz/slice.h>

#include <stdbool.h>
#include <stdint.h>

typedef struct dz_response dz_response;

/* Sets a header field, replacing one of that name (any case); both strings are copied.
 * Content-Length, Transfer-Encoding, Connection and Date are the library's: DZ_E_INVALID. */
DZ_API int dz_res_header(dz_response *res, const char *name, const char *value);
DZ_API int dz_res_header_slice(dz_response *res, dz_slice name, dz_slice value);
/* Adds one even if the name is there already, as Set-Cookie needs. */
DZ_API int dz_res_add_header(dz_response *res, const char *name, const char *value);

/* Whether something was sent, and with which status (0: nothing yet). */
DZ_API bool dz_res_sent(const dz_response *res);
DZ_API int dz_res_status(const dz_response *res);

/* text/plain; charset=utf-8. `text` is copied. */
DZ_API int dz_send_text(dz_response *res, int status, const char *text);

/* Any bytes with a content type (NULL: none). The bytes are copied, unless they are long and belong
 * to the request (its body, dz_req_alloc): see dz_send_borrowed. */
DZ_API int dz_send_bytes(dz_response *res, int status, const char *type, dz_slice bytes);

/* As dz_send_bytes without a copy: `bytes` must stay as they are until the response is written,
 * which only memory of the request itself or static memory does. */
DZ_API int dz_send_borrowed(dz_response *res, int status, const char *type, dz_slice bytes);

/* Sends a buffer without a copy; *body is empty afterwards, also on error. */
DZ_API int dz_send_buf(dz_response *res, int status, const char *type, dz_buf *body);

/* application/json from a printf-like format that knows JSON (dz_json_format): %s is a whole string
 * with its quotes, escaped; inside quotes it is escaped text. No argument can break out of its
 * place. DZ_E_INVALID: a conversion that it does not have. */
DZ_API int dz_send_json(dz_response *res, int status, const char *fmt, ...) DZ_PRINTF(3, 4);

/* A status with the body {"error": reason, "message": text of `error`}; `error` 0: no message. */
DZ_API int dz_send_error(dz_response *res, int status, int error);

/* Only a status, no body. */
DZ_API int dz_send_status(dz_response *res, int status);

/* 302, or another 3xx, with Location. */
DZ_API int dz_redirect(dz_response *res, int status, const char *location);

/* Streams: begins a response whose body follows in pieces (chunked on HTTP/1.1). dz_write parks
 * while the client reads too slowly, so a stream needs bounded memory. The handler's return ends
 * it. */
DZ_API int dz_stream(dz_response *res, int status, const char *type);
DZ_API int dz_write(dz_response *res, dz_slice bytes);
DZ_API int dz_end(dz_response *res);

#endif
