#include "outputs.h"

#include "formats.h"
#include "json_stream.h"

#include "common/format.h"
#include "common/options.h"
#include "common/printable.h"
#include "common/table.h"
#include "report/page.h"
#include "tools.h"

#include <donmaz/error.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

static const char tool[] = "donmaz flame";

typedef int writer(const dz_profile *profile, const dz_flame_report *report, FILE *out);

/* Runs a writer on a file or standard output; a partial file is removed. */
static int write_to(const char *path, writer *write, const dz_profile *p, const dz_flame_report *r)
{
    if (!path)
        return DZ_EXIT_OK;
    bool standard = strcmp(path, "-") == 0;
    FILE *out = standard ? stdout : fopen(path, "we");
    if (!out)
        return dz_fail(DZ_EXIT_FAILED, tool, "%s: %s", path, strerror(errno));
    int rc = write(p, r, out);
    if (!standard && fclose(out) != 0 && rc == 0)
        rc = -errno;
    if (rc == 0)
        return DZ_EXIT_OK;
    if (!standard)
        dz_page_discard(path);
    return dz_fail(DZ_EXIT_FAILED, tool, "%s: %s", path, dz_strerror(rc));
}

static int collapsed(const dz_profile *p, const dz_flame_report *r, FILE *out)
{
    (void)r;
    return dz_write_collapsed(p, out);
}

static int speedscope(const dz_profile *p, const dz_flame_report *r, FILE *out)
{
    return dz_write_speedscope(p, out, r->title);
}

static int pprof(const dz_profile *p, const dz_flame_report *r, FILE *out)
{
    (void)r;
    return dz_write_pprof(p, out);
}

static int cpuprofile(const dz_profile *p, const dz_flame_report *r, FILE *out)
{
    (void)r;
    return dz_write_cpuprofile(p, out);
}

static void put_hot(const dz_profile *p, const dz_hot *h, FILE *out)
{
    const dz_frame *f = &p->frames[h->frame];
    fputs("{\"name\":", out);
    dz_json_write_string(out, dz_profile_text(p, f->name));
    fputs(",\"file\":", out);
    dz_json_write_string(out, dz_profile_text(p, f->file));
    fprintf(out,
            ",\"line\":%" PRIu32 ",\"hot_line\":%" PRIu32
            ",\"kind\":\"%s\",\"self_ms\":%.3f,\"total_ms\":%.3f}",
            f->line, h->line, dz_frame_kind_name((dz_frame_kind)f->kind), (double)h->self / 1e6,
            (double)h->total / 1e6);
}

static int json(const dz_profile *p, const dz_flame_report *r, FILE *out)
{
    enum { MAX = 1000 };
    dz_hot *hot = calloc(MAX, sizeof *hot);
    if (!hot)
        return DZ_E_NOMEM;
    long n = dz_profile_hottest(p, hot, r->top ? r->top : 10, NULL, NULL);
    fputs("{\"title\":", out);
    dz_json_write_string(out, dz_slice_of(r->title));
    fprintf(out, ",\"off_cpu\":%s,\"total_ms\":%.3f,\"stacks\":%zu,\"notes\":[",
            p->off_cpu ? "true" : "false", (double)dz_profile_total(p) / 1e6, p->stack_count - 1);
    for (size_t i = 0; i < r->note_count; i++) {
        if (i)
            putc(',', out);
        dz_json_write_string(out, dz_slice_of(r->notes[i]));
    }
    fputs("],\"hottest\":[", out);
    for (long i = 0; i < n; i++) {
        if (i)
            putc(',', out);
        put_hot(p, &hot[i], out);
    }
    fputs("]}\n", out);
    free(hot);
    return n < 0 ? DZ_E_NOMEM : fflush(out) == 0 && !ferror(out) ? 0 : errno ? -errno : -EIO;
}

static int html(const dz_profile *p, const dz_flame_report *r, FILE *out)
{
    dz_page_begin(out, DZ_PAGE_FLAME, r->title);
    fputs("{\"title\":", out);
    dz_json_write_string(out, dz_slice_of(r->title));
    fputs(",\"notes\":[", out);
    for (size_t i = 0; i < r->note_count; i++) {
        if (i)
            putc(',', out);
        dz_json_write_string(out, dz_slice_of(r->notes[i]));
    }
    fputs("],\"profile\":", out);
    int rc = dz_write_page_data(p, out);
    putc('}', out);
    dz_page_end(out);
    return rc < 0 ? rc : fflush(out) == 0 && !ferror(out) ? 0 : errno ? -errno : -EIO;
}

