/* Writers that print text: collapsed stacks, V8's and speedscope's JSON, the page's data. */
#include "formats.h"
#include "json_stream.h"

#include <donmaz/error.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

static bool is_idle(const dz_profile *p, size_t stack)
{
    return p->frames[p->stacks[stack].frame].kind == DZ_FRAME_IDLE;
}

static int finish(FILE *out)
{
    return fflush(out) == 0 && !ferror(out) ? 0 : errno ? -errno : -EIO;
}

/* What separates stacks and lines can't be in a name. */
static void put_clean(FILE *out, dz_slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        putc(c == ';' ? ':' : c < 0x20 ? ' ' : c, out);
    }
}

static bool is_plain(unsigned char c)
{
    return (c > 0x20 && c < 0x7f && !strchr("\"#%;<>?\\^`{|}", c)) || c >= 0x80;
}

/* A place ends a frame, after a space: a path with what would be misread is written as an address
 * (RFC 8089), which nothing is lost by. */
static void put_file(FILE *out, dz_slice file)
{
    bool plain = true;
    for (size_t i = 0; i < file.len; i++)
        plain =
            plain && file.ptr[i] != ' ' && file.ptr[i] != ';' && (unsigned char)file.ptr[i] > 0x20;
    if (plain || file.len == 0 || file.ptr[0] != '/') {
        put_clean(out, file);
        return;
    }
    fputs("file://", out);
    for (size_t i = 0; i < file.len; i++)
        fprintf(out, is_plain((unsigned char)file.ptr[i]) ? "%c" : "%%%02X",
                (unsigned char)file.ptr[i]);
}

static void put_collapsed_frame(const dz_profile *p, const dz_frame *f, FILE *out)
{
    dz_slice name = dz_profile_text(p, f->name);
    if (f->mark)
        putc(f->mark, out);
    put_clean(out, name.len ? name : DZ_LIT("(anonymous)"));
    if (f->line && f->file) {
        putc(' ', out);
        put_file(out, dz_profile_text(p, f->file));
        fprintf(out, f->column ? ":%" PRIu32 ":%" PRIu32 : ":%" PRIu32, f->line, f->column);
    }
    if (f->kind == DZ_FRAME_KERNEL)
        fputs("_[k]", out);
    else if (f->kind == DZ_FRAME_WASM && !f->line)
        fputs(" [wasm]", out);
}

/* The frames of a stack from the root on, into `path`; how many. */
static size_t path_of(const dz_profile *p, uint32_t stack, uint32_t *path, size_t cap)
{
    size_t depth = 0;
    for (uint32_t at = stack; at; at = p->stacks[at].parent)
        depth++;
    size_t kept = depth < cap ? depth : cap, i = kept;
    for (uint32_t at = stack; at; at = p->stacks[at].parent)
        if (depth-- <= kept)
            path[--i] = p->stacks[at].frame;
    return kept;
}

enum { MAX_PATH = 65536 };

int dz_write_collapsed(const dz_profile *p, FILE *out)
{
    uint32_t *path = calloc(MAX_PATH, sizeof *path);
    if (!path)
        return DZ_E_NOMEM;
    for (size_t i = 1; i < p->stack_count; i++) {
        uint64_t us = (p->stacks[i].self + 500) / 1000;
        if (us == 0 || is_idle(p, i))
            continue;
        size_t depth = path_of(p, (uint32_t)i, path, MAX_PATH);
        dz_slice first = dz_profile_text(p, p->frames[path[0]].name);
        if (first.len && first.ptr[0] == '#' && (first.len == 1 || first.ptr[1] <= ' '))
            putc('\\', out); /* else the line would be taken for a comment */
        for (size_t k = 0; k < depth; k++) {
            if (k)
                putc(';', out);
            put_collapsed_frame(p, &p->frames[path[k]], out);
        }
        fprintf(out, " %" PRIu64 "\n", us);
    }
    free(path);
    return finish(out);
}

