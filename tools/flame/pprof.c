/* pprof's profile.proto (github.com/google/pprof), written by hand: a few nested messages of
 * varints and strings. Not compressed, which its readers accept. */
#include "formats.h"
#include "json_stream.h"

#include <donmaz/buf.h>
#include <donmaz/error.h>

#include <errno.h>
#include <stdlib.h>

typedef struct writer {
    dz_buf buf; /* the message being built */
    FILE *out;
    bool failed;
} writer;

static void varint(writer *w, uint64_t n)
{
    char bytes[10];
    size_t len = 0;
    do {
        bytes[len++] = (char)((n & 0x7f) | (n > 0x7f ? 0x80 : 0));
        n >>= 7;
    } while (n);
    w->failed |= dz_buf_append(&w->buf, dz_slice_make(bytes, len)) < 0;
}

static void number(writer *w, unsigned field, uint64_t n)
{
    varint(w, field << 3);
    varint(w, n);
}

/* Ends the message in buf: writes it as `field` of the top one. */
static void message(writer *w, unsigned field)
{
    dz_buf body = w->buf;
    w->buf = (dz_buf){0};
    varint(w, (field << 3) | 2);
    varint(w, body.len);
    fwrite(w->buf.data, 1, w->buf.len, w->out);
    fwrite(body.data, 1, body.len, w->out);
    dz_buf_release(&w->buf);
    w->buf = body;
    w->buf.len = 0;
}

/* Strings are UTF-8, or readers refuse the whole: other bytes become U+FFFD. */
static void string(writer *w, dz_slice text)
{
    for (size_t i = 0, n; i < text.len; i += n ? n : 1) {
        dz_slice rest = dz_slice_make(text.ptr + i, text.len - i);
        n = (unsigned char)*rest.ptr < 0x20 ? 1 : dz_utf8_length(rest);
        w->failed |=
            dz_buf_append(&w->buf, n ? dz_slice_make(rest.ptr, n) : DZ_LIT("\xef\xbf\xbd")) < 0;
    }
    message(w, 6);
}

static void value_type(writer *w, unsigned field, uint64_t type, uint64_t unit)
{
    number(w, 1, type);
    number(w, 2, unit);
    message(w, field);
}

/* Sample: location ids innermost first, one value. */
static void sample(writer *w, const dz_profile *p, uint32_t stack)
{
    for (uint32_t at = stack; at; at = p->stacks[at].parent)
        number(w, 1, (uint64_t)p->stacks[at].frame + 1);
    number(w, 2, p->counts ? p->stacks[stack].self / 1000 : p->stacks[stack].self);
    message(w, 2);
}

static void location_and_function(writer *w, const dz_profile *p, uint32_t frame)
{
    const dz_frame *f = &p->frames[frame];
    writer line = {.out = w->out};
    number(&line, 1, (uint64_t)frame + 1);
    number(&line, 2, f->line);
    number(&line, 3, f->column);
    number(w, 1, (uint64_t)frame + 1);
    varint(w, (4 << 3) | 2);
    varint(w, line.buf.len);
    w->failed |= line.failed || dz_buf_append(&w->buf, dz_buf_slice(&line.buf)) < 0;
    dz_buf_release(&line.buf);
    message(w, 4);
    number(w, 1, (uint64_t)frame + 1);
    number(w, 2, f->name);
    number(w, 3, f->name);
    number(w, 4, f->file);
    number(w, 5, f->line);
    message(w, 5);
}

int dz_write_pprof(const dz_profile *p, FILE *out)
{
    writer w = {.out = out};
    uint64_t extra = p->string_count; /* our own strings come after the profile's */
    value_type(&w, 1, extra, extra + 1);
    for (size_t i = 1; i < p->stack_count; i++)
        if (p->stacks[i].self && p->frames[p->stacks[i].frame].kind != DZ_FRAME_IDLE)
            sample(&w, p, (uint32_t)i);
    for (size_t i = 0; i < p->frame_count; i++)
        location_and_function(&w, p, (uint32_t)i);
    for (size_t i = 0; i < p->string_count; i++)
        string(&w, p->strings[i]);
    string(&w, p->counts ? DZ_LIT("samples") : DZ_LIT("cpu"));
    string(&w, p->counts ? DZ_LIT("count") : DZ_LIT("nanoseconds"));
    dz_buf_release(&w.buf);
    if (w.failed)
        return DZ_E_NOMEM;
    return fflush(out) == 0 && !ferror(out) ? 0 : errno ? -errno : -EIO;
}
