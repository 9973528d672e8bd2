#include "json_stream.h"

#include <stdlib.h>

enum { MAX_DEPTH = 128, MAX_STRING = 64 << 20 };

static void fail(dz_json *j, const char *what)
{
    if (!j->error)
        j->error = what;
    j->next = EOF;
}

static int advance(dz_json *j)
{
    if (j->error)
        return EOF;
    if (j->next == '\n')
        j->line++;
    j->next = getc_unlocked(j->file);
    return j->next;
}

static int skip_space(dz_json *j)
{
    while (j->next == ' ' || j->next == '\t' || j->next == '\n' || j->next == '\r')
        advance(j);
    return j->next;
}

void dz_json_open(dz_json *j, FILE *file)
{
    *j = (dz_json){.file = file, .line = 1, .next = ' '};
}

void dz_json_close(dz_json *j)
{
    dz_buf_release(&j->text);
}

int dz_json_peek(dz_json *j)
{
    return skip_space(j);
}

static bool expect(dz_json *j, int c, const char *what)
{
    if (skip_space(j) != c) {
        fail(j, what);
        return false;
    }
    advance(j);
    return !j->error;
}

static void put(dz_json *j, const char *bytes, size_t len)
{
    if (j->text.len + len > MAX_STRING || dz_buf_append(&j->text, dz_slice_make(bytes, len)) < 0)
        fail(j, "string too long");
}

static void put_utf8(dz_json *j, uint32_t c)
{
    char b[4];
    size_t n;
    if (c < 0x80) {
        b[0] = (char)c;
        n = 1;
    } else if (c < 0x800) {
        b[0] = (char)(0xc0 | (c >> 6));
        b[1] = (char)(0x80 | (c & 0x3f));
        n = 2;
    } else if (c < 0x10000) {
        b[0] = (char)(0xe0 | (c >> 12));
        b[1] = (char)(0x80 | ((c >> 6) & 0x3f));
        b[2] = (char)(0x80 | (c & 0x3f));
        n = 3;
    } else {
        b[0] = (char)(0xf0 | (c >> 18));
        b[1] = (char)(0x80 | ((c >> 12) & 0x3f));
        b[2] = (char)(0x80 | ((c >> 6) & 0x3f));
        b[3] = (char)(0x80 | (c & 0x3f));
        n = 4;
    }
    put(j, b, n);
}

static uint32_t read_hex4(dz_json *j)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        int c = j->next, digit = c >= '0' && c <= '9'   ? c - '0'
                                 : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                 : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                        : -1;
        if (digit < 0) {
            fail(j, "bad \\u escape");
            return 0;
        }
        value = value * 16 + (uint32_t)digit;
        advance(j);
    }
    return value;
}

/* A surrogate without its partner, which JavaScript strings may hold, becomes U+FFFD. */
static void read_unicode(dz_json *j)
{
    uint32_t c = read_hex4(j);
    while (c >= 0xd800 && c < 0xdc00 && j->next == '\\') {
        advance(j);
        if (j->next != 'u') {
            put_utf8(j, 0xfffd);
            ungetc(j->next, j->file);
            j->next = '\\';
            return;
        }
        advance(j);
        uint32_t low = read_hex4(j);
        if (low >= 0xdc00 && low < 0xe000) {
            put_utf8(j, 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00));
            return;
        }
        put_utf8(j, 0xfffd);
        c = low;
    }
    put_utf8(j, c >= 0xd800 && c < 0xe000 ? 0xfffd : c);
}

static void read_escape(dz_json *j)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c = j->next;
    advance(j);
    if (c == 'u') {
        read_unicode(j);
        return;
    }
    const char *at = c > 0 && c < 128 ? strchr(from, c) : NULL;
    if (!at || !*at)
        fail(j, "bad escape in string");
    else
        put(j, &to[at - from], 1);
}

static dz_slice read_string(dz_json *j)
{
    j->text.len = 0;
    if (!expect(j, '"', "expected a string"))
        return DZ_LIT("");
    while (j->next != '"' && !j->error) {
        if (j->next == EOF || (unsigned)j->next < 0x20) {
            fail(j, "string without end");
        } else if (j->next == '\\') {
            advance(j);
            read_escape(j);
        } else {
            char c = (char)j->next;
            put(j, &c, 1);
            advance(j);
        }
    }
    advance(j);
    return j->error ? DZ_LIT("") : dz_buf_slice(&j->text);
}