int dz_write_speedscope(const dz_profile *p, FILE *out, const char *title)
{
    uint32_t *path = calloc(MAX_PATH, sizeof *path);
    if (!path)
        return DZ_E_NOMEM;
    fputs("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
          "\"exporter\":\"donmaz " DZ_VERSION "\",\"name\":",
          out);
    dz_json_write_string(out, dz_slice_of(title));
    fputs(",\"activeProfileIndex\":0,\"shared\":{\"frames\":[", out);
    for (size_t i = 0; i < p->frame_count; i++) {
        const dz_frame *f = &p->frames[i];
        fputs(i ? ",{\"name\":" : "{\"name\":", out);
        dz_json_write_string(out, dz_profile_text(p, f->name));
        if (f->file) {
            fputs(",\"file\":", out);
            dz_json_write_string(out, dz_profile_text(p, f->file));
        }
        if (f->line)
            fprintf(out, ",\"line\":%" PRIu32, f->line);
        if (f->column)
            fprintf(out, ",\"col\":%" PRIu32, f->column);
        putc('}', out);
    }
    uint64_t unit = p->counts ? 1000 : 1;
    fputs("]},\"profiles\":[{\"type\":\"sampled\",\"name\":", out);
    dz_json_write_string(out, dz_slice_of(title));
    fprintf(out, ",\"unit\":\"%s\",\"startValue\":0,\"endValue\":%" PRIu64 ",\"samples\":[",
            p->counts ? "none" : "nanoseconds", dz_profile_total(p) / unit);
    bool first = true;
    for (size_t i = 1; i < p->stack_count; i++) {
        if (p->stacks[i].self == 0 || is_idle(p, i))
            continue;
        size_t depth = path_of(p, (uint32_t)i, path, MAX_PATH);
        fputs(first ? "[" : ",[", out);
        first = false;
        for (size_t k = 0; k < depth; k++)
            fprintf(out, k ? ",%" PRIu32 : "%" PRIu32, path[k]);
        putc(']', out);
    }
    fputs("],\"weights\":[", out);
    first = true;
    for (size_t i = 1; i < p->stack_count; i++) {
        if (p->stacks[i].self == 0 || is_idle(p, i))
            continue;
        fprintf(out, first ? "%" PRIu64 : ",%" PRIu64, p->stacks[i].self / unit);
        first = false;
    }
    fputs("]}]}\n", out);
    free(path);
    return finish(out);
}

static void put_url(dz_slice file, FILE *out)
{
    dz_buf url = {0};
    if (file.len == 0 || file.ptr[0] != '/') {
        dz_json_write_string(out, file);
        return;
    }
    dz_buf_append(&url, DZ_LIT("file://"));
    for (size_t i = 0; i < file.len; i++) {
        char code[4];
        snprintf(code, sizeof code, "%%%02X", (unsigned char)file.ptr[i]);
        dz_buf_append(&url, is_plain((unsigned char)file.ptr[i]) ? dz_slice_make(file.ptr + i, 1)
                                                                 : dz_slice_make(code, 3));
    }
    dz_json_write_string(out, dz_buf_slice(&url));
    dz_buf_release(&url);
}

/* Beyond what V8 tells of a node, and only where the call frame does not tell it: other readers
 * pass it over. */
static void put_own(const dz_profile *p, const dz_frame *f, FILE *out)
{
    dz_slice file = dz_profile_text(p, f->file);
    if (dz_frame_classify(dz_profile_text(p, f->name), file) != (dz_frame_kind)f->kind)
        fprintf(out, ",\"kind\":\"%s\"", dz_frame_kind_name((dz_frame_kind)f->kind));
    if (f->mark)
        fprintf(out, ",\"mark\":\"%c\"", f->mark);
}

static void put_node(const dz_profile *p, size_t stack, FILE *out)
{
    const dz_stack *s = &p->stacks[stack];
    const dz_frame *f = &p->frames[s->frame];
    fprintf(out, "%s{\"id\":%zu,\"callFrame\":{\"functionName\":", stack ? ",\n" : "", stack + 1);
    dz_json_write_string(out, dz_profile_text(p, f->name));
    fprintf(out, ",\"scriptId\":\"%" PRIu32 "\",\"url\":", f->file);
    put_url(dz_profile_text(p, f->file), out);
    /* Viewers share time out by hits: as many as microseconds, so that none is lost. */
    fprintf(out, ",\"lineNumber\":%" PRId64 ",\"columnNumber\":%" PRId64 "},\"hitCount\":%" PRIu64,
            (int64_t)f->line - 1, (int64_t)f->column - 1, (s->self + 500) / 1000);
    if (stack)
        put_own(p, f, out);
    if (s->first_child) {
        fputs(",\"children\":[", out);
        for (uint32_t c = s->first_child; c; c = p->stacks[c].next_sibling)
            fprintf(out, "%s%" PRIu32, c == s->first_child ? "" : ",", c + 1);
        putc(']', out);
    }
    putc('}', out);
}

