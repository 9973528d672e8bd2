/* csv.h: reads CSV (RFC 4180) from memory, a row at a time, without copying.
 *
 *     dz_csv csv;
 *     dz_csv_field fields[8];
 *     dz_csv_row row = {.fields = fields, .cap = 8};
 *     dz_csv_init(&csv, bytes, &(dz_csv_options){.separator = ';'});
 *     while (dz_csv_next(&csv, &row) > 0)
 *         use(fields[0].text);
 *
 * Rows end with CRLF, LF or CR, the last one also without. A UTF-8 byte order mark at the start is
 * skipped. A field in quotes may hold separators, line ends, and quotes written twice. Bytes are
 * not checked to be UTF-8. Input of any size up to the address space; time is linear in it,
 * whatever it holds.
 *
 * A scanner is used by one thread at a time. It holds no resources. */
#ifndef DONMAZ_CSV_H
#define DONMAZ_CSV_H

#include <donmaz/error.h>
#include <donmaz/export.h>
#include <donmaz/slice.h>

#include <stdint.h>

/* X(name, text): what can be wrong with a row. */
#define DZ_CSV_PROBLEMS(X)                                                                         \
    X(DZ_CSV_OK, "well-formed")                                                                    \
    X(DZ_CSV_STRAY_QUOTE, "quote inside an unquoted field")                                        \
    X(DZ_CSV_AFTER_QUOTE, "text after a closing quote")                                            \
    X(DZ_CSV_UNCLOSED_QUOTE, "quote is never closed")                                              \
    X(DZ_CSV_RAGGED, "number of fields differs from the first row's")

typedef enum dz_csv_problem {
#define X(name, text) name,
    DZ_CSV_PROBLEMS(X)
#undef X
} dz_csv_problem;

typedef struct dz_csv_options {
    char separator; /* 0 stands for ','; not a quote, CR or LF */
    bool strict;    /* a malformed row is DZ_E_FORMAT instead of a row with a problem */
    bool ragged;    /* rows may differ in their number of fields */
} dz_csv_options;

typedef struct dz_csv_field {
    dz_slice text; /* a part of the input; without the quotes around it */
    bool quoted;   /* quotes inside are still doubled: see dz_csv_unescape */
} dz_csv_field;

typedef struct dz_csv_row {
    dz_csv_field *fields; /* the caller's room for `cap` fields */
    size_t cap;
    size_t count;      /* fields in the row, of which the first `cap` are stored; 0: a blank line */
    size_t start, end; /* the row's bytes in the input, without the line end */
    bool ascii;        /* known to be ASCII throughout; false says nothing */
    dz_csv_problem problem; /* the first one */
    size_t problem_at;      /* its place in the input */
} dz_csv_row;

typedef struct dz_csv_place {
    uint64_t line, column; /* from 1; lines as an editor counts them, columns in bytes */
} dz_csv_place;

enum { DZ_CSV_INDEX = 1024, DZ_CSV_BLOCK = 64 };

/* To be created by dz_csv_init; its fields are private. */
typedef struct dz_csv {
    const char *data;
    size_t len;
    char separator;
    bool strict, ragged;
    size_t at;    /* where the next row starts */
    size_t width; /* fields of the first row, 0 before it */
    /* Places of separators and line ends that the vectorised part found ahead of `at`. */
    size_t window, scanned; /* the index counts from `window`; bytes before `scanned` are in it */
    bool stopped;           /* at the end, or at something malformed */
    uint64_t inside, after_cut, after_close;
    uint64_t high; /* not 0: there may be bytes above 127 since `window` */
    uint32_t next, count;
    /* For dz_csv_where. */
    size_t counted, line_start;
    uint64_t line;
    uint32_t index[DZ_CSV_INDEX + DZ_CSV_BLOCK + 8];
} dz_csv;

/* Scans `bytes`, which must outlive the scanner and the fields it gives. `options` may be NULL.
 * DZ_E_INVALID: impossible separator. */
DZ_API int dz_csv_init(dz_csv *csv, dz_slice bytes, const dz_csv_options *options);

/* Gives the next row: 1; 0 at the end. DZ_E_FORMAT: the row is malformed and the scanner strict.
 * In all but the last case *row is complete, and the next call goes on with the row after it; so a
 * strict reader may also go on. In a malformed row, a field with misplaced quotes is given as it
 * stands, quotes included, up to the next separator or line end; one whose quote is never closed,
 * up to the end of the input. */
DZ_API int dz_csv_next(dz_csv *csv, dz_csv_row *row);

/* Goes back (or on) to a row that starts at `offset`, as dz_csv_row.start tells, for example to
 * read it again with more room. */
DZ_API void dz_csv_seek(dz_csv *csv, size_t offset);

/* The line and column of a place in the input. Cheap for places that come in rising order. */
DZ_API dz_csv_place dz_csv_where(dz_csv *csv, size_t offset);

/* Whether the field's text holds doubled quotes, so that it must be unescaped before use. */
DZ_API bool dz_csv_needs_unescape(const dz_csv_field *field);

/* Writes the field's value to `to`, which has room for text.len bytes and does not overlap it.
 * Returns its length. */
DZ_API size_t dz_csv_unescape(const dz_csv_field *field, char *to);

/* What `problem` means, in words. Static storage, thread-safe. */
DZ_API const char *dz_csv_problem_text(dz_csv_problem problem);

/* The instruction set in use: "avx2", "sse2", "neon" or "scalar". Static storage, thread-safe.
 * The environment variable DONMAZ_CSV names another one to use, for measuring and tests. */
DZ_API const char *dz_csv_kernel_name(void);

#endif
