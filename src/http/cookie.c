#include "http/cookie.h"

#include "http/chars.h"
#include "http/split.h"

static bool all_of(dz_slice text, int class)
{
    for (size_t i = 0; i < text.len; i++)
        if (!dz_char_is(text.ptr[i], class))
            return false;
    return true;
}

/* RFC 6265 allows neither space, comma nor bytes above ASCII, but scripts set them, browsers send
 * them, and none can be taken for the end of the pair. */
static bool value_valid(dz_slice value)
{
    for (size_t i = 0; i < value.len; i++) {
        char c = value.ptr[i];
        bool lenient = c == ' ' || c == ',' || (unsigned char)c >= 0x80;
        if (!lenient && !dz_char_is(c, DZ_CHAR_COOKIE))
            return false;
    }
    return true;
}

bool dz_cookie_next(dz_slice *field, dz_slice *name, dz_slice *value)
{
    while (field->len > 0) {
        dz_slice pair;
        dz_split_take(field, ';', &pair);
        const char *equals = pair.len ? memchr(pair.ptr, '=', pair.len) : NULL;
        if (!equals)
            continue;
        size_t name_len = (size_t)(equals - pair.ptr);
        *name = dz_trim(dz_slice_make(pair.ptr, name_len));
        *value = dz_trim(dz_slice_make(equals + 1, pair.len - name_len - 1));
        if (value->len >= 2 && value->ptr[0] == '"' && value->ptr[value->len - 1] == '"')
            *value = dz_slice_make(value->ptr + 1, value->len - 2);
        if (name->len > 0 && all_of(*name, DZ_CHAR_TOKEN) && value_valid(*value))
            return true;
    }
    return false;
}

bool dz_cookie_find(dz_slice field, dz_slice name, dz_slice *value)
{
    dz_slice found;
    while (dz_cookie_next(&field, &found, value))
        if (dz_slice_equal(found, name))
            return true;
    *value = (dz_slice){0};
    return false;
}
