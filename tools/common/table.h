/* table.h: aligned tables for the terminal.
 *
 *   dz_table *t = dz_table_new(3);
 *   dz_table_head(t, "stack", DZ_LEFT); dz_table_head(t, "req/s", DZ_RIGHT); ...
 *   dz_table_cell(t, "%s", name); dz_table_cell(t, "%.1f", rps); ...   row by row, left to right
 *   dz_table_print(t, stdout); dz_table_free(t);
 *
 * Memory running out is remembered and reported by dz_table_print, so rows need no checks.
 * dz_table_new may return NULL; every function then does nothing. Not thread-safe. */
#ifndef DZ_TOOLS_COMMON_TABLE_H
#define DZ_TOOLS_COMMON_TABLE_H

#include "common/terminal.h"

#include <stdio.h>

typedef enum dz_align { DZ_LEFT, DZ_RIGHT } dz_align;

typedef struct dz_table dz_table;

dz_table *dz_table_new(size_t columns);
void dz_table_free(dz_table *table);

/* The next column's heading and how its cells are aligned. */
void dz_table_head(dz_table *table, const char *text, dz_align align);

/* The next cell, made printable (printable.h), as headings are; a row is complete when every column
 * has one. */
void dz_table_cell(dz_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Colours the cell added last; nothing is coloured where colours are not wanted. */
void dz_table_style(dz_table *table, dz_style style);

/* A line between the rows before and after. */
void dz_table_rule(dz_table *table);

/* Prints it in box-drawing characters; a row begun is filled up with empty cells. DZ_E_NOMEM. */
int dz_table_print(dz_table *table, FILE *out);

/* The same as a Markdown table (rules are left out; `|` in cells is escaped). DZ_E_NOMEM. */
int dz_table_print_markdown(dz_table *table, FILE *out);

#endif
