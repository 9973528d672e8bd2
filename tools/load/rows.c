/* A CSV file (RFC 4180) as data for templates. */
#include "load/message.h"

#include "common/file.h"

#include <donmaz/error.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    char *at, *end; /* the file's bytes; fields are unquoted in place */
    size_t line;
    const char **cells;
    size_t count, cap;
} reader;

static int add_cell(reader *r, const char *text)
{
    if (r->count == r->cap) {
        size_t cap = r->cap ? r->cap * 2 : 256;
        const char **cells = realloc(r->cells, cap * sizeof *cells);
        if (!cells)
            return DZ_E_NOMEM;
        r->cells = cells;
        r->cap = cap;
    }
    r->cells[r->count++] = text;
    return 0;
}

/* Reads a field, ends it with NUL in place and leaves r->at on what follows it. *last: it was the
 * last of its row. */
static int read_cell(reader *r, bool *last)
{
    char *start = r->at, *out = r->at;
    bool quoted = r->at < r->end && *r->at == '"';
    if (quoted)
        r->at++;
    while (r->at < r->end) {
        char c = *r->at;
        if (quoted && c == '"') {
            if (r->at + 1 >= r->end || r->at[1] != '"') {
                quoted = false;
                r->at++;
                continue;
            }
            r->at++;
        } else if (!quoted && (c == ',' || c == '\n' || c == '\r')) {
            break;
        }
        if (c == '\n')
            r->line++;
        *out++ = c;
        r->at++;
    }
    if (quoted)
        return DZ_E_FORMAT;
    *last = r->at >= r->end || *r->at != ',';
    if (r->at < r->end && *r->at == '\r')
        r->at++;
    if (r->at < r->end)
        r->at++;
    *out = '\0'; /* there is room: the separator, or the byte beyond the file */
    return add_cell(r, start);
}

static int read_row(reader *r, size_t *columns)
{
    bool last = false;
    int rc = 0;
    for (*columns = 0; rc == 0 && !last; ++*columns)
        rc = read_cell(r, &last);
    r->line++;
    return rc;
}

static bool at_blank_line(const reader *r)
{
    return *r->at == '\n' || (*r->at == '\r' && r->at + 1 < r->end && r->at[1] == '\n');
}

static int read_rows(reader *r, load_feed_rows *rows, char *why, size_t why_size)
{
    int rc = read_row(r, &rows->columns);
    while (rc == 0 && r->at < r->end) {
        size_t columns, line = r->line;
        if (at_blank_line(r)) {
            r->at += *r->at == '\r' ? 2 : 1;
            r->line++;
            continue;
        }
        rc = read_row(r, &columns);
        if (rc == 0 && columns != rows->columns) {
            snprintf(why, why_size, "line %zu has %zu fields, the first line %zu", line, columns,
                     rows->columns);
            return DZ_E_FORMAT;
        }
        rows->rows++;
    }
    if (rc == DZ_E_FORMAT)
        snprintf(why, why_size, "line %zu: a quoted field has no end", r->line);
    if (rc == 0 && rows->rows == 0) {
        snprintf(why, why_size, "no row below the column names");
        return DZ_E_FORMAT;
    }
    return rc;
}

int load_rows_read(load_feed_rows *rows, const char *file, char *why, size_t why_size)
{
    *rows = (load_feed_rows){0};
    int rc = dz_file_read(file, &rows->text);
    if (rc == 0)
        rc = dz_buf_reserve(&rows->text, rows->text.len + 1);
    reader r = {.at = rows->text.data, .line = 1};
    if (rc < 0) {
        snprintf(why, why_size, "%s", dz_strerror(rc));
    } else if (memchr(r.at, '\0', rows->text.len)) {
        snprintf(why, why_size, "it has a NUL byte: not a CSV file");
        rc = DZ_E_FORMAT;
    } else {
        r.end = r.at + rows->text.len;
        rc = read_rows(&r, rows, why, why_size);
    }
    rows->names = r.cells;
    rows->cells = r.cells ? r.cells + rows->columns : NULL;
    if (rc < 0)
        load_rows_free(rows);
    return rc;
}

void load_rows_free(load_feed_rows *rows)
{
    dz_buf_release(&rows->text);
    free(rows->names); /* cells lie in the same array */
    *rows = (load_feed_rows){0};
}
