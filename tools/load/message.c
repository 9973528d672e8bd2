#include "load/message.h"

#include "common/values.h"

#include <donmaz/error.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int append_text(dz_buf *out, dz_slice text)
{
    return dz_buf_append(out, text);
}

static bool has_field(const load_message_spec *spec, dz_slice name)
{
    for (size_t i = 0; i < spec->field_count; i++)
        if (dz_slice_equal_nocase(spec->fields[i].name, name))
            return true;
    return false;
}

static int append_field(dz_buf *out, dz_slice name, dz_slice value)
{
    int rc = append_text(out, name);
    if (rc == 0)
        rc = append_text(out, DZ_LIT(": "));
    if (rc == 0)
        rc = append_text(out, value);
    return rc < 0 ? rc : append_text(out, DZ_LIT("\r\n"));
}

/* Request line and fields as given; the length of the body comes later. */
static int write_head(const load_message_spec *spec, dz_buf *out)
{
    int rc = append_text(out, spec->method);
    if (rc == 0)
        rc = append_text(out, DZ_LIT(" "));
    if (rc == 0)
        rc = append_text(out, spec->path);
    if (rc == 0)
        rc = append_text(out, DZ_LIT(" HTTP/1.1\r\n"));
    if (rc == 0 && !has_field(spec, DZ_LIT("Host")))
        rc = append_field(out, DZ_LIT("Host"), spec->authority);
    if (rc == 0 && spec->close && !has_field(spec, DZ_LIT("Connection")))
        rc = append_field(out, DZ_LIT("Connection"), DZ_LIT("close"));
    for (size_t i = 0; i < spec->field_count && rc == 0; i++)
        rc = append_field(out, spec->fields[i].name, spec->fields[i].value);
    return rc;
}

static dz_slice trim(dz_slice s)
{
    while (s.len > 0 && s.ptr[0] == ' ') {
        s.ptr++;
        s.len--;
    }
    while (s.len > 0 && s.ptr[s.len - 1] == ' ')
        s.len--;
    return s;
}

/* The next blank-separated word of *text, taken off it. */
static dz_slice next_word(dz_slice *text)
{
    *text = trim(*text);
    const char *blank = text->len > 0 ? memchr(text->ptr, ' ', text->len) : NULL;
    dz_slice word = dz_slice_make(text->ptr, blank ? (size_t)(blank - text->ptr) : text->len);
    *text = dz_slice_make(text->ptr + word.len, text->len - word.len);
    return word;
}

static bool read_integer(dz_slice text, int64_t *out)
{
    bool negative = text.len > 1 && text.ptr[0] == '-';
    uint64_t value;
    if (negative)
        text = dz_slice_make(text.ptr + 1, text.len - 1);
    if (dz_read_count(text, &value) < 0 || value > INT64_MAX / 2)
        return false;
    *out = negative ? -(int64_t)value : (int64_t)value;
    return true;
}

/* What stands between {{ and }}. False: nothing we know. */
static bool read_part(dz_slice inside, const load_feed_rows *rows, load_part *part)
{
    dz_slice rest = inside, word = next_word(&rest);
    *part = (load_part){.kind = LOAD_PART_TEXT};
    if (dz_slice_equal(word, DZ_LIT("random"))) {
        dz_slice low = next_word(&rest), high = next_word(&rest);
        part->kind = LOAD_PART_RANDOM;
        return trim(rest).len == 0 && read_integer(low, &part->low) &&
               read_integer(high, &part->high) && part->low <= part->high;
    }
    if (trim(rest).len > 0)
        return false;
    if (dz_slice_equal(word, DZ_LIT("seq"))) {
        part->kind = LOAD_PART_SEQ;
        return true;
    }
    if (dz_slice_equal(word, DZ_LIT("uuid"))) {
        part->kind = LOAD_PART_UUID;
        return true;
    }
    for (size_t i = 0; rows && i < rows->columns; i++) {
        if (dz_slice_equal(word, dz_slice_of(rows->names[i]))) {
            part->kind = LOAD_PART_CELL;
            part->column = i;
            return true;
        }
    }
    return false;
}

static int add_part(load_template *t, load_part part)
{
    if (part.kind == LOAD_PART_TEXT && part.text.len == 0)
        return 0;
    load_part *parts = realloc(t->parts, (t->count + 1) * sizeof *parts);
    if (!parts)
        return DZ_E_NOMEM;
    parts[t->count++] = part;
    t->parts = parts;
    return 0;
}

/* Finds the next replaceable piece at or after `at`: its bounds and what it is. */
typedef struct piece {
    size_t start, end;
    load_part part;
} piece;

