/* json_write.h: what the parts of the JSON writer share. */
#ifndef DZ_TEXT_JSON_WRITE_H
#define DZ_TEXT_JSON_WRITE_H

#include <donmaz/json.h>

enum { DZ_JSON_NUMBER = 32 }; /* bytes that any number fits into */

/* Room for `len` more bytes, or NULL and the error is set. What is written there counts once out's
 * len has been moved. */
char *dz_json_room(dz_json *json, size_t len);

void dz_json_append(dz_json *json, dz_slice bytes);

/* What comes before a value: the comma, or the check that there may be one. False on error. */
bool dz_json_begin_value(dz_json *json);

/* Escaped text without quotes. */
void dz_json_escape(dz_json *json, dz_slice text);

/* Write digits; return how many bytes (at most DZ_JSON_NUMBER). */
size_t dz_json_put_uint(char *to, uint64_t value);
size_t dz_json_put_int(char *to, int64_t value);
size_t dz_json_put_double(char *to, double value);

static inline void dz_json_fail(dz_json *json, int error)
{
    if (json->error == 0)
        json->error = error;
}

#endif
