/* page.h: self-contained HTML pages: style, script and data in one file that needs no network. */
#ifndef DZ_REPORT_PAGE_H
#define DZ_REPORT_PAGE_H

#include <stdio.h>

typedef enum dz_page_kind { DZ_PAGE_DOCTOR, DZ_PAGE_FLAME, DZ_PAGE_REPORT } dz_page_kind;

/* Writes everything up to the data. The caller then writes one JSON value in which no "<" occurs
 * (dz_json_write_string sees to that), then calls dz_page_end. */
void dz_page_begin(FILE *out, dz_page_kind kind, const char *title);
void dz_page_end(FILE *out);

/* Removes a file that could not be written to its end; a device or pipe is left alone. */
void dz_page_discard(const char *path);

/* Shows a file in the user's browser (xdg-open); says so on stderr when that fails. */
void dz_page_open(const char *path);

#endif
