#include "check.h"

#include "common/printable.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct verdict {
    const char *path;
    char *why;
    size_t size;
} verdict;

__attribute__((format(printf, 2, 3))) static int differs(const verdict *v, const char *format, ...)
{
    char how[500];
    va_list args;
    va_start(args, format);
    vsnprintf(how, sizeof how, format, args);
    va_end(args);
    snprintf(v->why, v->size, "GET %s %s", v->path, how);
    dz_text_clean(v->why);
    return -1;
}

typedef struct field {
    dz_slice name, value;
} field;

static dz_slice trimmed(const char *from, const char *to)
{
    while (from < to && (*from == ' ' || *from == '\t'))
        from++;
    while (to > from && (to[-1] == ' ' || to[-1] == '\t'))
        to--;
    return dz_slice_make(from, (size_t)(to - from));
}

/* "Name: value". False without a colon. */
static bool split(const char *line, size_t len, field *out)
{
    const char *colon = memchr(line, ':', len);
    if (!colon)
        return false;
    out->name = trimmed(line, colon);
    out->value = trimmed(colon + 1, line + len);
    return true;
}

/* The field behind *at (a CRLF within the head); moves on. False at the end of the head. */
static bool next_field(dz_slice head, const char **at, field *out)
{
    const char *end = head.ptr + head.len;
    while (*at && *at + 2 <= end) {
        const char *line = *at + 2;
        const char *stop = memmem(line, (size_t)(end - line), "\r\n", 2);
        *at = stop;
        if (split(line, (size_t)((stop ? stop : end) - line), out))
            return true;
    }
    return false;
}

static bool same(dz_slice a, dz_slice b)
{
    return a.len == b.len && strncasecmp(a.ptr, b.ptr, a.len) == 0;
}

/* Fields about the connection, not the answer (RFC 9110 7.6.1): they may differ. */
static bool is_hop_by_hop(dz_slice name)
{
    static const char *const names[] = {"connection", "keep-alive", "transfer-encoding", "te",
                                        "trailer",    "upgrade",    "proxy-connection"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (same(name, dz_slice_of(names[i])))
            return true;
    return false;
}

static bool value_matches(dz_slice wanted, dz_slice value)
{
    return (wanted.len == 1 && wanted.ptr[0] == '*') || same(wanted, value);
}

/* Each field of the answer must be among the wanted ones. */
static int check_given(const verdict *v, const dz_lab_check *check, dz_slice head)
{
    const char *at = memmem(head.ptr, head.len, "\r\n", 2);
    field given, wanted;
    while (next_field(head, &at, &given)) {
        bool known = false;
        if (is_hop_by_hop(given.name))
            continue;
        for (unsigned i = 0; i < check->headers_count && !known; i++) {
            if (!split(check->headers[i], strlen(check->headers[i]), &wanted) ||
                !same(wanted.name, given.name))
                continue;
            known = true;
            if (!value_matches(wanted.value, given.value))
                return differs(v, "has '%.*s: %.*s' instead of '%s'", (int)given.name.len,
                               given.name.ptr, (int)given.value.len, given.value.ptr,
                               check->headers[i]);
        }
        if (!known)
            return differs(v, "has a field that is not among the headers to expect: '%.*s: %.*s'",
                           (int)given.name.len, given.name.ptr, (int)given.value.len,
                           given.value.ptr);
    }
    return 0;
}

static int check_lacking(const verdict *v, const dz_lab_check *check, dz_slice head)
{
    field given, wanted;
    for (unsigned i = 0; i < check->headers_count; i++) {
        const char *at = memmem(head.ptr, head.len, "\r\n", 2);
        bool there = false;
        if (!split(check->headers[i], strlen(check->headers[i]), &wanted))
            continue;
        while (!there && next_field(head, &at, &given))
            there = same(wanted.name, given.name);
        if (!there)
            return differs(v, "lacks '%s'", check->headers[i]);
    }
    return 0;
}

int dz_lab_check_answer(const dz_lab_check *check, const dz_lab_answer *answer, char *why,
                        size_t size)
{
    verdict v = {check->path, why, size};
    if (answer->status != (int)check->status)
        return differs(&v, "answers %d instead of %u", answer->status, check->status);
    if (check->type && strncasecmp(answer->type, check->type, strlen(check->type)) != 0)
        return differs(&v, "has Content-Type '%s' instead of '%s'", answer->type, check->type);
    if (check->body && !dz_slice_equal(answer->body, dz_slice_of(check->body)))
        return differs(&v, "has the body '%.*s' instead of '%s'",
                       answer->body.len > 100 ? 100 : (int)answer->body.len, answer->body.ptr,
                       check->body);
    if (check->headers_count == 0)
        return 0;
    int rc = check_given(&v, check, answer->head);
    return rc < 0 ? rc : check_lacking(&v, check, answer->head);
}
