/* Profiles as lines of text: collapsed stacks and what `perf script` prints. Both are read line by
 * line, so a file of any size needs memory for its different stacks only. */
#include "formats.h"

#include <donmaz/error.h>

#include <ctype.h>
#include <stdlib.h>

enum { MAX_STACK = 4096 };

static dz_slice trimmed(dz_slice s)
{
    while (s.len && isspace((unsigned char)s.ptr[0])) {
        s.ptr++;
        s.len--;
    }
    while (s.len && isspace((unsigned char)s.ptr[s.len - 1]))
        s.len--;
    return s;
}

static bool ends(dz_slice s, const char *with)
{
    size_t len = strlen(with);
    return s.len >= len && memcmp(s.ptr + s.len - len, with, len) == 0;
}

static uint32_t decimal(dz_slice text, size_t from, size_t to)
{
    uint32_t n = 0;
    for (size_t i = from; i < to && n < 100000000; i++)
        n = n * 10 + (uint32_t)(text.ptr[i] - '0');
    return n;
}

/* "name /dir/file.js:12" as we write it, "name_[k]" as perf's collapser does, or any name. */
static uint32_t collapsed_frame(dz_profile *p, dz_slice name)
{
    dz_frame f = {.kind = DZ_FRAME_NATIVE};
    if (ends(name, "_[k]") || ends(name, "_[j]") || ends(name, "_[i]")) {
        f.kind = name.ptr[name.len - 2] == 'k' ? DZ_FRAME_KERNEL : DZ_FRAME_NATIVE;
        name.len -= 4;
    }
    if (ends(name, " [wasm]")) {
        f.kind = DZ_FRAME_WASM;
        name.len -= 7;
    }
    size_t digits = name.len;
    while (digits > 0 && isdigit((unsigned char)name.ptr[digits - 1]))
        digits--;
    const char *space = memrchr(name.ptr, ' ', name.len);
    size_t at = space ? (size_t)(space - name.ptr) : 0;
    if (space && at > 0 && digits < name.len && digits > at + 2 && name.ptr[digits - 1] == ':') {
        dz_slice file = dz_slice_make(space + 1, digits - 2 - at);
        f.line = decimal(name, digits, name.len);
        name.len = at;
        f.file = dz_profile_string(p, file);
        f.kind = (uint8_t)dz_frame_classify(name, file);
    } else if (f.kind == DZ_FRAME_NATIVE && name.len && name.ptr[0] == '(') {
        f.kind = (uint8_t)dz_frame_classify(name, DZ_LIT(""));
    }
    if (name.len > 1 && (name.ptr[0] == '*' || name.ptr[0] == '~')) {
        f.mark = name.ptr[0];
        name.ptr++;
        name.len--;
    }
    f.name = dz_profile_string(p, name);
    return dz_profile_frame(p, &f);
}

static bool collapsed_line(dz_profile *p, dz_slice line)
{
    const char *space = memrchr(line.ptr, ' ', line.len);
    if (!space || space == line.ptr)
        return false;
    char number[32], *end;
    size_t len = line.len - (size_t)(space + 1 - line.ptr);
    if (len == 0 || len >= sizeof number)
        return false;
    memcpy(number, space + 1, len);
    number[len] = 0;
    uint64_t count = strtoull(number, &end, 10);
    if (*end == '.')
        strtod(number, &end); /* some writers print fractions: cut off */
    if (*end || count > UINT64_MAX / 1000000)
        return false;
    uint32_t stack = 0;
    line.len = (size_t)(space - line.ptr);
    while (line.len) {
        const char *cut = memchr(line.ptr, ';', line.len);
        size_t n = cut ? (size_t)(cut - line.ptr) : line.len;
        if (n)
            stack = dz_profile_child(p, stack, collapsed_frame(p, dz_slice_make(line.ptr, n)));
        n += cut != NULL;
        line.ptr += n;
        line.len -= n;
    }
    dz_profile_add(p, stack, count * 1000, 0, 0);
    return true;
}

