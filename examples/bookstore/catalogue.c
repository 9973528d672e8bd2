#include "catalogue.h"

#include "digits.h"
#include "isbn.h"
#include "records.h"

#include <donmaz/csv.h>
#include <donmaz/error.h>
#include <donmaz/utf8.h>

#include <time.h>

enum { ISBN, TITLE, AUTHOR, PRICE, STOCK, COLUMNS };
enum { BATCH = 16, ASK_EVERY = 1000 };

/* A row that is right but for what the set of ISBNs will say. */
typedef struct candidate_row {
    isbn_key key;
    size_t at; /* of the ISBN in the file */
    catalogue_book book;
} candidate_row;

typedef struct checker {
    dz_csv csv;
    const catalogue_options *options;
    catalogue_result *result;
    isbn_set seen;
    candidate_row batch[BATCH]; /* waiting for their place in the set to arrive from memory */
    size_t waiting;
    records records;
} checker;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void skip_row(checker *check, size_t at, const char *reason)
{
    catalogue_result *result = check->result;
    result->skipped++;
    if (result->error_count == CATALOGUE_ERRORS)
        return;
    dz_csv_place place = dz_csv_where(&check->csv, at);
    result->errors[result->error_count++] = (catalogue_error){place.line, place.column, reason};
}

/* Takes the waiting rows into the set. Called before any other row is refused, too, so that errors
 * stay in file order. */
static int flush_batch(checker *check)
{
    for (size_t i = 0; i < check->waiting; i++) {
        const candidate_row *candidate = &check->batch[i];
        int added = isbn_set_add(&check->seen, candidate->key);
        if (added < 0)
            return DZ_E_NOMEM;
        if (added == 0) {
            skip_row(check, candidate->at, "isbn occurred before");
            continue;
        }
        check->result->imported++;
        int rc = check->options->records ? records_add(&check->records, &candidate->book) : 0;
        if (rc < 0)
            return rc;
    }
    check->waiting = 0;
    return 0;
}

static const char *check_text(const dz_csv_field *field, const char *empty, const char *long_)
{
    if (field->text.len == 0)
        return empty;
    return field->text.len > CATALOGUE_TEXT ? long_ : NULL;
}

/* Before a price or a stock there is always an ISBN, and so more than eight bytes. */
static const char *parse_price(dz_slice text, uint32_t *cents)
{
    static const char reason[] = "price is not a number like 12.99, at most 99999.99";
    if (text.len < 4 || text.len > 8)
        return reason;
    uint64_t bytes = digits_ending(text.ptr + text.len, text.len);
    if ((bytes >> 40 & 0xff) != '.')
        return reason;
    /* Closes the gap: the digits before the point move up one byte, a zero comes first. */
    bytes = (bytes & UINT64_C(0xffff000000000000)) | (bytes << 8 & UINT64_C(0xffffffffff00)) | '0';
    if (!digits_all(bytes))
        return reason;
    *cents = digits_value(bytes);
    return NULL;
}

static const char *parse_stock(dz_slice text, uint32_t *stock)
{
    static const char reason[] = "stock is not a whole number from 0 to 9999999";
    if (text.len < 1 || text.len > 7)
        return reason;
    uint64_t bytes = digits_ending(text.ptr + text.len, text.len);
    if (!digits_all(bytes))
        return reason;
    *stock = digits_value(bytes);
    return NULL;
}

/* The row as a candidate, or why not: the reason, and the field that is to blame. */
static const char *read_row(const dz_csv_row *row, candidate_row *to, size_t *column)
{
    const dz_csv_field *fields = row->fields;
    const char *reason;
    *column = ISBN;
    if ((reason = isbn_parse(fields[ISBN].text, &to->key, &to->book.isbn)))
        return reason;
    *column = TITLE;
    if ((reason = check_text(&fields[TITLE], "title is empty", "title is longer than 500 bytes")))
        return reason;
    *column = AUTHOR;
    if ((reason =
             check_text(&fields[AUTHOR], "author is empty", "author is longer than 500 bytes")))
        return reason;
    *column = PRICE;
    if ((reason = parse_price(fields[PRICE].text, &to->book.cents)))
        return reason;
    *column = STOCK;
    if ((reason = parse_stock(fields[STOCK].text, &to->book.stock)))
        return reason;
    if (row->ascii)
        return NULL;
    for (*column = TITLE; *column <= AUTHOR; ++*column)
        if (!dz_utf8_valid(fields[*column].text))
            return "text is not UTF-8";
    return NULL;
}

