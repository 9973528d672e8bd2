#include "http/head.h"

#include "http/chars.h"
#include "http/fields.h"
#include "http/split.h"
#include "http/scan.h"
#include "http/target.h"

/* Empty lines before a request line are left-overs of old clients (RFC 9112 2.2). */
enum { EMPTY_LINES_MAX = 4 };

typedef struct cursor {
    const char *begin, *at, *end;
} cursor;

enum { LINE = 1 };

/* Finds the end of the line that goes on at c->at. LINE: *end is its CR and c->at the next line;
 * DZ_HEAD_MORE: c->at is where to look next time; -400 for any other control byte. */
static inline __attribute__((always_inline)) int end_of_line(cursor *c, const char **end)
{
    const char *stop = dz_scan_control(c->begin, c->at, c->end);
    c->at = stop;
    if (stop == c->end)
        return DZ_HEAD_MORE;
    if (*stop != '\r')
        return -400;
    if (stop + 1 == c->end)
        return DZ_HEAD_MORE;
    if (stop[1] != '\n')
        return -400;
    *end = stop;
    c->at = stop + 2;
    return LINE;
}

static size_t skip_empty_lines(const char *bytes, size_t len)
{
    size_t at = 0;
    for (int i = 0; i < EMPTY_LINES_MAX; i++, at += 2)
        if (len - at < 2 || bytes[at] != '\r' || bytes[at + 1] != '\n')
            break;
    return at;
}

