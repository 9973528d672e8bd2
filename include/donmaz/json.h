/* json.h: writes JSON text straight into a growing buffer, without building a tree first.
 *
 *     dz_buf out = {0};
 *     dz_json json;
 *     dz_json_init(&json, &out, 0);
 *     dz_json_object_open(&json);
 *     dz_json_key(&json, "name");
 *     dz_json_string(&json, name);
 *     dz_json_object_close(&json);
 *     int rc = dz_json_finish(&json);
 *
 * Commas, colons and nesting are the writer's business. Errors stick: after the first one nothing
 * more is written, and finish returns it, so no call in between needs a check. What was written
 * before an error is not valid JSON; throw it away.
 *
 * A writer is used by one thread at a time. Reading JSON is jansson's job. */
#ifndef DONMAZ_JSON_H
#define DONMAZ_JSON_H

#include <donmaz/buf.h>
#include <donmaz/error.h>
#include <donmaz/export.h>
#include <donmaz/slice.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    DZ_JSON_STRICT_UTF8 = 1, /* malformed UTF-8 is DZ_E_FORMAT; otherwise it becomes U+FFFD */
};

enum { DZ_JSON_DEPTH = 64 }; /* arrays and objects inside one another */

/* Gives *out room for at least `cap` bytes, keeping its first out->len. Returns 0 or an error. */
typedef int dz_json_grow(dz_buf *out, size_t cap, void *context);

/* To be created by dz_json_init; its fields are private. It holds no resources of its own. */
typedef struct dz_json {
    dz_buf *out;
    dz_json_grow *grow;
    void *context;
    uint64_t objects; /* bit d: the structure at depth d is an object */
    unsigned depth, options;
    int error;
    bool comma;     /* something stands before at this level */
    bool after_key; /* a key waits for its value */
} dz_json;

/* Appends to *out, which must be empty or owning, and outlive the writer. Between two calls the
 * caller may take bytes out of it (set len to 0), so a document need not fit into memory.
 * `options`: 0 or DZ_JSON_STRICT_UTF8. */
DZ_API void dz_json_init(dz_json *json, dz_buf *out, unsigned options);

/* The same for memory of another kind, such as an arena: `grow` replaces dz_buf_reserve, and *out
 * may start with memory that only the caller knows how to free. */
DZ_API void dz_json_init_grow(dz_json *json, dz_buf *out, unsigned options, dz_json_grow *grow,
                              void *context);

/* 0 when exactly one complete value was written; else the first error:
 * DZ_E_NOMEM; DZ_E_STATE: calls out of order (a value without key in an object, a key elsewhere,
 * closing what is not open, more or less than one value); DZ_E_TOO_LARGE: deeper than
 * DZ_JSON_DEPTH; DZ_E_FORMAT: malformed UTF-8; DZ_E_INVALID: bad format text; DZ_E_NOT_OWNED: the
 * buffer can't be written. */
DZ_API int dz_json_finish(dz_json *json);

DZ_API void dz_json_object_open(dz_json *json);
DZ_API void dz_json_object_close(dz_json *json);
DZ_API void dz_json_array_open(dz_json *json);
DZ_API void dz_json_array_close(dz_json *json);

/* The key of the next value in an object, NUL-terminated or a slice; escaped like any string. Equal
 * keys are not noticed. */
DZ_API void dz_json_key(dz_json *json, const char *name);
DZ_API void dz_json_key_slice(dz_json *json, dz_slice name);

/* Values. A string's bytes are UTF-8 and may include NUL. */
DZ_API void dz_json_string(dz_json *json, dz_slice text);
DZ_API void dz_json_int(dz_json *json, int64_t value);
DZ_API void dz_json_uint(dz_json *json, uint64_t value);
DZ_API void dz_json_bool(dz_json *json, bool value);
DZ_API void dz_json_null(dz_json *json);

/* The fewest digits that read back as the same double, written as JavaScript does (but -0 keeps
 * its sign). NaN and infinities, which JSON lacks, become null. */
DZ_API void dz_json_double(dz_json *json, double value);

/* A value that is JSON text already; not checked. */
DZ_API void dz_json_raw(dz_json *json, dz_slice text);

/* A value written by a printf-like format, checked by the compiler like printf's:
 *
 *     dz_json_format(&json, "{\"id\":%d,\"name\":%s,\"link\":\"/users/%s\"}", id, name, slug);
 *
 * The format is copied as it stands, except for conversions, none of which can break out of its
 * place in the document, whatever the arguments hold:
 *   %d %i %u     with hh h l ll z j t: the number
 *   %f %e %g     as dz_json_double; with a precision (%.2f) that many digits; NaN and so on: null
 *   %s %.*s %.9s outside quotes a whole string with its quotes, or null for NULL;
 *                inside quotes the escaped text, nothing for NULL
 *   %c           as a string of that byte
 *   %%           a percent sign
 * Anything else (%x, %p, %n, widths, flags, `L`) is DZ_E_INVALID, as are unclosed quotes. There is
 * no conversion for raw text or booleans: use the functions above for those. */
DZ_API void dz_json_format(dz_json *json, const char *format, ...) DZ_PRINTF(2, 3);
DZ_API void dz_json_vformat(dz_json *json, const char *format, va_list args) DZ_PRINTF(2, 0);

#endif
