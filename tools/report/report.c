#include "report.h"

#include "page.h"

#include <donmaz/error.h>

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* "<" occurs in JSON only inside strings, where it may be written as an escape: then nothing in the
 * data can end the element it stands in. */
static int put_json(const char *data, size_t size, void *file)
{
    FILE *out = file;
    for (size_t i = 0; i < size; i++) {
        bool failed = data[i] == '<' ? fputs("\\u003c", out) == EOF : putc(data[i], out) == EOF;
        if (failed)
            return -1;
    }
    return 0;
}

int dz_report_print(FILE *out, const char *kind, const char *title, json_t *document)
{
    errno = 0;
    json_t *data = json_pack("{s:s, s:O}", "kind", kind, "document", document);
    if (!data)
        return DZ_E_NOMEM;
    dz_page_begin(out, DZ_PAGE_REPORT, title);
    int rc = json_dump_callback(data, put_json, out, JSON_COMPACT | JSON_REAL_PRECISION(9));
    dz_page_end(out);
    json_decref(data);
    return rc == 0 && fflush(out) == 0 && !ferror(out) ? 0 : -(errno ? errno : EIO);
}

int dz_report_write(const char *path, const char *kind, const char *title, json_t *document)
{
    if (strcmp(path, "-") == 0)
        return dz_report_print(stdout, kind, title, document);
    FILE *out = fopen(path, "we");
    if (!out)
        return -errno;
    int rc = dz_report_print(out, kind, title, document);
    if (fclose(out) != 0 && rc == 0)
        rc = -errno;
    return rc;
}
