/* What `perf script` prints: a line for each sample, then one for each frame, innermost first. Read
 * line by line, so a file of any size needs memory for its different stacks only. */
#include "formats.h"

#include <donmaz/error.h>

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

enum { MAX_STACK = 65536 };

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

/* 0 when the line begins with a name, as with -F -ip. */
static size_t address_length(dz_slice line)
{
    size_t n = 0;
    while (n < line.len && isxdigit((unsigned char)line.ptr[n]))
        n++;
    return n == line.len || line.ptr[n] == ' ' ? n : 0;
}

/* The parenthesis that the last one closes, at the start or after a space; the file's name may hold
 * others, as in "(/tmp/x (deleted))". The line's length when there is none. */
static size_t module_start(dz_slice line)
{
    size_t at = line.len, depth = 0;
    if (line.len == 0 || line.ptr[line.len - 1] != ')')
        return line.len;
    while (at-- > 0) {
        depth += line.ptr[at] == ')';
        depth -= line.ptr[at] == '(';
        if (depth == 0)
            return at == 0 || line.ptr[at - 1] == ' ' ? at : line.len;
    }
    return line.len;
}

/* "	    7f00aa symbol name+0x1f (/usr/lib/x.so)": the module is the last thing in parentheses.
 */
static void perf_frame(dz_profile *p, perf_sample *s, dz_slice line)
{
    size_t digits = address_length(line);
    line = trimmed(dz_slice_make(line.ptr + digits, line.len - digits));
    dz_slice module = DZ_LIT("");
    size_t open = module_start(line);
    if (open < line.len) {
        module = dz_slice_make(line.ptr + open + 1, line.len - open - 2);
        line = trimmed(dz_slice_make(line.ptr, open));
        if (dz_slice_equal(module, DZ_LIT("inlined"))) /* built into the next frame: in no file */
            module = DZ_LIT("");
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

/* With -F +srcline each frame is followed by its place: "file.c:12", "??:0", without an address. */
static bool is_source_line(dz_slice line)
{
    size_t at = line.len;
    while (at > 0 && isdigit((unsigned char)line.ptr[at - 1]))
        at--;
    return at > 0 && at < line.len && line.ptr[at - 1] == ':' && !memchr(line.ptr, ' ', line.len);
}

/* "comm with spaces 1234/1235 [000] 77.123456:     1010101 cpu-clock:u: " */
static bool perf_head(dz_profile *p, perf_sample *s, dz_slice line)
{
    char text[4096];
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
    rest += strspn(rest, " ");
    size_t event = strcspn(rest, " ");
    bool clock = memmem(rest, event, "cpu-clock", 9) || memmem(rest, event, "task-clock", 10);
    s->weight = clock && period > 1 ? period : 1000000;
    s->depth = 0;
    s->open = true;
    /* Without call chains the one frame is on the same line. */
    dz_slice only = trimmed(dz_slice_of(rest + event));
    if (address_length(only) && only.ptr[only.len - 1] == ')')
        perf_frame(p, s, only);
    return true;
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
            if (!is_source_line(line))
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
    if (rc == 0 && ferror(in))
        rc = errno ? -errno : -EIO;
    if (rc == 0 && samples == 0) {
        snprintf(error->text, sizeof error->text, "no samples in it");
        rc = DZ_E_FORMAT;
    }
    free(s);
    free(text);
    return rc == 0 && p->failed ? DZ_E_NOMEM : rc;
}
