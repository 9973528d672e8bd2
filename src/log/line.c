#include "log/line.h"

#include <donmaz/error.h>

#include <math.h>
#include <stdio.h>

#define REDACTED DZ_LIT("[Redacted]")

enum { NUMBER_ROOM = 40, TAIL = sizeof(",\"truncated\":true,\"msg\":}\n") + DZ_LINE_DEPTH };

void dz_line_init(dz_line *line, char *memory, size_t size, const char *msg,
                  const dz_redact *redact)
{
    size_t quarter = size / 4, msg_room = msg ? 2 * strlen(msg) + 2 : 0;
    if (msg_room > quarter)
        msg_room = quarter;
    line->at = line->start = memory;
    line->limit = memory + size;
    line->end = line->limit - TAIL - msg_room;
    line->redact = redact;
    line->comma = line->truncated = false;
    line->depth = line->lost = 0;
    line->path_len = 0;
}

void dz_line_raw(dz_line *line, dz_slice text)
{
    memcpy(line->at, text.ptr, text.len);
    line->at += text.len;
    line->comma = true;
}

static size_t count_digits(uint64_t number)
{
    size_t count = 1;
    for (; number >= 10000; number /= 10000)
        count += 4;
    return count + (number >= 10) + (number >= 100) + (number >= 1000);
}

char *dz_digits(char *to, uint64_t number)
{
    static const char pairs[] = "0001020304050607080910111213141516171819"
                                "2021222324252627282930313233343536373839"
                                "4041424344454647484950515253545556575859"
                                "6061626364656667686970717273747576777879"
                                "8081828384858687888990919293949596979899";
    char *end = to + count_digits(number), *at = end;
    while (number >= 100) {
        at -= 2;
        memcpy(at, pairs + 2 * (number % 100), 2);
        number /= 100;
    }
    if (number >= 10)
        memcpy(to, pairs + 2 * number, 2);
    else
        *to = (char)('0' + number);
    return end;
}

/* Whether the rule names the field called `name` in the open groups. */
static bool rule_matches(const dz_line *line, const char *rule, const char *name)
{
    if (rule[0] == '*' && rule[1] == '.')
        return strcasecmp(rule + 2, name) == 0;
    return strncmp(rule, line->path, line->path_len) == 0 &&
           strcmp(rule + line->path_len, name) == 0;
}

static bool is_redacted(const dz_line *line, const char *name)
{
    for (size_t i = 0; i < line->redact->count; i++)
        if (rule_matches(line, line->redact->rules[i], name))
            return true;
    return false;
}

/* What is left for fields; closing a group may have gone a little beyond the end. */
static size_t room_in(const dz_line *line)
{
    return line->at < line->end ? (size_t)(line->end - line->at) : 0;
}

/* Comma, name and colon, when they and `room` more bytes fit. */
static bool put_name(dz_line *line, const char *name, size_t room)
{
    size_t len = strlen(name);
    if (line->lost > 0 || room_in(line) < 6 * len + 4 + room) {
        line->truncated = true;
        return false;
    }
    if (line->comma)
        *line->at++ = ',';
    bool cut = false;
    line->at = dz_escape(line->at, 6 * len + 2, dz_slice_make(name, len), &cut);
    *line->at++ = ':';
    line->comma = true;
    return true;
}

static void put_text(dz_line *line, const char *name, dz_slice text)
{
    if (put_name(line, name, 16))
        line->at = dz_escape(line->at, room_in(line), text, &line->truncated);
}

void dz_line_members(dz_line *line, dz_slice members)
{
    if (members.len == 0)
        return;
    if (line->lost > 0 || room_in(line) < members.len + 1) {
        line->truncated = true;
        return;
    }
    if (line->comma)
        *line->at++ = ',';
    dz_line_raw(line, members);
}

void dz_line_text(dz_line *line, const char *name, dz_slice text)
{
    put_text(line, name, is_redacted(line, name) ? REDACTED : text);
}

void dz_line_uint(dz_line *line, const char *name, uint64_t number)
{
    if (is_redacted(line, name))
        put_text(line, name, REDACTED);
    else if (put_name(line, name, NUMBER_ROOM))
        line->at = dz_digits(line->at, number);
}

static bool is_secret_parameter(const dz_redact *redact, dz_slice name)
{
    for (size_t i = 0; i < redact->count; i++)
        if (redact->rules[i][0] == '?' &&
            dz_slice_equal_nocase(dz_slice_of(redact->rules[i] + 1), name))
            return true;
    return false;
}

/* Copies the url with secret values replaced; what does not fit the copy is cut. */
static dz_slice hide_parameters(const dz_redact *redact, dz_slice url, char *copy, size_t room)
{
    char *to = copy;
    const char *from = url.ptr, *end = url.ptr + url.len;
    bool in_query = false;
    while (from < end && (size_t)(to - copy) < room) {
        char c = *from++;
        *to++ = c;
        if (c != '?' && !(in_query && c == '&'))
            continue;
        in_query = true;
        const char *name_end = from;
        while (name_end < end && *name_end != '=' && *name_end != '&')
            name_end++;
        dz_slice name = dz_slice_make(from, (size_t)(name_end - from));
        if (name_end == end || *name_end != '=' || !is_secret_parameter(redact, name) ||
            room - (size_t)(to - copy) < name.len + 1 + REDACTED.len)
            continue;
        memcpy(to, from, name.len + 1);
        to += name.len + 1;
        memcpy(to, REDACTED.ptr, REDACTED.len);
        to += REDACTED.len;
        from = name_end;
        while (from < end && *from != '&')
            from++;
    }
    return dz_slice_make(copy, (size_t)(to - copy));
}