int dz_read_collapsed(dz_profile *p, FILE *in, dz_read_error *error)
{
    char *text = NULL;
    size_t cap = 0, number = 0;
    int rc = 0;
    p->counts = true;
    for (ssize_t n; rc == 0 && (n = getline(&text, &cap, in)) >= 0;) {
        number++;
        dz_slice line = trimmed(dz_slice_make(text, (size_t)n));
        if (line.len == 0 || line.ptr[0] == '#')
            continue;
        if (!collapsed_line(p, line)) {
            snprintf(error->text, sizeof error->text,
                     "line %zu: not a collapsed stack (\"a;b;c 12\")", number);
            rc = DZ_E_FORMAT;
        }
    }
    free(text);
    return rc == 0 && p->failed ? DZ_E_NOMEM : rc;
}

typedef struct perf_sample {
    uint32_t frames[MAX_STACK]; /* innermost first, as they come */
    size_t depth;
    uint32_t thread;
    uint64_t weight, at;
    pid_t tid;
    bool open;
} perf_sample;

static void finish_sample(dz_profile *p, perf_sample *s)
{
    if (!s->open)
        return;
    uint32_t stack = dz_profile_child(p, 0, s->thread);
    for (size_t i = s->depth; i-- > 0;)
        stack = dz_profile_child(p, stack, s->frames[i]);
    dz_profile_add(p, stack, s->weight, s->at, s->tid);
    s->open = false;
}

/* "comm with spaces 1234/1235 [000] 77.123456:     1010101 cpu-clock:u: " */
static bool perf_head(dz_profile *p, perf_sample *s, dz_slice line)
{
    char text[512];
    size_t len = line.len < sizeof text - 1 ? line.len : sizeof text - 1;
    memcpy(text, line.ptr, len);
    text[len] = 0;
    /* The time is the first word of digits, a point, digits and a colon. */
    char *time = NULL;
    for (char *at = text; (at = strchr(at, ':')); at++) {
        char *word = at;
        while (word > text && (isdigit((unsigned char)word[-1]) || word[-1] == '.'))
            word--;
        if (word < at && word > text && word[-1] == ' ' && memchr(word, '.', (size_t)(at - word))) {
            time = word;
            break;
        }
    }
    if (!time)
        return false;
    char *rest = strchr(time, ':') + 1;
    s->at = (uint64_t)(strtod(time, NULL) * 1e9);
    char *end = time;
    while (end > text && end[-1] == ' ')
        end--;
    if (end > text && end[-1] == ']')
        while (end > text && *--end != '[')
            continue;
    while (end > text && end[-1] == ' ')
        end--;
    char *pid = end;
    while (pid > text && (isdigit((unsigned char)pid[-1]) || pid[-1] == '/'))
        pid--;
    const char *slash = memchr(pid, '/', (size_t)(end - pid));
    s->tid = (pid_t)strtol(slash ? slash + 1 : pid, NULL, 10);
    dz_slice comm = trimmed(dz_slice_make(text, (size_t)(pid - text)));
    dz_frame f = {.name = dz_profile_string(p, comm), .kind = DZ_FRAME_NATIVE};
    s->thread = dz_profile_frame(p, &f);
    uint64_t period = strtoull(rest, &rest, 10);
    bool clock = strstr(rest, "cpu-clock") || strstr(rest, "task-clock");
    s->weight = clock && period > 1 ? period : 1000000;
    s->depth = 0;
    s->open = true;
    return true;
}

/* "	    7f00aa symbol name+0x1f (/usr/lib/x.so)": the module is the last thing in parentheses.
 */