static size_t offset_of(const checker *check, const dz_csv_field *field)
{
    return (size_t)(field->text.ptr - check->csv.data) - (field->quoted ? 1 : 0);
}

static int check_row(checker *check, const dz_csv_row *row)
{
    candidate_row *next = &check->batch[check->waiting];
    const char *reason = NULL;
    size_t at = row->problem_at, column;
    if (row->problem != DZ_CSV_OK) {
        reason = dz_csv_problem_text(row->problem);
    } else if ((reason = read_row(row, next, &column))) {
        at = offset_of(check, &row->fields[column]);
    }
    if (reason) {
        int rc = flush_batch(check);
        skip_row(check, at, reason);
        return rc;
    }
    next->at = row->start;
    if (check->options->records) {
        next->book.title = row->fields[TITLE];
        next->book.author = row->fields[AUTHOR];
    }
    isbn_set_prefetch(&check->seen, next->key);
    return ++check->waiting == BATCH ? flush_batch(check) : 0;
}

static bool is_header(const dz_csv_row *row)
{
    static const char *const names[] = {"isbn", "title", "author", "price", "stock"};
    if (row->count != COLUMNS || row->problem != DZ_CSV_OK)
        return false;
    for (size_t i = 0; i < COLUMNS; i++)
        if (!dz_slice_equal(row->fields[i].text, dz_slice_of(names[i])))
            return false;
    return true;
}

static int check_rows(checker *check, dz_csv_row *row)
{
    const catalogue_options *options = check->options;
    uint64_t rows = 0;
    while (dz_csv_next(&check->csv, row) > 0) {
        if (row->count == 0)
            continue;
        int rc = check_row(check, row);
        if (rc < 0)
            return rc;
        rows++;
        if (rows % ASK_EVERY == 0 && options->cancelled && options->cancelled(options->context))
            return DZ_E_CANCELLED;
        if (rows % CATALOGUE_PROGRESS == 0 && options->progress)
            options->progress(options->context, rows);
    }
    return flush_batch(check);
}

static int check_file(checker *check, dz_slice bytes)
{
    dz_csv_field fields[COLUMNS];
    dz_csv_row row = {.fields = fields, .cap = COLUMNS};
    int rc = dz_csv_init(&check->csv, bytes, &(dz_csv_options){.separator = ';'});
    if (rc < 0)
        return rc;
    if (dz_csv_next(&check->csv, &row) <= 0 || !is_header(&row)) {
        check->result->reason = "the first line must be isbn;title;author;price;stock";
        return DZ_E_FORMAT;
    }
    /* About 53 bytes a row are usual; the set grows when there are more. */
    if (!isbn_set_init(&check->seen, bytes.len / 53))
        return DZ_E_NOMEM;
    if (check->options->records && (rc = records_init(&check->records)) < 0)
        return rc;
    rc = check_rows(check, &row);
    if (rc == 0 && check->options->records)
        rc = records_finish(&check->records, check->options->records);
    return rc;
}

int catalogue_validate(dz_slice bytes, const catalogue_options *options, catalogue_result *result)
{
    static const catalogue_options defaults;
    double start = now_ms();
    *result = (catalogue_result){0};
    checker check = {.options = options ? options : &defaults, .result = result};
    if (check.options->records)
        *check.options->records = (dz_buf){0};
    int rc = check_file(&check, bytes);
    isbn_set_close(&check.seen);
    records_close(&check.records);
    if (rc < 0 && check.options->records)
        dz_buf_release(check.options->records);
    result->parse_ms = now_ms() - start;
    return rc;
}
