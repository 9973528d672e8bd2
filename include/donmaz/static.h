/* static.h: files.
 *
 *     dz_static(app, "/assets", "/srv/assets", NULL);
 *
 * GET and HEAD; other methods are 405. A path never leads out of the folder: not by `..`, not by
 * encoded bytes, not by a symbolic link (links inside the folder are followed). Names that begin
 * with a dot do not exist. A folder is answered with its index file; without the final slash it is
 * redirected. Conditional requests, Range with If-Range, and precompressed neighbours of a file
 * (app.js.br, app.js.gz) are served; docs/static.md has the rules.
 *
 * Bytes go from the page cache to the socket by sendfile(2). Waiting for a disk happens on threads
 * of the folder's own, never on the loop. */
#ifndef DONMAZ_STATIC_H
#define DONMAZ_STATIC_H

#include <donmaz/app.h>
#include <donmaz/export.h>

typedef struct dz_files dz_files;

typedef struct dz_type {
    const char *extension, *type; /* "wasm", "application/wasm"; lower case, no dot */
} dz_type;

typedef struct dz_files_options {
    const char *index;         /* default "index.html"; NULL: none */
    const char *cache_control; /* the field's value; default NULL: by max_age_s and immutable */
    uint64_t max_age_s;        /* default 0: no Cache-Control */
    bool immutable;            /* adds `immutable`, for names that change with their content */
    bool precompressed;        /* look for .br and .gz beside compressible files; default true */
    bool well_known;           /* serve /.well-known although it begins with a dot */
    const char *fallback;      /* sent with 200 where there is no file: a single-page app's start;
                                  a name in the folder; default NULL: 404 */
    const dz_type *types; /* go before the built-in table; ends with {NULL, NULL}; default NULL */
} dz_files_options;

DZ_API void dz_files_options_init(dz_files_options *options);

/* Serves the folder `root` for paths below `prefix` ("/" for all that no other route takes). The
 * folder is opened now, and stays the same if its name is moved. Strings in `options` must outlive
 * the app; NULL: defaults. Returns the route, or NULL like dz_get; dz_run then says why. May be
 * called from dz_on_start. */
DZ_API dz_route *dz_static(dz_app *app, const char *prefix, const char *root,
                           const dz_files_options *options);

/* A folder for dz_send_file. -errno, DZ_E_NOMEM, DZ_E_INVALID. The folder is any thread's to use.
 * Close it after the last request and before the app is freed: in dz_on_stop, or after dz_app_wait.
 */
DZ_API int dz_files_open(dz_files **files, const char *root, const dz_files_options *options);
DZ_API void dz_files_close(dz_files *files); /* NULL is fine */

/* From a handler: answers with the file `name` in the folder ("reports/7.pdf": decoded, no `..`),
 * by the same rules, once it has decided that the client may have it. Header fields set before are
 * sent, too; a Content-Type set before goes before the table's. Always answers: 404, 403 and the
 * like where there is no such file. 0, or DZ_E_STATE: already answered. May park. */
DZ_API int dz_send_file(dz_request *req, dz_response *res, dz_files *files, dz_slice name);

#endif