static void word(dz_json *j, const char *text)
{
    for (; *text && !j->error; text++) {
        if (j->next != *text)
            fail(j, "expected a value");
        else
            advance(j);
    }
}

dz_slice dz_json_string(dz_json *j)
{
    if (skip_space(j) == 'n') {
        word(j, "null");
        return DZ_LIT("");
    }
    return read_string(j);
}

static const char *read_number(dz_json *j, char *out, size_t cap)
{
    size_t n = 0;
    skip_space(j);
    if (j->next == 'n') {
        word(j, "null");
        return "0";
    }
    while (j->next != EOF && j->next && strchr("+-.eE0123456789", j->next) && n < cap - 1) {
        out[n++] = (char)j->next;
        advance(j);
    }
    out[n] = 0;
    if (n == 0)
        fail(j, "expected a number");
    return out;
}

double dz_json_number(dz_json *j)
{
    char text[64], *end;
    double d = strtod(read_number(j, text, sizeof text), &end);
    if (*end)
        fail(j, "expected a number");
    return d;
}

int64_t dz_json_integer(dz_json *j)
{
    char text[64], *end;
    const char *number = read_number(j, text, sizeof text);
    int64_t n = strtoll(number, &end, 10);
    if (*end == 'e' || *end == 'E' || *end == '.') {
        double d = strtod(number, &end);
        n = d >= 9.2e18 ? INT64_MAX : d <= -9.2e18 ? INT64_MIN : (int64_t)d;
    }
    if (*end)
        fail(j, "expected a number");
    return n;
}

static bool enter(dz_json *j)
{
    advance(j);
    if (++j->depth > MAX_DEPTH)
        fail(j, "nested too deeply");
    return !j->error;
}

/* After a value: true when another follows. */
static bool more(dz_json *j, int end)
{
    int c = skip_space(j);
    if (c == ',') {
        advance(j);
        return !j->error;
    }
    if (c == end)
        advance(j);
    else
        fail(j, "expected ',' or the end of a list");
    return false;
}

void dz_json_members(dz_json *j, void (*each)(void *arg, dz_json *j, dz_slice key), void *arg)
{
    if (skip_space(j) != '{') {
        fail(j, "expected an object");
        return;
    }
    if (enter(j) && skip_space(j) == '}') {
        advance(j);
    } else {
        do {
            dz_slice key = read_string(j);
            if (!expect(j, ':', "expected ':'"))
                break;
            skip_space(j);
            each(arg, j, key);
        } while (!j->error && more(j, '}'));
    }
    j->depth--;
}

void dz_json_elements(dz_json *j, void (*each)(void *arg, dz_json *j), void *arg)
{
    if (skip_space(j) != '[') {
        fail(j, "expected an array");
        return;
    }
    if (enter(j) && skip_space(j) == ']') {
        advance(j);
    } else {
        do
            each(arg, j);
        while (!j->error && more(j, ']'));
    }
    j->depth--;
}

static void skip_member(void *arg, dz_json *j, dz_slice key)
{
    (void)arg;
    (void)key;
    dz_json_skip(j);
}

static void skip_element(void *arg, dz_json *j)
{
    (void)arg;
    dz_json_skip(j);
}

void dz_json_skip(dz_json *j)
{
    switch (skip_space(j)) {
    case '{':
        dz_json_members(j, skip_member, NULL);
        return;
    case '[':
        dz_json_elements(j, skip_element, NULL);
        return;
    case '"':
        read_string(j);
        return;
    case 't':
        word(j, "true");
        return;
    case 'f':
        word(j, "false");
        return;
    default:
        dz_json_number(j);
    }
}

void dz_json_end(dz_json *j)
{
    if (!j->error && skip_space(j) != EOF)
        fail(j, "something follows the end");
}

const char *dz_json_error(const dz_json *j)
{
    return j->error;
}