static const char *find(dz_slice text, size_t at, dz_slice what)
{
    return at < text.len ? memmem(text.ptr + at, text.len - at, what.ptr, what.len) : NULL;
}

/* 1 found, 0 none, DZ_E_INVALID an unknown {{name}} in strict mode (its text in piece). */
static int next_piece(dz_slice text, size_t at, const load_message_spec *spec, piece *p)
{
    const char *id = spec->replace_id ? find(text, at, DZ_LIT("[<id>]")) : NULL;
    const char *open = spec->templates ? find(text, at, DZ_LIT("{{")) : NULL;
    while (open && (!id || open < id)) {
        size_t start = (size_t)(open - text.ptr);
        const char *close = find(text, start + 2, DZ_LIT("}}"));
        if (!close)
            break;
        size_t end = (size_t)(close - text.ptr);
        dz_slice inside = dz_slice_make(open + 2, end - start - 2);
        *p = (piece){.start = start, .end = end + 2};
        if (read_part(inside, spec->rows, &p->part))
            return 1;
        if (spec->strict)
            return DZ_E_INVALID;
        open = find(text, start + 1, DZ_LIT("{{"));
    }
    if (!id)
        return 0;
    size_t start = (size_t)(id - text.ptr);
    *p = (piece){.start = start, .end = start + 6, .part = {.kind = LOAD_PART_UUID}};
    return 1;
}

static int compile(load_template *t, dz_slice text, const load_message_spec *spec, char *why,
                   size_t why_size)
{
    size_t at = 0;
    for (;;) {
        piece p;
        int rc = next_piece(text, at, spec, &p);
        if (rc == DZ_E_INVALID)
            snprintf(why, why_size,
                     "no template %.*s (seq, uuid, random LOW HIGH, or a column of the "
                     "data file)",
                     (int)(p.end - p.start), text.ptr + p.start);
        if (rc < 0)
            return rc;
        size_t end = rc == 0 ? text.len : p.start;
        int added = add_part(t, (load_part){.text = dz_slice_make(text.ptr + at, end - at)});
        if (added == 0 && rc == 1)
            added = add_part(t, p.part);
        if (added < 0 || rc == 0)
            return added;
        at = p.end;
    }
}

static bool changes(const load_template *t)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->parts[i].kind != LOAD_PART_TEXT)
            return true;
    return false;
}

static bool uses_rows(const load_template *t)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->parts[i].kind == LOAD_PART_CELL)
            return true;
    return false;
}

/* A line break in a cell would end its field and begin another, or another request; in the request
 * line a blank would end the target. */
static bool fits_head(const char *cell, bool in_request_line)
{
    for (; *cell; cell++) {
        unsigned char c = (unsigned char)*cell;
        if ((c < ' ' && c != '\t') || c == 0x7f || (in_request_line && (c == ' ' || c == '\t')))
            return false;
    }
    return true;
}

static int check_column(const load_feed_rows *rows, size_t column, bool in_request_line, char *why,
                        size_t why_size)
{
    for (size_t row = 0; row < rows->rows; row++) {
        if (fits_head(rows->cells[row * rows->columns + column], in_request_line))
            continue;
        snprintf(why, why_size,
                 "row %zu of the data has a %s in column '%.100s', which stands in %s", row + 1,
                 in_request_line ? "blank or control byte" : "control byte", rows->names[column],
                 in_request_line ? "the path" : "a header");
        return DZ_E_INVALID;
    }
    return 0;
}

static int check_head(const load_template *head, const load_feed_rows *rows, char *why,
                      size_t why_size)
{
    bool in_request_line = true;
    int rc = 0;
    for (size_t i = 0; i < head->count && rc == 0; i++) {
        const load_part *part = &head->parts[i];
        if (part->kind == LOAD_PART_TEXT && memchr(part->text.ptr, '\n', part->text.len))
            in_request_line = false;
        else if (part->kind == LOAD_PART_CELL)
            rc = check_column(rows, part->column, in_request_line, why, why_size);
    }
    return rc;
}

enum { WIRE_MAX = 64 * 1024 };

/* A request that never changes is written once, as often as may go out together. */
static int write_wire(load_message *m, size_t copies)
{
    load_mixer mixer = {0};
    int rc = load_message_append(m, &mixer, &m->wire);
    dz_buf_release(&mixer.body);
    if (rc < 0)
        return rc;
    m->wire_len = m->wire.len;
    m->copies = 1;
    while (m->copies < copies && m->wire.len + m->wire_len <= WIRE_MAX) {
        rc = dz_buf_reserve(&m->wire, m->wire.len + m->wire_len);
        if (rc < 0)
            return rc;
        memcpy(m->wire.data + m->wire.len, m->wire.data, m->wire_len);
        m->wire.len += m->wire_len;
        m->copies++;
    }
    return 0;
}

