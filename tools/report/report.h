/* report.h: the report page of a measurement: tables, charts, downloads, how to repeat it. */
#ifndef DZ_REPORT_REPORT_H
#define DZ_REPORT_REPORT_H

#include <jansson.h>

#include <stdio.h>

/* Prints the page that shows `document` to `out`. `kind` says what it is:
 * "lab" (a document of `donmaz lab run`) or "load" (of `donmaz load --json`). The page holds the
 * document whole, so it can give it back. 0 or a negative error. */
int dz_report_print(FILE *out, const char *kind, const char *title, json_t *document);

/* The same to the file `path` ("-": stdout). A file that could not be written whole may be left. */
int dz_report_write(const char *path, const char *kind, const char *title, json_t *document);

#endif
