#include <donmaz/csv.h>

#include "text/csv_kernel.h"

/* Behind a byte order mark. */
static size_t first_byte(const dz_csv *csv)
{
    return csv->len >= 3 && memcmp(csv->data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

int dz_csv_init(dz_csv *csv, dz_slice bytes, const dz_csv_options *options)
{
    static const dz_csv_options defaults;
    if (!options)
        options = &defaults;
    char separator = options->separator;
    if (separator == '\0')
        separator = ',';
    if (separator == '"' || separator == '\r' || separator == '\n')
        return DZ_E_INVALID;
    csv->data = bytes.ptr;
    csv->len = bytes.len;
    csv->separator = separator;
    csv->strict = options->strict;
    csv->ragged = options->ragged;
    csv->width = 0;
    size_t start = first_byte(csv);
    csv->counted = csv->line_start = start;
    csv->line = 1;
    dz_csv_seek(csv, start);
    return 0;
}

/* Starts the index anew at the first byte of a field. */
static void restart_index(dz_csv *csv, size_t at)
{
    csv->window = csv->scanned = at;
    csv->next = csv->count = 0;
    csv->stopped = false;
    csv->inside = csv->after_close = 0;
    csv->after_cut = 1;
    csv->high = 0;
}

void dz_csv_seek(dz_csv *csv, size_t offset)
{
    csv->at = offset;
    restart_index(csv, offset);
}

/* Tries to have something in the index again. False at the end or at something malformed. */
static bool refill_index(dz_csv *csv, dz_csv_row *row)
{
    dz_csv_kernel *run = dz_csv_kernel_chosen()->run;
    while (!csv->stopped) {
        csv->window = csv->scanned;
        csv->next = csv->count = 0;
        csv->high = 0;
        run(csv);
        row->ascii = row->ascii && csv->high == 0;
        if (csv->count > 0)
            return true;
    }
    return false;
}

static void note_problem(dz_csv_row *row, dz_csv_problem problem, size_t at)
{
    if (row->problem != DZ_CSV_OK)
        return;
    row->problem = problem;
    row->problem_at = at;
}

static void store_field(dz_csv_row *row, const char *text, size_t len, bool quoted)
{
    if (row->count < row->cap)
        row->fields[row->count] = (dz_csv_field){dz_slice_make(text, len), quoted};
    row->count++;
}

static bool is_cut(const dz_csv *csv, char c)
{
    return c == csv->separator || c == '\n' || c == '\r';
}

/* The place of the quote that closes the one at `start`, or the input's end. */
static size_t find_closing(const dz_csv *csv, size_t start)
{
    size_t at = start + 1;
    for (;;) {
        const char *quote = at < csv->len ? memchr(csv->data + at, '"', csv->len - at) : NULL;
        if (!quote)
            return csv->len;
        at = (size_t)(quote - csv->data);
        if (at + 1 == csv->len || csv->data[at + 1] != '"')
            return at;
        at += 2;
    }
}

/* Reads, by hand, the field at `start`: the last one of the input, or one with a problem. Returns
 * its end, and starts the index anew behind it. */
static size_t read_odd_field(dz_csv *csv, dz_csv_row *row, size_t start)
{
    const char *data = csv->data;
    size_t at = start;
    row->ascii = false;
    bool quoted = start < csv->len && data[start] == '"';
    if (quoted) {
        at = find_closing(csv, start);
        if (at == csv->len) {
            note_problem(row, DZ_CSV_UNCLOSED_QUOTE, start);
            quoted = false;
        } else if (++at < csv->len && !is_cut(csv, data[at])) {
            note_problem(row, DZ_CSV_AFTER_QUOTE, at);
            quoted = false;
        }
    }
    for (; at < csv->len && !is_cut(csv, data[at]); at++)
        if (data[at] == '"')
            note_problem(row, DZ_CSV_STRAY_QUOTE, at);
    if (quoted)
        store_field(row, data + start + 1, at - start - 2, true);
    else
        store_field(row, data + start, at - start, false);
    restart_index(csv, at < csv->len ? at + 1 : at);
    return at;
}

/* Sets where the next row starts, given the place of a line end or of the input's end. */
static void end_row(dz_csv *csv, dz_csv_row *row, size_t end)
{
    row->end = csv->at = end;
    if (end == csv->len)
        return;
    csv->at++;
    if (csv->data[end] != '\r' || csv->at == csv->len || csv->data[csv->at] != '\n')
        return;
    csv->at++;
    /* The LF is in the index too, unless the index ends here. */
    if (csv->next == csv->count)
        restart_index(csv, csv->at);
    else
        csv->next++;
}

static int finish_row(dz_csv *csv, dz_csv_row *row)
{
    if (row->count == 1 && row->start == row->end) {
        row->count = 0; /* a blank line */
        return 1;
    }
    if (csv->width == 0)
        csv->width = row->count;
    if (row->count != csv->width && !csv->ragged)
        note_problem(row, DZ_CSV_RAGGED, row->start);
    return row->problem != DZ_CSV_OK && csv->strict ? DZ_E_FORMAT : 1;
}

/* Takes fields from the index while it has some. Returns true when a line end was reached; then
 * *at is its place, else it is where the next field starts. */
static bool take_indexed(dz_csv *csv, dz_csv_row *row, size_t *at)
{
    /* In variables of its own, for what is stored through row->fields might change *csv. */
    const char *data = csv->data, *base = data + csv->window;
    const char *start = data + *at, *end = start;
    const uint32_t *index = csv->index + csv->next, *last = csv->index + csv->count;
    char separator = csv->separator;
    size_t count = row->count, cap = row->cap;
    dz_csv_field *fields = row->fields;
    bool ended = false;
    while (index < last && !ended) {
        end = base + *index++;
        /* start <= end, which is inside the input. */
        bool quoted = *start == '"';
        if (count < cap)
            fields[count] = (dz_csv_field){
                dz_slice_make(start + quoted, (size_t)(end - start) - 2 * (size_t)quoted), quoted};
        count++;
        ended = *end != separator;
        start = end + 1;
    }
    csv->next = (uint32_t)(index - csv->index);
    row->count = count;
    *at = (size_t)((ended ? end : start) - data);
    return ended;
}

int dz_csv_next(dz_csv *csv, dz_csv_row *row)
{
    size_t at = csv->at;
    row->count = 0;
    row->start = at;
    row->ascii = csv->high == 0;
    row->problem = DZ_CSV_OK;
    row->problem_at = at;
    if (at >= csv->len)
        return 0;
    for (;;) {
        if (csv->next < csv->count || refill_index(csv, row)) {
            if (!take_indexed(csv, row, &at))
                continue;
        } else {
            at = read_odd_field(csv, row, at);
            if (at < csv->len && csv->data[at] == csv->separator) {
                at++;
                continue;
            }
        }
        end_row(csv, row, at);
        return finish_row(csv, row);
    }
}

static void start_line(dz_csv *csv, size_t at)
{
    csv->line++;
    csv->line_start = at;
}

/* Counts the lines that end before `to`. */
static void count_lines(dz_csv *csv, size_t to)
{
    const char *data = csv->data;
    while (csv->counted < to) {
        size_t at = csv->counted;
        const char *lf = memchr(data + at, '\n', to - at);
        size_t end = lf ? (size_t)(lf - data) : to;
        /* CRs up to there end lines too, but not one that belongs to an LF. */
        const char *cr;
        while (at < end && (cr = memchr(data + at, '\r', end - at))) {
            at = (size_t)(cr - data) + 1;
            if (at == csv->len || data[at] != '\n')
                start_line(csv, at);
        }
        if (lf)
            start_line(csv, end + 1);
        csv->counted = lf ? end + 1 : to;
    }
}

dz_csv_place dz_csv_where(dz_csv *csv, size_t offset)
{
    if (offset > csv->len)
        offset = csv->len;
    if (offset < csv->line_start) {
        csv->counted = csv->line_start = first_byte(csv);
        csv->line = 1;
    }
    count_lines(csv, offset);
    uint64_t before = offset > csv->line_start ? offset - csv->line_start : 0;
    return (dz_csv_place){csv->line, before + 1};
}

bool dz_csv_needs_unescape(const dz_csv_field *field)
{
    return field->quoted && field->text.len > 0 && memchr(field->text.ptr, '"', field->text.len);
}

size_t dz_csv_unescape(const dz_csv_field *field, char *to)
{
    const char *at = field->text.ptr, *end = at + field->text.len;
    char *start = to;
    while (at < end) {
        const char *quote = field->quoted ? memchr(at, '"', (size_t)(end - at)) : NULL;
        size_t len = (size_t)((quote ? quote + 1 : end) - at);
        memcpy(to, at, len);
        to += len;
        at += quote ? len + 1 : len; /* a quote inside always comes twice */
    }
    return (size_t)(to - start);
}

const char *dz_csv_problem_text(dz_csv_problem problem)
{
    static const char *const texts[] = {
#define X(name, text) text,
        DZ_CSV_PROBLEMS(X)
#undef X
    };
    return (size_t)problem < sizeof texts / sizeof texts[0] ? texts[problem] : "unknown problem";
}

const char *dz_csv_kernel_name(void)
{
    return dz_csv_kernel_chosen()->name;
}