int load_message_init(load_message *m, const load_message_spec *spec, char *why, size_t why_size)
{
    *m = (load_message){.has_body = spec->has_body,
                        .own_length = has_field(spec, DZ_LIT("Content-Length")) ||
                                      has_field(spec, DZ_LIT("Transfer-Encoding"))};
    int rc = write_head(spec, &m->text);
    size_t head = m->text.len;
    if (rc == 0)
        rc = dz_buf_append(&m->text, spec->body);
    if (rc == 0)
        rc = compile(&m->head, dz_slice_make(m->text.data, head), spec, why, why_size);
    if (rc == 0)
        rc = check_head(&m->head, spec->rows, why, why_size);
    if (rc == 0)
        rc = compile(&m->body, dz_slice_make(m->text.data + head, m->text.len - head), spec, why,
                     why_size);
    if (rc == 0) {
        m->changes = changes(&m->head) || changes(&m->body);
        m->uses_rows = uses_rows(&m->head) || uses_rows(&m->body);
        rc = m->changes ? 0 : write_wire(m, spec->copies);
    }
    if (rc < 0)
        load_message_free(m);
    return rc;
}

void load_message_free(load_message *m)
{
    free(m->head.parts);
    free(m->body.parts);
    dz_buf_release(&m->text);
    dz_buf_release(&m->wire);
    *m = (load_message){0};
}

/* splitmix64: fast, and good enough for test data. */
static uint64_t next_random(load_mixer *mixer)
{
    uint64_t z = mixer->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static int print_uuid(load_mixer *mixer, char *out, size_t size)
{
    uint64_t a = next_random(mixer), b = next_random(mixer);
    a = (a & ~UINT64_C(0xF000)) | 0x4000;                 /* version 4 */
    b = (b & ~(UINT64_C(3) << 62)) | (UINT64_C(2) << 62); /* variant of RFC 9562 */
    return snprintf(out, size,
                    "%08" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%012" PRIx64, a >> 32,
                    a >> 16 & 0xFFFF, a & 0xFFFF, b >> 48, b & UINT64_C(0xFFFFFFFFFFFF));
}

static int render(const load_template *t, load_mixer *mixer, const char *const *row, dz_buf *out)
{
    int rc = 0;
    for (size_t i = 0; i < t->count && rc == 0; i++) {
        const load_part *part = &t->parts[i];
        char text[48];
        int len = 0;
        switch (part->kind) {
        case LOAD_PART_TEXT:
            rc = dz_buf_append(out, part->text);
            continue;
        case LOAD_PART_CELL:
            rc = dz_buf_append(out, dz_slice_of(row ? row[part->column] : NULL));
            continue;
        case LOAD_PART_SEQ:
            len = snprintf(
                text, sizeof text, "%" PRIu64,
                (uint64_t)atomic_fetch_add_explicit(mixer->seq, 1, memory_order_relaxed) + 1);
            break;
        case LOAD_PART_UUID:
            len = print_uuid(mixer, text, sizeof text);
            break;
        case LOAD_PART_RANDOM:
            len = snprintf(text, sizeof text, "%" PRId64,
                           part->low + (int64_t)(next_random(mixer) %
                                                 ((uint64_t)(part->high - part->low) + 1)));
            break;
        }
        rc = dz_buf_append(out, dz_slice_make(text, (size_t)len));
    }
    return rc;
}

static const char *const *next_row(load_feed_rows *rows)
{
    size_t n = atomic_fetch_add_explicit(&rows->next, 1, memory_order_relaxed) % rows->rows;
    return (const char *const *)&rows->cells[n * rows->columns];
}

int load_message_append(const load_message *m, load_mixer *mixer, dz_buf *out)
{
    const char *const *row = m->uses_rows && mixer->rows ? next_row(mixer->rows) : NULL;
    mixer->body.len = 0;
    int rc = render(&m->body, mixer, row, &mixer->body);
    if (rc == 0)
        rc = render(&m->head, mixer, row, out);
    if (rc == 0 && !m->own_length && (m->has_body || mixer->body.len > 0)) {
        char field[48];
        int len = snprintf(field, sizeof field, "Content-Length: %zu\r\n", mixer->body.len);
        rc = dz_buf_append(out, dz_slice_make(field, (size_t)len));
    }
    if (rc == 0)
        rc = dz_buf_append(out, DZ_LIT("\r\n"));
    return rc < 0 ? rc : dz_buf_append(out, dz_buf_slice(&mixer->body));
}
