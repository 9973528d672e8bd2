/* date.h: HTTP dates (RFC 9110 5.6.7), without locale or time zone. */
#ifndef DZ_HTTP_DATE_H
#define DZ_HTTP_DATE_H

#include <donmaz/slice.h>

#include <stdbool.h>
#include <stdint.h>

/* "Sun, 06 Nov 1994 08:49:37 GMT" */
enum { DZ_DATE_LEN = 29 };

/* Writes IMF-fixdate, not NUL-terminated. `seconds` since 1970; outside the years 0 to 9999 it is
 * clamped. */
void dz_date_format(char out[DZ_DATE_LEN], int64_t seconds);

/* Reads any of the three forms: IMF-fixdate, RFC 850 and asctime. `now` decides the century of RFC
 * 850's two digits: at most 50 years ahead. False when the text is none of them or names no real
 * time; the day of the week is not compared with the date. */
bool dz_date_parse(dz_slice text, int64_t now, int64_t *seconds);

/* The Date field of a response, formatted once a second. One per loop. */
typedef struct dz_date_cache {
    int64_t second;
    char line[sizeof "Date: " - 1 + DZ_DATE_LEN + 2];
    bool filled;
} dz_date_cache;

/* "Date: ...\r\n" for the second `now` since 1970; shows the cache's memory. */
dz_slice dz_date_line(dz_date_cache *cache, int64_t now);

#endif
