/* catalogue.h: checks a bookshop's catalogue, a CSV file of this form (';' separated, UTF-8):
 *
 *   isbn;title;author;price;stock
 *   9780441172719;Dune;Frank Herbert;12.99;7
 *
 *   isbn    13 digits, 978 or 979 first, the last one the check digit; once in the file
 *   title   1 to 500 bytes       author  1 to 500 bytes
 *   price   0.00 to 99999.99, always two digits after the point
 *   stock   0 to 9999999
 *
 * A row that breaks a rule is skipped and counted; the file goes on. Blank lines don't count as
 * rows. Pure computing: no I/O, no global state; safe on any thread. */
#ifndef BOOKSTORE_CATALOGUE_H
#define BOOKSTORE_CATALOGUE_H

#include <donmaz/buf.h>
#include <donmaz/slice.h>

#include <stdint.h>

enum { CATALOGUE_ERRORS = 20, CATALOGUE_PROGRESS = 100000, CATALOGUE_TEXT = 500 };

typedef struct catalogue_error {
    uint64_t line, column; /* from 1; the column counts bytes */
    const char *reason;    /* static */
} catalogue_error;

typedef struct catalogue_result {
    const char *reason; /* static; why it is no catalogue at all, when DZ_E_FORMAT */
    uint64_t imported, skipped;
    catalogue_error errors[CATALOGUE_ERRORS]; /* the first ones, in file order */
    size_t error_count;
    double parse_ms; /* wall-clock time spent */
} catalogue_result;

typedef struct catalogue_options {
    void (*progress)(void *context, uint64_t rows); /* every CATALOGUE_PROGRESS rows; may be NULL */
    bool (*cancelled)(void *context);               /* asked every thousand rows; may be NULL */
    void *context;
    dz_buf *records; /* set to the valid books, see records.h; NULL: not wanted */
} catalogue_options;

/* 0: *result tells. Otherwise *result holds what was found until then, and *records is empty:
 * DZ_E_FORMAT: wrong header (result->reason); DZ_E_CANCELLED; DZ_E_NOMEM; DZ_E_TOO_LARGE: more than
 * 2 GB of records. `options` may be NULL. */
int catalogue_validate(dz_slice bytes, const catalogue_options *options, catalogue_result *result);

#endif
