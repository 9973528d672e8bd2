/* request.h: what a handler reads of a request.
 *
 * A dz_request is valid from the handler's start to its return, on the handler's thread alone. All
 * slices and strings it gives live exactly as long. */
#ifndef DONMAZ_REQUEST_H
#define DONMAZ_REQUEST_H

#include <donmaz/buf.h>
#include <donmaz/error.h>
#include <donmaz/export.h>
#include <donmaz/http.h>
#include <donmaz/slice.h>

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct dz_request dz_request;
struct dz_pool;
struct json_t;

/* The method, and its text as sent. */
DZ_API dz_method dz_req_method(const dz_request *req);
DZ_API dz_slice dz_req_method_text(const dz_request *req);

/* The path as sent: percent-encoded, without the query. */
DZ_API dz_slice dz_req_path(const dz_request *req);

/* The route's pattern, such as "/users/:id"; "" when no route matched. */
DZ_API const char *dz_req_pattern(const dz_request *req);

/* A parameter of the route's pattern, percent-decoded; .ptr NULL when the pattern has none of that
 * name. A parameter with a bad escape was answered 400 before the handler. */
DZ_API dz_slice dz_req_param(dz_request *req, const char *name);

/* The first value of a query key, decoded; .ptr NULL when absent or badly escaped; "" when the key
 * has no value. */
DZ_API dz_slice dz_req_query(dz_request *req, const char *key);
/* The query as sent, without '?'. */
DZ_API dz_slice dz_req_query_text(const dz_request *req);

/* The first header field of that name (any case); .ptr NULL when absent. */
DZ_API dz_slice dz_req_header(const dz_request *req, const char *name);
/* Header fields in the order received; *count is set. */
DZ_API const dz_header *dz_req_headers(const dz_request *req, size_t *count);

/* A cookie's value; .ptr NULL when absent. */
DZ_API dz_slice dz_req_cookie(const dz_request *req, const char *name);

/* The cookie at `index`, in the order sent; false past the last. */
DZ_API bool dz_req_cookie_at(const dz_request *req, size_t index, dz_slice *name, dz_slice *value);

/* The client's address as text, such as "127.0.0.1" or "::1"; "unix" for a unix socket; "" when the
 * connection is closed already. May park. */
DZ_API const char *dz_req_ip(dz_request *req);

/* A number that no other request of this process has. */
DZ_API uint64_t dz_req_id(const dz_request *req);

/* The whole body, read now if it was not yet; parks until it has arrived. Errors:
 *   DZ_E_TOO_LARGE  above the route's limit (answered 413 unless the handler answers)
 *   DZ_E_PROTOCOL   malformed (400)       DZ_E_TIMEOUT  too slow (408)
 *   DZ_E_CLOSED     the client went away  DZ_E_NOMEM
 *   DZ_E_STATE      part of it was read by dz_req_read */
DZ_API int dz_req_body(dz_request *req, dz_slice *body);

/* As dz_req_body, but the memory becomes the caller's: an owning buffer, read straight from the
 * socket, that can be transferred to a pool. */
DZ_API int dz_req_take_body(dz_request *req, dz_buf *body);

/* As dz_req_take_body, in memory of the kind that the workers of `pool` take without a copy: with
 * DZ_PROCESSES that is shared memory. Where the kernel has none left it is ordinary memory, which
 * the worker copies. */
DZ_API int dz_req_take_body_for(dz_request *req, const struct dz_pool *pool, dz_buf *body);

/* Reads up to `cap` bytes of the body, parking until there are some. 0: the end. Errors as above.
 */
DZ_API ssize_t dz_req_read(dz_request *req, void *out, size_t cap);

/* The body parsed as JSON by jansson. *json is the caller's: json_decref. DZ_E_FORMAT: not JSON. */
DZ_API int dz_req_json(dz_request *req, struct json_t **json);

/* Whether the client has gone: nobody will read the response. Cheap; callable from long loops. */
DZ_API bool dz_req_gone(const dz_request *req);

/* Values that middleware leaves for what runs after it. `name` must outlive the request (a
 * literal). Set again replaces. DZ_E_NOMEM. */
DZ_API int dz_req_set(dz_request *req, const char *name, void *value);
DZ_API void *dz_req_get(const dz_request *req, const char *name);

/* What dz_app_set_data was given. */
DZ_API void *dz_req_data(const dz_request *req);

/* Memory that lives as long as the request; NULL out of memory. Aligned, not zeroed. */
DZ_API void *dz_req_alloc(dz_request *req, size_t size);

#endif