static void perf_frame(dz_profile *p, perf_sample *s, dz_slice line)
{
    while (line.len && isxdigit((unsigned char)line.ptr[0])) {
        line.ptr++;
        line.len--;
    }
    line = trimmed(line);
    dz_slice module = DZ_LIT("");
    const char *open =
        line.len && line.ptr[line.len - 1] == ')' ? memrchr(line.ptr, '(', line.len) : NULL;
    if (open && (open == line.ptr || open[-1] == ' ')) {
        module = dz_slice_make(open + 1, line.len - (size_t)(open - line.ptr) - 2);
        line.len = (size_t)(open - line.ptr);
        line = trimmed(line);
    }
    const char *plus = memrchr(line.ptr, '+', line.len);
    if (plus && (size_t)(plus - line.ptr) + 3 < line.len && plus[1] == '0' && plus[2] == 'x')
        line.len = (size_t)(plus - line.ptr);
    if (s->depth == MAX_STACK)
        return;
    dz_frame f;
    dz_frame_of_symbol(p, line.len ? line : DZ_LIT("[unknown]"), module, &f);
    s->frames[s->depth++] = dz_profile_frame(p, &f);
}

int dz_read_perf_script(dz_profile *p, FILE *in, dz_read_error *error)
{
    perf_sample *s = calloc(1, sizeof *s);
    char *text = NULL;
    size_t cap = 0, number = 0, samples = 0;
    int rc = s ? 0 : DZ_E_NOMEM;
    for (ssize_t n; rc == 0 && (n = getline(&text, &cap, in)) >= 0;) {
        number++;
        bool indented = text[0] == ' ' || text[0] == '\t';
        dz_slice line = trimmed(dz_slice_make(text, (size_t)n));
        if (line.len == 0) {
            finish_sample(p, s);
        } else if (line.ptr[0] == '#') {
            continue;
        } else if (s->open && indented) {
            perf_frame(p, s, line);
        } else {
            finish_sample(p, s);
            if (!perf_head(p, s, line)) {
                snprintf(error->text, sizeof error->text, "line %zu: not a line of perf script",
                         number);
                rc = DZ_E_FORMAT;
            }
            samples++;
        }
    }
    if (s)
        finish_sample(p, s);
    if (rc == 0 && samples == 0) {
        snprintf(error->text, sizeof error->text, "no samples in it");
        rc = DZ_E_FORMAT;
    }
    free(s);
    free(text);
    return rc == 0 && p->failed ? DZ_E_NOMEM : rc;
}

/* What was read to tell the format, before the rest: a pipe can't be read twice. */
typedef struct prefixed {
    char head[4096];
    size_t len, at;
    FILE *rest;
} prefixed;

static ssize_t read_prefixed(void *cookie, char *out, size_t size)
{
    prefixed *p = cookie;
    size_t left = p->len - p->at, n = left < size ? left : size;
    if (n == 0)
        n = fread(out, 1, size, p->rest);
    else
        memcpy(out, p->head + p->at, n);
    p->at += left ? n : 0;
    return n == 0 && ferror(p->rest) ? -1 : (ssize_t)n;
}

/* perf's first line holds a time, "12.345678:", and ends in a colon; a collapsed one in a count. */
static bool is_perf(const char *head)
{
    const char *line = head;
    while (*line == '#' && strchr(line, '\n'))
        line = strchr(line, '\n') + 1;
    dz_slice first = trimmed(dz_slice_make(line, strcspn(line, "\n")));
    return first.len && !isdigit((unsigned char)first.ptr[first.len - 1]);
}

int dz_read_any(dz_profile *p, FILE *in, dz_read_error *error)
{
    int c;
    do
        c = getc(in);
    while (c != EOF && isspace(c));
    if (c == EOF) {
        snprintf(error->text, sizeof error->text, "the file is empty");
        return DZ_E_FORMAT;
    }
    ungetc(c, in);
    if (c == '{')
        return dz_read_cpuprofile(p, in, error);
    prefixed source = {.rest = in};
    source.len = fread(source.head, 1, sizeof source.head - 1, in);
    FILE *whole = fopencookie(&source, "r", (cookie_io_functions_t){.read = read_prefixed});
    if (!whole)
        return DZ_E_NOMEM;
    int rc = is_perf(source.head) ? dz_read_perf_script(p, whole, error)
                                  : dz_read_collapsed(p, whole, error);
    fclose(whole);
    return rc;
}
