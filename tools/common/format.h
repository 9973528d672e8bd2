/* format.h: numbers as people read them. Each returns its text by value, so that
 * printf("%s", dz_format_bytes(n).text) needs no buffer of its own. */
#ifndef DZ_TOOLS_COMMON_FORMAT_H
#define DZ_TOOLS_COMMON_FORMAT_H

#include <stdint.h>

typedef struct dz_text {
    char text[32];
} dz_text;

dz_text dz_format_count(uint64_t n);     /* 999, 1,234,567 */
dz_text dz_format_short(double n);       /* 999, 1.2k, 45k, 3.1M */
dz_text dz_format_number(double n);      /* grouped, two decimals at most: 1,234.5 */
dz_text dz_format_bytes(double n);       /* 12 B, 1.5 kB, 27.9 MB: powers of 1000 */
dz_text dz_format_duration(uint64_t ns); /* 870 ns, 12.3 us, 4.56 ms, 1.23 s, 2m05s */
dz_text dz_format_ms(uint64_t ns);       /* milliseconds, three significant digits or more: 0.034 */
dz_text dz_format_time(uint64_t unix_ns); /* 2026-01-31T10:20:30.456Z */

#endif
