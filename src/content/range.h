/* range.h: the Range field (RFC 9110 14.2). */
#ifndef DZ_CONTENT_RANGE_H
#define DZ_CONTENT_RANGE_H

#include <donmaz/slice.h>

#include <stdint.h>

typedef struct dz_range {
    uint64_t start, len; /* len > 0 */
} dz_range;

enum { DZ_RANGES_MAX = 16, DZ_RANGE_UNSATISFIABLE = -416 };

/* What `field` asks for of a representation of `size` bytes. Returns how many ranges, in the order
 * asked for (those that lie outside are left out); 0 when the whole is to be sent instead: another
 * unit, a malformed field, an empty representation, more than DZ_RANGES_MAX ranges, or ranges that
 * together are longer than the whole. DZ_RANGE_UNSATISFIABLE: all of them lie outside. */
int dz_range_parse(dz_slice field, uint64_t size, dz_range ranges[DZ_RANGES_MAX]);

#endif