static void place(const dz_profile *p, const dz_hot *h, char *out, size_t cap)
{
    const dz_frame *f = &p->frames[h->frame];
    dz_slice file = dz_profile_text(p, f->file);
    if (f->line)
        snprintf(out, cap, "%.*s:%u", (int)file.len, file.ptr, f->line);
    else
        snprintf(out, cap, "%.*s", (int)file.len, file.ptr);
}

static int print_table(const dz_profile *p, const dz_flame_report *r, FILE *out)
{
    enum { MAX = 1000 };
    dz_hot *hot = calloc(MAX, sizeof *hot);
    long n = hot ? dz_profile_hottest(p, hot, r->top, NULL, NULL) : -1;
    double total = (double)dz_profile_total(p);
    dz_table *t = dz_table_new(6);
    dz_table_head(t, "self", DZ_RIGHT);
    dz_table_head(t, "%", DZ_RIGHT);
    dz_table_head(t, "total %", DZ_RIGHT);
    dz_table_head(t, "kind", DZ_LEFT);
    dz_table_head(t, "function", DZ_LEFT);
    dz_table_head(t, "where", DZ_LEFT);
    for (long i = 0; i < n; i++) {
        const dz_frame *f = &p->frames[hot[i].frame];
        dz_slice name = dz_profile_text(p, f->name);
        char where[512];
        place(p, &hot[i], where, sizeof where);
        if (p->counts)
            dz_table_cell(t, "%s", dz_format_count(hot[i].self / 1000).text);
        else
            dz_table_cell(t, "%s", dz_format_duration(hot[i].self).text);
        dz_table_cell(t, "%.1f", 100 * (double)hot[i].self / total);
        dz_table_cell(t, "%.1f", 100 * (double)hot[i].total / total);
        dz_table_cell(t, "%s", dz_frame_kind_name((dz_frame_kind)f->kind));
        dz_table_cell(t, "%.*s", (int)(name.len < 60 ? name.len : 60), name.ptr);
        dz_table_cell(t, "%s", where);
    }
    int rc = dz_table_print(t, out);
    dz_table_free(t);
    free(hot);
    return n < 0 ? DZ_E_NOMEM : rc;
}

static bool to_stdout(const dz_flame_outputs *o)
{
    const char *const all[] = {o->collapsed, o->speedscope, o->pprof, o->cpuprofile, o->json};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] && strcmp(all[i], "-") == 0)
            return true;
    return false;
}

int dz_flame_write(const dz_profile *p, const dz_flame_report *r, const dz_flame_outputs *o)
{
    for (size_t i = 0; i < r->note_count; i++)
        dz_print_clean(stderr, "%s: note: %s\n", tool, r->notes[i]);
    if (dz_profile_total(p) == 0)
        return dz_fail(DZ_EXIT_FAILED, tool,
                       p->off_cpu ? "no thread was seen to wait: the program ended too soon, or "
                                    "only computed"
                                  : "nothing was seen on a CPU: the program ended too soon, or "
                                    "only waited (--off-cpu shows where)");
    char name[64];
    const char *page = o->html;
    if (!page) {
        snprintf(name, sizeof name, "donmaz-flame-%d.html", (int)r->pid);
        page = name;
    }
    int code = DZ_EXIT_OK;
    const struct {
        const char *path;
        writer *write;
    } files[] = {{strcmp(page, "-") == 0 ? NULL : page, html},
                 {o->collapsed, collapsed},
                 {o->speedscope, speedscope},
                 {o->pprof, pprof},
                 {o->cpuprofile, cpuprofile},
                 {o->json, json}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        int one = write_to(files[i].path, files[i].write, p, r);
        code = one ? one : code;
    }
    if (r->top && print_table(p, r, to_stdout(o) ? stderr : stdout) < 0)
        code = dz_fail(DZ_EXIT_FAILED, tool, "out of memory");
    if (code == DZ_EXIT_OK && strcmp(page, "-") != 0) {
        fprintf(stderr, "%s: wrote %s\n", tool, page);
        if (o->open)
            dz_page_open(page);
    }
    return code;
}
