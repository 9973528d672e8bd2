/* json_stream.h: reads JSON (RFC 8259) of any size from a file, keeping only the string at hand.
 *
 * Values are consumed in order by the caller's callbacks. Errors stick: after one, everything reads
 * as empty and dz_json_error tells what and where. One thread at a time. */
#ifndef DZ_FLAME_JSON_STREAM_H
#define DZ_FLAME_JSON_STREAM_H

#include <donmaz/buf.h>
#include <donmaz/slice.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct dz_json {
    FILE *file;
    int next; /* the byte not yet consumed, EOF at the end */
    uint64_t line;
    unsigned depth;
    dz_buf text; /* the last string or key */
    const char *error;
} dz_json;

void dz_json_open(dz_json *json, FILE *file);
void dz_json_close(dz_json *json); /* not the file */

/* Each callback must consume exactly one value. The key is valid until the next string is read. */
void dz_json_members(dz_json *json, void (*each)(void *arg, dz_json *json, dz_slice key),
                     void *arg);
void dz_json_elements(dz_json *json, void (*each)(void *arg, dz_json *json), void *arg);

/* Each consumes one value; one of another type is an error, but null reads as 0 or empty. */
double dz_json_number(dz_json *json);
int64_t dz_json_integer(dz_json *json); /* exact to 2^63; a fraction is cut off */
dz_slice dz_json_string(dz_json *json); /* UTF-8; valid until the next string is read */
void dz_json_skip(dz_json *json);

/* The first byte of the value to come: one of { [ " t f n - 0-9. */
int dz_json_peek(dz_json *json);

/* After the last value: anything but space is an error. */
void dz_json_end(dz_json *json);

/* NULL when all is well. */
const char *dz_json_error(const dz_json *json);

/* Writes `text` as a JSON string, quotes included. Bytes that are not UTF-8 become U+FFFD. */
void dz_json_write_string(FILE *out, dz_slice text);

/* The length of the UTF-8 sequence that `text` begins with, 0 when it is none (RFC 3629) or a
 * control character. */
size_t dz_utf8_length(dz_slice text);

#endif
