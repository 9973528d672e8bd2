/* view.h: a run's result for people: table, Markdown, CSV. */
#ifndef DZ_LAB_VIEW_H
#define DZ_LAB_VIEW_H

#include <jansson.h>

#include <stdbool.h>
#include <stdio.h>

typedef struct dz_lab_cell {
    char text[48];
} dz_lab_cell;

/* "/fast p99 (ms), mixed": what a row of the table shows. */
dz_lab_cell dz_lab_row_label(json_t *row);

/* The row's figure for a stack in the metric's unit, "-" when there is none; with its confidence
 * interval as "±4%" when `spread` and there is one. */
dz_lab_cell dz_lab_row_figure(json_t *row, json_t *stack, int spread);

/* A number with three significant digits or more, never in exponents. */
dz_lab_cell dz_lab_figure(double value);

/* One table per group of stacks that fits `width` columns, then what was skipped, what failed and
 * the warnings. 0 or a negative error. */
int dz_lab_print_tables(json_t *document, FILE *out, size_t width);
int dz_lab_print_markdown(json_t *document, FILE *out);

/* For each phase with several endpoints a table with a line for every stack's endpoint. */
int dz_lab_print_endpoints(json_t *document, FILE *out, bool markdown);
int dz_lab_print_csv(json_t *document, FILE *out);

#endif
