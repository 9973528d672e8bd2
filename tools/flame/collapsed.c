/* Collapsed stacks: "a;b;c 12" a line, as Brendan Gregg's tools and 0x write them. Read line by
 * line, so a file of any size needs memory for its different stacks only. */
#include "formats.h"

#include <donmaz/error.h>

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

static bool cut_end(dz_slice *s, const char *end)
{
    size_t len = strlen(end);
    if (s->len < len || memcmp(s->ptr + s->len - len, end, len) != 0)
        return false;
    s->len -= len;
    return true;
}

/* Cuts ":12" off; 0 when there is no such end, or no sensible number. */
static uint32_t cut_number(dz_slice *s)
{
    size_t at = s->len;
    uint32_t n = 0;
    while (at > 0 && isdigit((unsigned char)s->ptr[at - 1]))
        at--;
    if (at == 0 || at == s->len || s->len - at > 9 || s->ptr[at - 1] != ':')
        return 0;
    for (size_t i = at; i < s->len; i++)
        n = n * 10 + (uint32_t)(s->ptr[i] - '0');
    if (n)
        s->len = at - 1;
    return n;
}

/* "name /dir/file.js:12:3", with a column or without: the place is behind the last space. */
static bool cut_place(dz_profile *p, dz_slice *name, dz_frame *f)
{
    dz_slice text = *name;
    uint32_t last = cut_number(&text), first = last ? cut_number(&text) : 0;
    const char *space = text.len ? memrchr(text.ptr, ' ', text.len) : NULL;
    size_t at = space ? (size_t)(space - text.ptr) : 0;
    if (!last || at == 0 || at + 1 == text.len)
        return false;
    dz_slice url = dz_slice_make(space + 1, text.len - at - 1);
    f->line = first ? first : last;
    f->column = first ? last : 0;
    f->file = dz_frame_file(p, url);
    f->kind = (uint8_t)dz_frame_classify(dz_slice_make(text.ptr, at), url);
    name->len = at;
    return true;
}

/* As V8 calls its code in a perf map, and as perf's own collapser leaves it. */
static bool is_v8(dz_slice name)
{
    static const char *const prefixes[] = {"JS:", "LazyCompile:"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (name.len > strlen(prefixes[i]) &&
            memcmp(name.ptr, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

/* With what other tools mark frames: "_[k]" the kernel's, "_[j]" made at run time, "_[i]" built in.
 */
static uint32_t collapsed_frame(dz_profile *p, dz_slice name)
{
    dz_frame f = {.kind = DZ_FRAME_NATIVE};
    bool kernel = cut_end(&name, "_[k]");
    if (!kernel && !cut_end(&name, "_[j]"))
        cut_end(&name, "_[i]");
    if (is_v8(name)) {
        dz_frame_of_symbol(p, name, DZ_LIT(""), &f);
        return dz_profile_frame(p, &f);
    }
    bool wasm = cut_end(&name, " [wasm]"), place = cut_place(p, &name, &f);
    if (kernel || wasm)
        f.kind = kernel ? DZ_FRAME_KERNEL : DZ_FRAME_WASM;
    else if (!place && name.len && name.ptr[0] == '(')
        f.kind = (uint8_t)dz_frame_classify(name, DZ_LIT(""));
    /* Only of what has a place: a C++ destructor begins with ~ too. */
    if (place && name.len > 1 && (name.ptr[0] == '*' || name.ptr[0] == '~')) {
        f.mark = name.ptr[0];
        name.ptr++;
        name.len--;
    }
    f.name = dz_profile_string(p, name);
    return dz_profile_frame(p, &f);
}

/* The count behind the last space; some writers print fractions, which are cut off. */
static bool read_count(dz_slice text, uint64_t *count)
{
    char number[32], *end;
    if (text.len == 0 || text.len >= sizeof number || !isdigit((unsigned char)text.ptr[0]))
        return false;
    memcpy(number, text.ptr, text.len);
    number[text.len] = 0;
    *count = strtoull(number, &end, 10);
    if (*end == '.')
        strtod(number, &end);
    return *end == 0 && *count <= UINT64_MAX / 1000000000;
}

static bool collapsed_line(dz_profile *p, dz_slice line)
{
    const char *space = memrchr(line.ptr, ' ', line.len);
    uint64_t count;
    if (!space || space == line.ptr)
        return false;
    if (!read_count(dz_slice_make(space + 1, line.len - (size_t)(space + 1 - line.ptr)), &count))
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
    return stack != 0;
}

int dz_read_collapsed(dz_profile *p, FILE *in, dz_read_error *error)
{
    char *text = NULL;
    size_t cap = 0, number = 0;
    int rc = 0;
    p->counts = true;
    for (ssize_t n; rc == 0 && (n = getline(&text, &cap, in)) >= 0;) {
        dz_slice line = dz_slice_make(text, (size_t)n);
        number++;
        while (line.len && isspace((unsigned char)line.ptr[line.len - 1]))
            line.len--;
        /* A private method's name begins with # too. */
        bool comment = line.len && line.ptr[0] == '#' && (line.len == 1 || line.ptr[1] == ' ');
        if (line.len == 0 || comment)
            continue;
        if (!collapsed_line(p, line)) {
            snprintf(error->text, sizeof error->text,
                     "line %zu: not a collapsed stack (\"a;b;c 12\")", number);
            rc = DZ_E_FORMAT;
        }
    }
    if (rc == 0 && ferror(in))
        rc = errno ? -errno : -EIO;
    free(text);
    return rc == 0 && p->failed ? DZ_E_NOMEM : rc;
}
