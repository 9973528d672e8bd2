/* pattern.h: a route pattern taken apart into segments. Used by the router; no I/O. In a segment:
 *
 *   users     literal text
 *   :id       a parameter: one whole segment, at least one byte
 *   :from-:to parameters inside a segment, separated by literal text
 *   *path     a wildcard: the rest of the path, at least one byte; only at the end
 *   a\:b      a backslash takes the next character literally
 *
 * Names are ASCII letters, digits and _, not starting with a digit. ( ) [ ] { } + ! ? are refused
 * unless escaped: other routers give them meanings, so a silent literal would surprise. */
#ifndef DZ_APP_PATTERN_H
#define DZ_APP_PATTERN_H

#include <donmaz/slice.h>

#include <stddef.h>
#include <stdint.h>

enum { DZ_PATTERN_SEGMENTS = 32, DZ_PATTERN_PARAMS = 16, DZ_PATTERN_BYTES = 1024 };

typedef enum dz_segment_kind {
    DZ_SEGMENT_LITERAL, /* shape is the text itself */
    DZ_SEGMENT_MIXED,   /* shape is the literal parts with '/' where a parameter stands */
    DZ_SEGMENT_PARAM,   /* shape is "/" */
    DZ_SEGMENT_WILDCARD /* shape is "" */
} dz_segment_kind;

typedef struct dz_segment {
    dz_segment_kind kind;
    dz_slice shape; /* segments with equal kind and shape match the same text */
} dz_segment;

typedef struct dz_pattern {
    dz_segment segments[DZ_PATTERN_SEGMENTS];
    dz_slice
        names[DZ_PATTERN_PARAMS]; /* of parameters and wildcard, in order; in the source text */
    uint8_t segment_count, param_count;
    size_t used;
    char shapes[DZ_PATTERN_BYTES];
} dz_pattern;

/* Parses NUL-terminated `text`, which must outlive *pattern. A trailing slash is ignored.
 * DZ_E_INVALID for anything that is no pattern or exceeds the limits above. */
int dz_pattern_parse(dz_pattern *pattern, const char *text);

/* Matches one path segment against a MIXED shape; stores the parameters' texts in `values`, which
 * has room for DZ_PATTERN_PARAMS. Returns how many, 0 when it does not match. Linear in the
 * segment's length for each literal part; never backtracks. */
size_t dz_shape_match(dz_slice shape, dz_slice segment, dz_slice *values);

#endif
