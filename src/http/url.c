#include "http/url.h"

#include "http/chars.h"

#include <limits.h>

bool dz_percent_needed(dz_slice text, bool plus)
{
    if (text.len == 0)
        return false;
    return memchr(text.ptr, '%', text.len) || (plus && memchr(text.ptr, '+', text.len));
}

/* The byte that the escape or plain byte at text[*at] stands for, 1 to 255; *at is moved past it.
 * -1 for a bad escape. */
static int take_byte(dz_slice text, size_t *at, bool plus)
{
    unsigned char c = (unsigned char)text.ptr[*at];
    if (c != '%') {
        *at += 1;
        return plus && c == '+' ? ' ' : c;
    }
    if (text.len - *at < 3)
        return -1;
    int high = dz_char_hex(text.ptr[*at + 1]), low = dz_char_hex(text.ptr[*at + 2]);
    if (high < 0 || low < 0 || high + low == 0)
        return -1;
    *at += 3;
    return high * 16 + low;
}

int dz_percent_decode(char *out, dz_slice text, bool plus)
{
    size_t used = 0;
    if (text.len > INT_MAX)
        return DZ_E_FORMAT;
    for (size_t at = 0; at < text.len;) {
        int byte = take_byte(text, &at, plus);
        if (byte < 0)
            return DZ_E_FORMAT;
        out[used++] = (char)byte;
    }
    return (int)used;
}

/* out[0..*used) ends with '/'. Appends one decoded segment, or resolves it. */
static int add_segment(char *out, size_t *used, dz_slice segment, bool last)
{
    int len = dz_percent_decode(out + *used, segment, false);
    if (len < 0)
        return len;
    dz_slice text = {out + *used, (size_t)len};
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] == '/' || text.ptr[i] == '\\' || text.ptr[i] == '\0')
            return DZ_E_FORMAT;
    if (text.len == 0 || dz_slice_equal(text, DZ_LIT(".")))
        return 0;
    if (dz_slice_equal(text, DZ_LIT(".."))) {
        if (*used == 1)
            return DZ_E_FORMAT;
        do
            *used -= 1;
        while (out[*used - 1] != '/');
        return 0;
    }
    *used += text.len;
    if (!last)
        out[(*used)++] = '/';
    return 0;
}

int dz_path_clean(char *out, dz_slice path)
{
    if (path.len == 0 || path.len >= INT_MAX || path.ptr[0] != '/')
        return DZ_E_FORMAT;
    size_t used = 0;
    out[used++] = '/';
    for (size_t at = 1; at <= path.len;) {
        size_t left = path.len - at;
        const char *slash = left ? memchr(path.ptr + at, '/', left) : NULL;
        size_t len = slash ? (size_t)(slash - path.ptr) - at : left;
        int rc = add_segment(out, &used, dz_slice_make(path.ptr + at, len), !slash);
        if (rc < 0)
            return rc;
        at += len + 1;
    }
    return (int)used;
}

bool dz_query_next(dz_slice *query, dz_slice *key, dz_slice *value)
{
    while (query->len > 0) {
        const char *start = query->ptr, *end = start + query->len;
        const char *amp = memchr(start, '&', query->len);
        const char *stop = amp ? amp : end;
        *query = amp ? dz_slice_make(amp + 1, (size_t)(end - amp - 1)) : (dz_slice){0};
        if (stop == start)
            continue;
        const char *equals = memchr(start, '=', (size_t)(stop - start));
        *key = dz_slice_make(start, (size_t)((equals ? equals : stop) - start));
        *value = equals ? dz_slice_make(equals + 1, (size_t)(stop - equals - 1)) : (dz_slice){0};
        return true;
    }
    return false;
}

static bool decodes_to(dz_slice encoded, dz_slice text)
{
    size_t at = 0, i = 0;
    for (; at < encoded.len && i < text.len; i++)
        if (take_byte(encoded, &at, true) != (unsigned char)text.ptr[i])
            return false;
    return at == encoded.len && i == text.len;
}

bool dz_query_find(dz_slice query, dz_slice key, dz_slice *value)
{
    dz_slice name;
    while (dz_query_next(&query, &name, value))
        if (decodes_to(name, key))
            return true;
    *value = (dz_slice){0};
    return false;
}
