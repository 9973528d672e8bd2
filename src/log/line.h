/* line.h: makes one line of JSON in a fixed piece of memory. Whatever is put in, the result is
 * valid JSON: what does not fit is cut or left out, and the line says "truncated":true. */
#ifndef DZ_LOG_LINE_H
#define DZ_LOG_LINE_H

#include <donmaz/log.h>

#include <string.h>

enum { DZ_LINE_DEPTH = 8, DZ_LINE_PATH = 256, DZ_LINE_MIN = 1024 };

/* The redaction list. */
typedef struct dz_redact {
    char **rules;
    size_t count;
    bool queries; /* whether a rule names a query parameter */
} dz_redact;

int dz_redact_init(dz_redact *redact, const char *const *rules, size_t count); /* DZ_E_NOMEM */
void dz_redact_close(dz_redact *redact);
bool dz_redact_spares_requests(const dz_redact *redact); /* request.c */

typedef struct dz_line {
    char *at, *start;
    char *end;   /* fields end here; behind it there is room to close the line */
    char *limit; /* end of the memory */
    const dz_redact *redact;
    bool comma;     /* whether the next field needs one */
    bool truncated; /* something was cut */
    unsigned depth; /* open groups */
    unsigned lost;  /* groups opened too deep or without room: their fields are left out */
    size_t path_len, path_at[DZ_LINE_DEPTH];
    char path[DZ_LINE_PATH]; /* names of the open groups, each with a dot; kept only to redact */
} dz_line;

/* `memory` has at least DZ_LINE_MIN bytes; `msg` (may be NULL) is kept room for. */
void dz_line_init(dz_line *line, char *memory, size_t size, const char *msg,
                  const dz_redact *redact);

/* Ready-made JSON text that always fits (the line's head). */
void dz_line_raw(dz_line *line, dz_slice text);

void dz_line_field(dz_line *line, const dz_field *field);
/* Ready-made members of the object, "a":1,"b":2; dropped when they do not fit. */
void dz_line_members(dz_line *line, dz_slice members);
void dz_line_text(dz_line *line, const char *name, dz_slice text);
void dz_line_url(dz_line *line, const char *name, dz_slice url); /* redacts query parameters */
void dz_line_uint(dz_line *line, const char *name, uint64_t number);

/* Closes groups and line: msg, brace, newline. Returns the whole line. */
dz_slice dz_line_finish(dz_line *line, const char *msg);

/* Writes the digits of `number` and returns the end. At most 20. */
char *dz_digits(char *to, uint64_t number);

/* Which of the eight bytes JSON can't hold as they are (RFC 8259 7), or are not ASCII: any bit set
 * in the result. Each test sets the high bit of a byte that matches; a false match above a true one
 * is harmless, as it only sends the slow path there. */
static inline uint64_t dz_special_bytes(uint64_t eight)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), high = ones * 0x80;
    uint64_t quote = eight ^ (ones * '"');
    uint64_t slash = eight ^ (ones * '\\');
    uint64_t below_space = eight - ones * 0x20;
    return (eight | below_space | (quote - ones) | (slash - ones)) & high;
}

/* Escapes text between two quotes into to[0..room), room >= 2; cuts (between characters) what does
 * not fit and sets *cut. Returns the end. */
char *dz_escape(char *to, size_t room, dz_slice text, bool *cut);

#endif
