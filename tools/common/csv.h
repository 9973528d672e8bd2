/* csv.h: writing a field of comma-separated values. */
#ifndef DZ_TOOLS_COMMON_CSV_H
#define DZ_TOOLS_COMMON_CSV_H

#include <stdio.h>

/* RFC 4180: a field with a comma, quote or line break is quoted, and quotes are doubled. NULL: an
 * empty field. Errors stay with the stream. */
void dz_csv_text(FILE *out, const char *text);

#endif
