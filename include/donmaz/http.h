/* http.h: the vocabulary of HTTP that requests and responses share. */
#ifndef DONMAZ_HTTP_H
#define DONMAZ_HTTP_H

#include <donmaz/export.h>
#include <donmaz/slice.h>

#include <stdint.h>

/* X(name, token): the request methods with a number of their own. Values never change. */
#define DZ_METHODS(X)                                                                              \
    X(DZ_GET, "GET")                                                                               \
    X(DZ_HEAD, "HEAD")                                                                             \
    X(DZ_POST, "POST")                                                                             \
    X(DZ_PUT, "PUT")                                                                               \
    X(DZ_PATCH, "PATCH")                                                                           \
    X(DZ_DELETE, "DELETE")                                                                         \
    X(DZ_OPTIONS, "OPTIONS")                                                                       \
    X(DZ_CONNECT, "CONNECT")                                                                       \
    X(DZ_TRACE, "TRACE")

typedef enum dz_method {
#define X(name, token) name,
    DZ_METHODS(X)
#undef X
        DZ_OTHER, /* any other token; methods are case-sensitive, so `get` is one */
} dz_method;

/* A header field. In a request both slices show bytes of the request, the value without the white
 * space around it; they live as long as the request. */
typedef struct dz_header {
    dz_slice name, value;
} dz_header;

/* The token of `method`, such as "GET"; "" for DZ_OTHER. Static storage, thread-safe. */
DZ_API const char *dz_method_name(dz_method method);

/* The number of a method token; DZ_OTHER when it has none. Thread-safe. */
DZ_API dz_method dz_method_of(dz_slice token);

/* The reason phrase of a status code, such as "Not Found"; "" when the code has none registered.
 * Static storage, thread-safe. */
DZ_API const char *dz_status_reason(int status);

#endif
