#include "page.h"

#include <spawn.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

#define PAGE(name)                                                                                 \
    extern const char dz_page_##name##_css[], dz_page_##name##_js[];                               \
    extern const size_t dz_page_##name##_css_len, dz_page_##name##_js_len;
PAGE(doctor)
PAGE(flame)
PAGE(report)
#undef PAGE

static const struct {
    const char *name, *css, *js;
    const size_t *css_len, *js_len;
} pages[] = {
#define PAGE(kind, name)                                                                           \
    [kind] = {#name, dz_page_##name##_css, dz_page_##name##_js, &dz_page_##name##_css_len,         \
              &dz_page_##name##_js_len}
    PAGE(DZ_PAGE_DOCTOR, doctor),
    PAGE(DZ_PAGE_FLAME, flame),
    PAGE(DZ_PAGE_REPORT, report),
#undef PAGE
};

static dz_page_kind open_kind; /* of the page being written: one at a time */

static void put_escaped(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '<')
            fputs("&lt;", out);
        else if (*text == '&')
            fputs("&amp;", out);
        else
            putc(*text, out);
    }
}

void dz_page_begin(FILE *out, dz_page_kind kind, const char *title)
{
    open_kind = kind;
    /* The policy is what "self-contained" means: the browser itself refuses any request. */
    fprintf(out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
            "<meta name=\"viewport\" content=\"width=device-width\">\n"
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
            "script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:\">\n"
            "<link rel=\"icon\" href=\"data:,\">\n<title>donmaz %s: ",
            pages[kind].name);
    put_escaped(out, title);
    fputs("</title>\n<style>", out);
    fwrite(pages[kind].css, 1, *pages[kind].css_len, out);
    fputs("</style>\n</head>\n<body>\n<main id=\"page\"></main>\n"
          "<noscript>This page needs JavaScript to show its figures.</noscript>\n"
          "<script type=\"application/json\" id=\"data\">",
          out);
}

void dz_page_end(FILE *out)
{
    dz_page_kind kind = open_kind;
    fputs("</script>\n<script>", out);
    fwrite(pages[kind].js, 1, *pages[kind].js_len, out);
    fputs("</script>\n</body>\n</html>\n", out);
}

void dz_page_discard(const char *path)
{
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISREG(st.st_mode))
        unlink(path);
}

void dz_page_open(const char *path)
{
    char name[] = "xdg-open", file[4096];
    snprintf(file, sizeof file, "%s", path);
    char *argv[] = {name, file, NULL};
    posix_spawnattr_t attributes;
    pid_t pid;
    /* In a session of its own: a browser lives longer than the tool that showed it a page. */
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    if (posix_spawnp(&pid, name, NULL, &attributes, argv, environ) != 0)
        fprintf(stderr, "no xdg-open here: open %s in a browser\n", path);
    posix_spawnattr_destroy(&attributes);
}
