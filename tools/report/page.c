#include "page.h"

#include "target/spawn.h"

#include <stddef.h>

extern const char dz_page_doctor_css[], dz_page_doctor_js[];
extern const char dz_page_flame_css[], dz_page_flame_js[];
extern const size_t dz_page_doctor_css_len, dz_page_doctor_js_len;
extern const size_t dz_page_flame_css_len, dz_page_flame_js_len;

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
    const char *name = kind == DZ_PAGE_DOCTOR ? "doctor" : "flame";
    open_kind = kind;
    /* The policy is what "self-contained" means: the browser itself refuses any request. */
    fprintf(out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
            "<meta name=\"viewport\" content=\"width=device-width\">\n"
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
            "script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:\">\n"
            "<link rel=\"icon\" href=\"data:,\">\n<title>donmaz %s: ",
            name);
    put_escaped(out, title);
    fputs("</title>\n<style>", out);
    if (kind == DZ_PAGE_DOCTOR)
        fwrite(dz_page_doctor_css, 1, dz_page_doctor_css_len, out);
    else
        fwrite(dz_page_flame_css, 1, dz_page_flame_css_len, out);
    fputs("</style>\n</head>\n<body>\n<main id=\"page\"></main>\n"
          "<script type=\"application/json\" id=\"data\">",
          out);
}

void dz_page_end(FILE *out)
{
    fputs("</script>\n<script>", out);
    if (open_kind == DZ_PAGE_DOCTOR)
        fwrite(dz_page_doctor_js, 1, dz_page_doctor_js_len, out);
    else
        fwrite(dz_page_flame_js, 1, dz_page_flame_js_len, out);
    fputs("</script>\n</body>\n</html>\n", out);
}

void dz_page_open(const char *path)
{
    char name[] = "xdg-open", file[4096];
    snprintf(file, sizeof file, "%s", path);
    char *argv[] = {name, file, NULL};
    dz_target t;
    dz_target_options o = {.argv = argv};
    if (dz_target_start(&t, &o) < 0)
        fprintf(stderr, "no xdg-open here: open %s in a browser\n", path);
    else
        dz_target_wait(&t, 10000);
}
