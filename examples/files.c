/* files: serves a folder (docs/static.md).
 *
 *   GET /...     the files of --root
 *   GET /health  {"ok":true} */
#include <donmaz.h>

#include <stdio.h>
#include <stdlib.h>

static const char *root = ".", *max_age = "0", *immutable = NULL, *fallback = NULL;
static const char *well_known = NULL, *no_index = NULL;

static void health(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_json(res, 200, "{\"ok\":true}");
}

static int start(dz_app *app, void *unused)
{
    (void)unused;
    char *end;
    dz_files_options options;
    dz_files_options_init(&options);
    options.max_age_s = strtoull(max_age, &end, 10);
    if (*end || end == max_age) {
        fprintf(stderr, "files: --max-age takes a number of seconds, not %s\n", max_age);
        return DZ_E_INVALID;
    }
    options.immutable = immutable != NULL;
    options.fallback = fallback;
    options.well_known = well_known != NULL;
    if (no_index)
        options.index = NULL;
    dz_static(app, "/", root, &options);
    return 0; /* a folder that can't be opened is reported by dz_run */
}

int main(int argc, char **argv)
{
    dz_app *app = dz_app_new();
    dz_app_option(app, "root", "FOLDER", "the folder to serve (.)", &root);
    dz_app_option(app, "max-age", "SECONDS", "send Cache-Control: public, max-age=SECONDS",
                  &max_age);
    dz_app_option(app, "immutable", NULL, "names change with their content", &immutable);
    dz_app_option(app, "fallback", "NAME", "send this file where a page is missing", &fallback);
    dz_app_option(app, "well-known", NULL, "serve /.well-known, too", &well_known);
    dz_app_option(app, "no-index", NULL, "answer folders with 404", &no_index);
    dz_get(app, "/health", health);
    dz_on_start(app, start);
    return dz_run(app, argc, argv);
}
