/* csv_reference.h: what a CSV text means, said as plainly as possible: one character at a time, no
 * index. The scanner must agree with it on every input. Also used by the fuzz target. */
#ifndef DZ_TESTS_CSV_REFERENCE_H
#define DZ_TESTS_CSV_REFERENCE_H

#include "text/csv_kernel.h"

#include <stdlib.h>

typedef struct reference {
    const char *data;
    size_t len, at, width;
    char separator;
} reference;

static inline bool reference_ends_field(const reference *ref, size_t at)
{
    return at == ref->len || ref->data[at] == ref->separator || ref->data[at] == '\n' ||
           ref->data[at] == '\r';
}

static inline void reference_problem(dz_csv_row *row, dz_csv_problem problem, size_t at)
{
    if (row->problem == DZ_CSV_OK) {
        row->problem = problem;
        row->problem_at = at;
    }
}

/* The field at ref->at. */
static inline dz_csv_field reference_field(reference *ref, dz_csv_row *row)
{
    size_t start = ref->at, at = start;
    bool quoted = at < ref->len && ref->data[at] == '"', closed = false;
    if (quoted) {
        for (at++; at < ref->len && !closed; at++) {
            if (ref->data[at] != '"')
                continue;
            if (at + 1 < ref->len && ref->data[at + 1] == '"')
                at++;
            else
                closed = true;
        }
        if (!closed)
            reference_problem(row, DZ_CSV_UNCLOSED_QUOTE, start);
        else if (!reference_ends_field(ref, at))
            reference_problem(row, DZ_CSV_AFTER_QUOTE, at);
        quoted = closed && reference_ends_field(ref, at);
    }
    while (!reference_ends_field(ref, at)) {
        if (ref->data[at] == '"')
            reference_problem(row, DZ_CSV_STRAY_QUOTE, at);
        at++;
    }
    ref->at = at;
    if (quoted)
        return (dz_csv_field){dz_slice_make(ref->data + start + 1, at - start - 2), true};
    return (dz_csv_field){dz_slice_make(ref->data + start, at - start), false};
}

static inline bool reference_next(reference *ref, dz_csv_row *row)
{
    if (ref->at == ref->len)
        return false;
    *row = (dz_csv_row){
        .fields = row->fields, .cap = row->cap, .start = ref->at, .problem_at = ref->at};
    for (;;) {
        dz_csv_field field = reference_field(ref, row);
        if (row->count < row->cap)
            row->fields[row->count] = field;
        row->count++;
        if (ref->at == ref->len || ref->data[ref->at] != ref->separator)
            break;
        ref->at++;
    }
    row->end = ref->at;
    if (ref->at < ref->len && ref->data[ref->at] == '\r' && ref->at + 1 < ref->len &&
        ref->data[ref->at + 1] == '\n')
        ref->at++;
    if (ref->at < ref->len)
        ref->at++;
    if (row->count == 1 && row->start == row->end) {
        row->count = 0;
        return true;
    }
    if (ref->width == 0)
        ref->width = row->count;
    if (row->count != ref->width)
        reference_problem(row, DZ_CSV_RAGGED, row->start);
    return true;
}

/* The line and column by counting from the start. */
static inline dz_csv_place reference_where(const char *data, size_t len, size_t offset)
{
    size_t first = len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    dz_csv_place place = {1, 1};
    for (size_t i = first; i < offset; i++) {
        bool ends = data[i] == '\n' || (data[i] == '\r' && (i + 1 == len || data[i + 1] != '\n'));
        place.line += ends;
        place.column = ends ? 1 : place.column + 1;
    }
    return place;
}

static inline bool reference_same_row(const dz_csv_row *a, const dz_csv_row *b)
{
    if (a->count != b->count || a->start != b->start || a->end != b->end ||
        a->problem != b->problem || a->problem_at != b->problem_at)
        return false;
    for (size_t i = 0; i < a->count && i < a->cap; i++)
        if (a->fields[i].text.ptr != b->fields[i].text.ptr ||
            a->fields[i].text.len != b->fields[i].text.len ||
            a->fields[i].quoted != b->fields[i].quoted)
            return false;
    return true;
}

enum { REFERENCE_CAP = 16 };

/* Whether scanner and reference agree on the whole input. */
static inline bool reference_agrees(const char *data, size_t len, char separator)
{
    dz_csv_field fields[2][REFERENCE_CAP];
    dz_csv_row row = {.fields = fields[0], .cap = REFERENCE_CAP};
    dz_csv_row expected = {.fields = fields[1], .cap = REFERENCE_CAP};
    dz_csv csv;
    if (dz_csv_init(&csv, dz_slice_make(data, len), &(dz_csv_options){.separator = separator}) < 0)
        return false;
    reference ref = {.data = data, .len = len, .separator = separator};
    ref.at = len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (reference_next(&ref, &expected)) {
        if (dz_csv_next(&csv, &row) != 1 || !reference_same_row(&row, &expected))
            return false;
        for (size_t i = row.start; row.ascii && i < row.end; i++)
            if ((unsigned char)data[i] > 127)
                return false;
        dz_csv_place place = dz_csv_where(&csv, row.problem_at);
        dz_csv_place counted = reference_where(data, len < 4096 ? len : 0, row.problem_at);
        if (len < 4096 && (place.line != counted.line || place.column != counted.column))
            return false;
    }
    return dz_csv_next(&csv, &row) == 0;
}

/* Whether two scanners at one place would go on alike. After `stopped` the rest is not used. */
static inline bool reference_same_index(const dz_csv *a, const dz_csv *b)
{
    if (a->count != b->count || a->stopped != b->stopped ||
        memcmp(a->index, b->index, a->count * sizeof a->index[0]) != 0)
        return false;
    return a->stopped ||
           (a->scanned == b->scanned && a->inside == b->inside && a->after_cut == b->after_cut &&
            a->after_close == b->after_close && (a->high != 0) == (b->high != 0));
}

/* Whether every kernel this machine has finds the same as the scalar one. */
static inline bool reference_kernels_agree(const char *data, size_t len, char separator)
{
    size_t count;
    const dz_csv_kernel_entry *kernels = dz_csv_kernels(&count);
    for (size_t i = 0; i + 1 < count; i++) {
        if (!dz_csv_kernel_supported(&kernels[i]))
            continue;
        dz_csv a, b;
        dz_csv_options options = {.separator = separator};
        if (dz_csv_init(&a, dz_slice_make(data, len), &options) < 0 ||
            dz_csv_init(&b, dz_slice_make(data, len), &options) < 0)
            return false;
        do {
            a.window = b.window = a.scanned;
            a.count = b.count = 0;
            kernels[i].run(&a);
            kernels[count - 1].run(&b);
            if (!reference_same_index(&a, &b))
                return false;
        } while (!a.stopped);
    }
    return true;
}

#endif
