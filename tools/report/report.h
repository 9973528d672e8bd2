/* report.h: the report page of a measurement: tables, charts, downloads, how to repeat it. */
#ifndef DZ_REPORT_REPORT_H
#define DZ_REPORT_REPORT_H

#include <jansson.h>

/* Writes the page that shows `document` to the file `path` ("-": stdout). `kind` says what it is:
 * "lab" (a document of `donmaz lab run`) or "load" (of `donmaz load --json`). The page holds the
 * document whole, so it can give it back. 0 or a negative error; a file that could not be written
 * whole may be left behind. */
int dz_report_write(const char *path, const char *kind, const char *title, json_t *document);

#endif