dz_method dz_method_of(dz_slice token)
{
    static const dz_slice names[] = {
#define X(name, text) {text, sizeof(text) - 1},
        DZ_METHODS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (dz_slice_equal(token, names[i]))
            return (dz_method)i;
    return DZ_OTHER;
}

const char *dz_method_name(dz_method method)
{
    static const char *const names[] = {
#define X(name, text) text,
        DZ_METHODS(X)
#undef X
    };
    return (unsigned)method < DZ_OTHER ? names[method] : "";
}

/* The status for a request line above the limit: its target is too long, unless even the method
 * finds no end. */
static int too_long(const char *line)
{
    return memchr(line, ' ', DZ_METHOD_MAX + 1) ? -414 : -501;
}

/* `line` is followed by CR, which ends every loop over a class of bytes. */
static int parse_request_line(dz_head *head, dz_slice line, const dz_head_limits *limits)
{
    if (line.len > limits->line_max)
        return line.len > DZ_METHOD_MAX ? too_long(line.ptr) : -414;
    const char *at = line.ptr, *end = line.ptr + line.len;
    while (dz_char_is(*at, DZ_CHAR_TOKEN))
        at++;
    size_t method_len = (size_t)(at - line.ptr);
    if (method_len == 0 || *at != ' ')
        return -400;
    if (method_len > DZ_METHOD_MAX)
        return -501;
    head->method_text = dz_slice_make(line.ptr, method_len);
    head->method = (uint8_t)dz_method_of(head->method_text);
    at++;

    static const char version[] = " HTTP/";
    enum { VERSION_LEN = sizeof " HTTP/1.1" - 1 };
    if (end - at < VERSION_LEN)
        return -400;
    const char *tail = end - VERSION_LEN;
    if (memcmp(tail, version, sizeof version - 1) != 0 || !dz_char_digit(tail[6]) ||
        tail[7] != '.' || !dz_char_digit(tail[8]))
        return -400;
    if (tail[6] != '1')
        return -505;
    head->minor = tail[8] != '0';
    head->target = dz_slice_make(at, (size_t)(tail - at));
    return dz_target_parse(head);
}

/* `line` is not empty and followed by CR. Folded lines, empty names and space before the colon all
 * fail the first check (RFC 9112 5.1, 5.2). */
static int parse_field(dz_head *head, dz_fields *fields, dz_slice line,
                       const dz_head_limits *limits)
{
    const char *at = line.ptr, *end = line.ptr + line.len;
    while (dz_char_is(*at, DZ_CHAR_TOKEN))
        at++;
    if (at == line.ptr || *at != ':')
        return -400;
    if (head->header_count == limits->headers_max)
        return -431;
    dz_header *header = &head->headers[head->header_count++];
    header->name = dz_slice_make(line.ptr, (size_t)(at - line.ptr));
    header->value = dz_trim(dz_slice_make(at + 1, (size_t)(end - at - 1)));
    return dz_fields_add(fields, head, header);
}

/* Parses from the request line on. LINE: c->at is after the head. */
static int parse_lines(dz_head *head, cursor *c, const dz_head_limits *limits)
{
    dz_fields fields = {0};
    const char *start = c->at, *end;
    int rc = end_of_line(c, &end);
    if (rc == LINE)
        rc = parse_request_line(head, dz_slice_make(start, (size_t)(end - start)), limits);
    else if (rc == DZ_HEAD_MORE)
        return DZ_HEAD_MORE;
    while (rc == 0) {
        start = c->at;
        rc = end_of_line(c, &end);
        if (rc != LINE)
            return rc;
        if (end == start) {
            rc = dz_fields_finish(&fields, head);
            return rc < 0 ? rc : LINE;
        }
        rc = parse_field(head, &fields, dz_slice_make(start, (size_t)(end - start)), limits);
    }
    return rc;
}

/* Goes on looking for the end of the head where an earlier call stopped. LINE: it is there. */
static int find_end(cursor *c, const char *start)
{
    for (;;) {
        const char *end;
        int rc = end_of_line(c, &end);
        if (rc != LINE)
            return rc;
        if (end == start)
            return -400; /* one empty line too many before the request line */
        if (end[-1] == '\n')
            return LINE;
    }
}

/* The head goes on after the bytes there are: may it? `before` bytes were looked at already. */
static int check_more(const cursor *c, const char *start, size_t before,
                      const dz_head_limits *limits)
{
    size_t len = (size_t)(c->end - start), crlf = (size_t)limits->line_max + 2;
    /* Only once, in the call that passes the limit: so all calls together stay linear. */
    if (len >= crlf && before < (size_t)(start - c->begin) + crlf && !memchr(start, '\n', crlf))
        return crlf > DZ_METHOD_MAX ? too_long(start) : -414;
    return (size_t)(c->end - c->begin) >= limits->head_max ? -431 : DZ_HEAD_MORE;
}

/* Only what a valid head may leave unwritten; to clear the whole struct costs a third of a short
 * head's time. */
static void clear(dz_head *head)
{
    head->keep_alive = head->chunked = head->has_length = false;
    head->expect_continue = head->upgrade = false;
    head->header_count = 0;
    head->content_length = 0;
    head->authority = head->query = head->path = head->host = (dz_slice){0};
}

int dz_head_parse(dz_head *head, const char *bytes, size_t len, size_t *scanned,
                  const dz_head_limits *limits)
{
    clear(head);
    if (len > limits->head_max)
        len = limits->head_max;
    if (len == 0)
        return DZ_HEAD_MORE;
    size_t before = *scanned, first = skip_empty_lines(bytes, len);
    const char *start = bytes + first;
    cursor c = {bytes, bytes + (before > first ? before : first), bytes + len};

    /* The first look parses as it goes. When bytes were missing, later ones only look for the end,
     * and the whole is parsed once it is there. */
    int rc = LINE;
    if (before > 0)
        rc = find_end(&c, start);
    if (rc == LINE) {
        c.at = start;
        rc = parse_lines(head, &c, limits);
    }
    if (rc == DZ_HEAD_MORE) {
        *scanned = (size_t)(c.at - bytes);
        return check_more(&c, start, before, limits);
    }
    if (rc < 0)
        return rc;
    *scanned = 0;
    return (int)(c.at - bytes);
}