/* The samples of a .cpuprofile, in two lists: nodes, and the time before each. */
typedef struct sample_list {
    FILE *out;
    bool deltas, begun;
    uint64_t before; /* how long the last one lasts */
} sample_list;

static void put_sample(sample_list *l, size_t node, uint64_t us)
{
    fprintf(l->out, l->begun ? ",%" PRIu64 : "%" PRIu64, l->deltas ? l->before : (uint64_t)node);
    l->before = us;
    l->begun = true;
}

/* V8 tells of these without a stack, so viewers put them on the stack before. */
static bool is_on_top_of_the_last(const dz_profile *p, const dz_stack *s)
{
    dz_slice name = dz_profile_text(p, p->frames[s->frame].name);
    return s->parent == 0 && (dz_slice_equal(name, DZ_LIT("(garbage collector)")) ||
                              dz_slice_equal(name, DZ_LIT("(program)")));
}

/* One sample a stack, as long as its whole time. Where a stack would be taken to go on with the one
 * before, the root comes in between, for no time; and the last one twice, as some viewers end with
 * the last sample's beginning. */
static void put_samples(const dz_profile *p, FILE *out, bool deltas)
{
    sample_list list = {.out = out, .deltas = deltas};
    size_t last = 0;
    for (size_t i = 1; i < p->stack_count; i++) {
        const dz_stack *s = &p->stacks[i];
        if (s->self == 0)
            continue;
        if (is_on_top_of_the_last(p, s))
            put_sample(&list, 1, 0);
        last = i + 1;
        put_sample(&list, last, (s->self + 500) / 1000);
    }
    if (last)
        put_sample(&list, last, 0);
}

int dz_write_cpuprofile(const dz_profile *p, FILE *out)
{
    uint64_t total = 0;
    fputs("{\"nodes\":[", out);
    for (size_t i = 0; i < p->stack_count; i++) {
        put_node(p, i, out);
        total += i ? (p->stacks[i].self + 500) / 1000 : 0;
    }
    fprintf(out, "],\"startTime\":0,\"endTime\":%" PRIu64 ",\"samples\":[", total);
    put_samples(p, out, false);
    fputs("],\"timeDeltas\":[", out);
    put_samples(p, out, true);
    fputs("]}\n", out);
    return finish(out);
}

int dz_write_page_data(const dz_profile *p, FILE *out)
{
    fputs("{\"strings\":[", out);
    for (size_t i = 0; i < p->string_count; i++) {
        if (i)
            putc(',', out);
        dz_json_write_string(out, p->strings[i]);
    }
    fputs("],\"frames\":[", out);
    for (size_t i = 0; i < p->frame_count; i++) {
        const dz_frame *f = &p->frames[i];
        fprintf(out, "%s[%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%u,%d,%" PRIu32 "]", i ? "," : "",
                f->name, f->file, f->line, f->kind,
                f->mark == '*'   ? 1
                : f->mark == '~' ? 2
                                 : 0,
                f->column);
    }
    /* Parents come before children: [frame, parent, self, base]; idle time is not on the CPU. */
    fputs("],\"stacks\":[", out);
    for (size_t i = 0; i < p->stack_count; i++) {
        const dz_stack *s = &p->stacks[i];
        fprintf(out, "%s[%" PRIu32 ",%" PRIu32 ",%" PRIu64, i ? "," : "", s->frame, s->parent,
                is_idle(p, i) ? 0 : s->self);
        fprintf(out, s->base ? ",%" PRIu64 "]" : "]", s->base);
    }
    fprintf(out, "],\"counts\":%s,\"offCpu\":%s}", p->counts ? "true" : "false",
            p->off_cpu ? "true" : "false");
    return finish(out);
}
