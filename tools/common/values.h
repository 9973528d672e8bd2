/* values.h: reading the values people type: counts, durations, sizes; and finding the name meant.
 */
#ifndef DZ_TOOLS_COMMON_VALUES_H
#define DZ_TOOLS_COMMON_VALUES_H

#include <donmaz/slice.h>

#include <stdint.h>

/* Each reads the whole text or fails with DZ_E_FORMAT (not such a value) or DZ_E_TOO_LARGE. */

/* Decimal digits only. */
int dz_read_count(dz_slice text, uint64_t *out);

/* A decimal number with optional sign, fraction and exponent; never inf or nan. */
int dz_read_number(dz_slice text, double *out);

/* Nanoseconds from `10` (seconds), `1.5s`, `500ms`, `20us`, `100ns`, `2m`, `1h`. */
int dz_read_duration(dz_slice text, uint64_t *out);

/* Bytes from `4096`, `64k`, `1M`, `1.5G`, also `kB`, `KiB`; powers of 1024. */
int dz_read_bytes(dz_slice text, uint64_t *out);

/* The one of `names` that `name` most likely meant, by edit distance with swaps; NULL when none is
 * near enough to be worth naming. */
const char *dz_nearest_name(dz_slice name, const char *const *names, size_t count);

#endif
