/* split.h: field values that are lists (RFC 9110 5.6.1). */
#ifndef DZ_HTTP_SPLIT_H
#define DZ_HTTP_SPLIT_H

#include "http/chars.h"

#include <donmaz/slice.h>

/* The text without OWS around it. */
static inline dz_slice dz_trim(dz_slice text)
{
    while (text.len > 0 && dz_char_blank(text.ptr[0])) {
        text.ptr++;
        text.len--;
    }
    while (text.len > 0 && dz_char_blank(text.ptr[text.len - 1]))
        text.len--;
    return text;
}

/* Takes the text before the next `separator` off *rest, trimmed; it may be empty. *rest has a NULL
 * ptr after the last one. Quoted strings are not looked at. */
static inline void dz_split_take(dz_slice *rest, char separator, dz_slice *element)
{
    const char *found = rest->len ? memchr(rest->ptr, separator, rest->len) : NULL;
    if (!found) {
        *element = dz_trim(*rest);
        *rest = (dz_slice){0};
        return;
    }
    size_t len = (size_t)(found - rest->ptr);
    *element = dz_trim(dz_slice_make(rest->ptr, len));
    *rest = dz_slice_make(found + 1, rest->len - len - 1);
}

#endif
