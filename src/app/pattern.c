#include "app/pattern.h"

#include <donmaz/error.h>

static bool is_name_byte(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (!first && c >= '0' && c <= '9');
}

/* A literal byte of a path: visible ASCII or UTF-8, and nothing that ends a path. */
static bool is_literal_byte(char c)
{
    return (unsigned char)c > ' ' && c != 0x7f && c != '#' && c != '/';
}

static bool is_special(char c)
{
    return strchr("()[]{}+!?*\\", c) != NULL;
}

static int add_byte(dz_pattern *pattern, char c)
{
    if (pattern->used == sizeof pattern->shapes)
        return DZ_E_INVALID;
    pattern->shapes[pattern->used++] = c;
    return 0;
}

/* Reads the name at `at`, which follows ':' or '*'; returns what comes after it, NULL when there is
 * no valid new name. */
static const char *parse_name(dz_pattern *pattern, const char *at)
{
    size_t len = 0;
    while (is_name_byte(at[len], len == 0))
        len++;
    if (len == 0 || pattern->param_count == DZ_PATTERN_PARAMS)
        return NULL;
    dz_slice name = dz_slice_make(at, len);
    for (size_t i = 0; i < pattern->param_count; i++)
        if (dz_slice_equal(pattern->names[i], name))
            return NULL;
    pattern->names[pattern->param_count++] = name;
    return at + len;
}

static void finish_segment(dz_pattern *pattern, dz_segment_kind kind, size_t start)
{
    pattern->segments[pattern->segment_count++] =
        (dz_segment){kind, dz_slice_make(pattern->shapes + start, pattern->used - start)};
}

/* One segment that is not a wildcard: literal bytes and parameters. */
static const char *parse_segment(dz_pattern *pattern, const char *at)
{
    size_t start = pattern->used, params = 0;
    bool after_param = false;
    while (*at != '\0' && *at != '/') {
        if (*at == ':') {
            /* ":a:b" would leave open where a ends. */
            if (after_param || add_byte(pattern, '/') < 0)
                return NULL;
            at = parse_name(pattern, at + 1);
            if (!at)
                return NULL;
            params++;
            after_param = true;
            continue;
        }
        if (*at == '\\')
            at++;
        else if (is_special(*at))
            return NULL;
        if (!is_literal_byte(*at) || add_byte(pattern, *at) < 0)
            return NULL;
        at++;
        after_param = false;
    }
    size_t len = pattern->used - start;
    if (len == 0)
        return NULL;
    finish_segment(pattern,
                   params == 0 ? DZ_SEGMENT_LITERAL
                   : len == 1  ? DZ_SEGMENT_PARAM
                               : DZ_SEGMENT_MIXED,
                   start);
    return at;
}

static const char *parse_wildcard(dz_pattern *pattern, const char *at)
{
    at = parse_name(pattern, at + 1);
    if (!at || *at != '\0')
        return NULL;
    finish_segment(pattern, DZ_SEGMENT_WILDCARD, pattern->used);
    return at;
}

int dz_pattern_parse(dz_pattern *pattern, const char *text)
{
    pattern->segment_count = pattern->param_count = 0;
    pattern->used = 0;
    if (!text || text[0] != '/')
        return DZ_E_INVALID;
    const char *at = text;
    while (at[0] == '/' && at[1] != '\0') {
        if (pattern->segment_count == DZ_PATTERN_SEGMENTS)
            return DZ_E_INVALID;
        at++;
        at = *at == '*' ? parse_wildcard(pattern, at) : parse_segment(pattern, at);
        if (!at)
            return DZ_E_INVALID;
    }
    return 0;
}

/* Takes the text up to the next '/' off the front of *shape. */
static dz_slice next_literal(dz_slice *shape)
{
    const char *slash = memchr(shape->ptr, '/', shape->len);
    size_t len = slash ? (size_t)(slash - shape->ptr) : shape->len;
    dz_slice literal = dz_slice_make(shape->ptr, len);
    size_t taken = slash ? len + 1 : len;
    *shape = dz_slice_make(shape->ptr + taken, shape->len - taken);
    return literal;
}

size_t dz_shape_match(dz_slice shape, dz_slice segment, dz_slice *values)
{
    size_t params = 0;
    for (size_t i = 0; i < shape.len; i++)
        params += shape.ptr[i] == '/';
    dz_slice first = next_literal(&shape);
    if (segment.len < first.len || memcmp(segment.ptr, first.ptr, first.len) != 0)
        return 0;
    const char *at = segment.ptr + first.len, *end = segment.ptr + segment.len;
    for (size_t i = 0; i < params; i++) {
        dz_slice literal = next_literal(&shape);
        if ((size_t)(end - at) <= literal.len)
            return 0; /* a parameter holds at least one byte */
        const char *found = end - literal.len;
        /* The leftmost place of a literal leaves the most room for what follows, so no other place
         * need be tried; the last literal must end the segment. */
        if (i + 1 < params)
            found = memmem(at + 1, (size_t)(end - at) - 1, literal.ptr, literal.len);
        else if (memcmp(found, literal.ptr, literal.len) != 0)
            found = NULL;
        if (!found)
            return 0;
        values[i] = dz_slice_make(at, (size_t)(found - at));
        at = found + literal.len;
    }
    return params;
}
