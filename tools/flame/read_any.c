/* A profile in whichever format, told by how it begins. */
#include "formats.h"

#include <donmaz/error.h>

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

/* What was read to tell the format, before the rest: a pipe can't be read twice. */
typedef struct prefixed {
    char head[65536]; /* perf may begin with long comments; ended by NUL */
    size_t len, at;
    FILE *rest;
} prefixed;

static ssize_t read_prefixed(void *cookie, char *out, size_t size)
{
    prefixed *p = cookie;
    size_t left = p->len - p->at, n = left < size ? left : size;
    if (left == 0) {
        n = fread(out, 1, size, p->rest);
        return n == 0 && ferror(p->rest) ? -1 : (ssize_t)n;
    }
    memcpy(out, p->head + p->at, n);
    p->at += n;
    return (ssize_t)n;
}

static const char *skip_space(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

/* A function's name may begin with a brace too. */
static bool is_json(const char *head)
{
    const char *at = skip_space(head);
    return *at == '{' && strchr("\"}", *skip_space(at + 1));
}

/* perf's first line holds a time, "12.345678:", and ends in a colon; a collapsed one in a count. */
static bool is_perf(const char *head)
{
    const char *line = head;
    for (const char *end; (*line == '#' || *line == '\n') && (end = strchr(line, '\n'));)
        line = end + 1;
    size_t len = strcspn(line, "\n");
    while (len && isspace((unsigned char)line[len - 1]))
        len--;
    return len && !isdigit((unsigned char)line[len - 1]);
}

static int read_whole(dz_profile *p, prefixed *source, dz_read_error *error)
{
    FILE *in = fopencookie(source, "r", (cookie_io_functions_t){.read = read_prefixed});
    if (!in)
        return DZ_E_NOMEM;
    dz_profile_reader *read = is_json(source->head)   ? dz_read_cpuprofile
                              : is_perf(source->head) ? dz_read_perf_script
                                                      : dz_read_collapsed;
    int rc = read(p, in, error);
    fclose(in);
    return rc;
}

int dz_read_any(dz_profile *p, FILE *in, dz_read_error *error)
{
    prefixed *source = calloc(1, sizeof *source);
    int rc = DZ_E_NOMEM;
    if (!source)
        return rc;
    source->rest = in;
    source->len = fread(source->head, 1, sizeof source->head - 1, in);
    if (ferror(in)) {
        rc = errno ? -errno : -EIO;
    } else if (source->len == 0 || !*skip_space(source->head)) {
        snprintf(error->text, sizeof error->text, "the file is empty");
        rc = DZ_E_FORMAT;
    } else if (memcmp(source->head, "PERFILE2", 8) == 0) {
        snprintf(error->text, sizeof error->text,
                 "perf's own format: donmaz flame reads what `perf script` prints of it");
        rc = DZ_E_FORMAT;
    } else {
        rc = read_whole(p, source, error);
    }
    free(source);
    return rc;
}
