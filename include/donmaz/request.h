/* request.h: what a handler reads of a request.
 *
 * A dz_request is valid from the handler's start to its return, for that handler alone: calls that
 * wait or allocate fail (DZ_E_STATE, NULL, "") on another thread or in another request's handler.
 * All slices and strings it gives live exactly as long. */
#ifndef DONMAZ_REQUEST_H
#define DONMAZ_REQUEST_H

#include <donmaz/buf.h>
#include <donmaz/error.h>
#include <donmaz/export.h>
#include <donmaz/http.h>
#include <donmaz/log.h>
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

/* The request's id, the same in all its log lines: what the client sent as X-Request-Id (see
 * --request-id-header) if that is 1 to 128 letters, digits and -_.:/+=@; else one made here, which
 * no request of another process or another start has. "-" out of memory. */
DZ_API dz_slice dz_req_id(dz_request *req);
/* A number that no other request of this process has. */
DZ_API uint64_t dz_req_number(const dz_request *req);

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

/* --- logging ---
 *
 *     dz_log_info(req, "cache filled", dz_field_str("key", key), dz_field_int("n", n));
 *
 * logs a line with the request's id, and whatever was bound to it, to the app's logger; nothing
 * when there is none (the library without dz_run, or --log off). Fields are evaluated only when the
 * level is enabled. */
#define dz_log_trace(req, msg, ...) DZ_LOG_REQ_((req), DZ_LOG_TRACE, (msg), ##__VA_ARGS__)
#define dz_log_debug(req, msg, ...) DZ_LOG_REQ_((req), DZ_LOG_DEBUG, (msg), ##__VA_ARGS__)
#define dz_log_info(req, msg, ...)  DZ_LOG_REQ_((req), DZ_LOG_INFO, (msg), ##__VA_ARGS__)
#define dz_log_warn(req, msg, ...)  DZ_LOG_REQ_((req), DZ_LOG_WARN, (msg), ##__VA_ARGS__)
#define dz_log_error(req, msg, ...) DZ_LOG_REQ_((req), DZ_LOG_ERROR, (msg), ##__VA_ARGS__)

/* Adds fields to all later lines of the request, also to that of the request log; up to 2 KB.
 * DZ_E_NOMEM: some are missing. */
#define dz_log_bind(req, ...)                                                                      \
    dz_log_bind_fields((req), (const dz_field[]){__VA_ARGS__},                                     \
                       sizeof((const dz_field[]){__VA_ARGS__}) / sizeof(dz_field))

DZ_API int dz_log_bind_fields(dz_request *req, const dz_field *fields, size_t count);
DZ_API bool dz_log_req_enabled(const dz_request *req, int level);
DZ_API void dz_log_req_write(dz_request *req, int level, const char *msg, const dz_field *fields,
                             size_t count);
#define DZ_LOG_REQ_(req, level, msg, ...)                                                          \
    do {                                                                                           \
        if (dz_log_req_enabled(req, level))                                                        \
            dz_log_req_write(req, level, msg, (const dz_field[]){{0}, ##__VA_ARGS__},              \
                             sizeof((const dz_field[]){{0}, ##__VA_ARGS__}) / sizeof(dz_field));   \
    } while (0)

/* The app's logger, for lines without the request's id; NULL: none. */
DZ_API dz_logger *dz_req_logger(const dz_request *req);

/* Memory that lives as long as the request; NULL out of memory. Aligned, not zeroed. */
DZ_API void *dz_req_alloc(dz_request *req, size_t size);

#endif