void dz_line_url(dz_line *line, const char *name, dz_slice url)
{
    if (!line->redact->queries || is_redacted(line, name)) {
        dz_line_text(line, name, url);
        return;
    }
    char copy[2048];
    dz_slice hidden = hide_parameters(line->redact, url, copy, sizeof copy);
    put_text(line, name, hidden);
}

static void put_real(dz_line *line, double number)
{
    if (!isfinite(number)) {
        memcpy(line->at, "null", 4);
        line->at += 4;
        return;
    }
    int len = snprintf(line->at, NUMBER_ROOM, "%.15g", number);
    for (int i = 0; i < len; i++) /* a locale may want a comma; JSON a point */
        if (line->at[i] == ',')
            line->at[i] = '.';
    line->at += len;
}

/* Milliseconds to the nanosecond, without trailing zeros. */
static void put_ms(dz_line *line, uint64_t ns)
{
    line->at = dz_digits(line->at, ns / 1000000);
    uint64_t rest = ns % 1000000;
    if (rest == 0)
        return;
    char *point = line->at;
    line->at = dz_digits(line->at, 1000000 + rest); /* the leading 1 keeps the zeros */
    *point = '.';
    while (line->at[-1] == '0')
        line->at--;
}

static void open_group(dz_line *line, const char *name)
{
    size_t len = strlen(name);
    bool path_fits = len + 1 <= sizeof line->path - line->path_len;
    if (line->lost > 0 || line->depth == DZ_LINE_DEPTH || !path_fits || !put_name(line, name, 2)) {
        line->lost++;
        line->truncated = true;
        return;
    }
    *line->at++ = '{';
    line->comma = false;
    line->path_at[line->depth++] = line->path_len;
    memcpy(line->path + line->path_len, name, len);
    line->path_len += len;
    line->path[line->path_len++] = '.';
}

static void close_group(dz_line *line)
{
    if (line->lost > 0) {
        line->lost--;
        return;
    }
    if (line->depth == 0)
        return;
    line->path_len = line->path_at[--line->depth];
    *line->at++ = '}';
    line->comma = true;
}

static void put_json(dz_line *line, const char *name, dz_slice json)
{
    if (json.len < room_in(line) && put_name(line, name, json.len)) {
        memcpy(line->at, json.ptr, json.len);
        line->at += json.len;
    } else {
        line->truncated = true;
    }
}

static void put_number(dz_line *line, const dz_field *field)
{
    if (!put_name(line, field->name, NUMBER_ROOM))
        return;
    int64_t number = field->value.number;
    switch (field->kind) {
    case DZ_FIELD_INT:
        if (number < 0)
            *line->at++ = '-';
        /* Negating as unsigned is right for INT64_MIN too. */
        line->at = dz_digits(line->at, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
        break;
    case DZ_FIELD_UINT:
        line->at = dz_digits(line->at, field->value.unsigned_number);
        break;
    case DZ_FIELD_DOUBLE:
        put_real(line, field->value.real);
        break;
    case DZ_FIELD_MS:
        put_ms(line, field->value.unsigned_number);
        break;
    case DZ_FIELD_BOOL:
        dz_line_raw(line, number ? DZ_LIT("true") : DZ_LIT("false"));
        break;
    default:
        dz_line_raw(line, DZ_LIT("null"));
        break;
    }
}

static void put_error(dz_line *line, int code)
{
    open_group(line, "err");
    put_text(line, "type", dz_slice_of(dz_error_name(code)));
    put_text(line, "message", dz_slice_of(dz_strerror(code)));
    const dz_field number = dz_field_int("code", code);
    put_number(line, &number);
    close_group(line);
}

void dz_line_field(dz_line *line, const dz_field *field)
{
    switch (field->kind) {
    case DZ_FIELD_NONE:
        return;
    case DZ_FIELD_GROUP:
        open_group(line, field->name);
        return;
    case DZ_FIELD_END:
        close_group(line);
        return;
    case DZ_FIELD_ERROR:
        put_error(line, (int)field->value.number);
        return;
    default:
        break;
    }
    if (is_redacted(line, field->name))
        put_text(line, field->name, REDACTED);
    else if (field->kind == DZ_FIELD_TEXT)
        put_text(line, field->name, field->value.text);
    else if (field->kind == DZ_FIELD_JSON)
        put_json(line, field->name, field->value.text);
    else
        put_number(line, field);
}

dz_slice dz_line_finish(dz_line *line, const char *msg)
{
    while (line->depth > 0) {
        *line->at++ = '}';
        line->depth--;
    }
    if (msg) {
        dz_line_raw(line, DZ_LIT(",\"msg\":"));
        size_t room = (size_t)(line->limit - line->at) - sizeof(",\"truncated\":true}\n");
        line->at = dz_escape(line->at, room, dz_slice_of(msg), &line->truncated);
    }
    if (line->truncated)
        dz_line_raw(line, DZ_LIT(",\"truncated\":true"));
    dz_line_raw(line, DZ_LIT("}\n"));
    return dz_slice_make(line->start, (size_t)(line->at - line->start));
}
