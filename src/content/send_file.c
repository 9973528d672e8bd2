/* Which file a path names, and what is answered when it names none. */
#include "content/fields.h"
#include "content/sending.h"

#include <donmaz/error.h>

#include <errno.h>
#include <unistd.h>

/* --- errors --- */

static int status_of(int error)
{
    switch (error) {
    case -ENOENT:
    case -ENOTDIR:
    case -ELOOP:
    case -EXDEV: /* leads out of the folder */
    case -ENAMETOOLONG:
    case -ENXIO:
    case -ENODEV:
        return 404;
    case -EACCES:
    case -EPERM:
        return 403;
    case -EMFILE:
    case -ENFILE:
    case -ENOMEM:
    case -EAGAIN:
    case DZ_E_NOMEM:
    case DZ_E_CLOSED: /* the file became shorter while we read it */
        return 503;
    default:
        return 500;
    }
}

void dz_sending_failed(dz_request *req, dz_response *res, int error)
{
    int status = status_of(error);
    dz_content_forget_body(res);
    dz_content_remove(res, "etag");
    dz_content_remove(res, "last-modified");
    dz_content_remove(res, "cache-control");
    if (status == 503)
        (void)dz_res_header(res, "Retry-After", "1");
    dz_core_render_error(req, res, status, 0);
}

/* --- which file --- */

/* Names that begin with a dot do not exist. */
static bool is_visible(const dz_files *files, dz_slice path)
{
    for (size_t i = 0; i + 1 < path.len; i++) {
        if (path.ptr[i] != '/' || path.ptr[i + 1] != '.')
            continue;
        dz_slice rest = dz_slice_make(path.ptr + i, path.len - i);
        static const char exempt[] = "/.well-known";
        enum { LEN = sizeof exempt - 1 };
        bool well_known = i == 0 && rest.len >= LEN && memcmp(rest.ptr, exempt, LEN) == 0 &&
                          (rest.len == LEN || rest.ptr[LEN] == '/');
        if (!well_known || !files->options.well_known)
            return false;
    }
    return true;
}

char *dz_sending_join(dz_request *req, dz_slice path, const char *end)
{
    size_t len = strlen(end);
    char *text = dz_arena_alloc(&req->arena, path.len + len + 1);
    if (!text)
        return NULL;
    if (path.len > 0)
        memcpy(text, path.ptr, path.len);
    memcpy(text + path.len, end, len + 1);
    return text;
}

/* Finds a regular file or a folder; closes what is neither. */
static int find(dz_files *files, const char *name, dz_found *found)
{
    int rc = dz_files_find(files, name, found);
    if (rc < 0 || S_ISREG(found->st.st_mode) || S_ISDIR(found->st.st_mode))
        return rc;
    close(found->fd);
    return -ENOENT;
}

int dz_sending_find(dz_files *files, const char *name, dz_found *found)
{
    int rc = find(files, name, found);
    if (rc < 0 || S_ISREG(found->st.st_mode))
        return rc;
    close(found->fd);
    return -ENOENT;
}

/* --- folders --- */

/* Room for `text` with every byte escaped that a Location can't have. Returns the end. */
static char *escape(char *out, dz_slice text)
{
    static const char plain[] = "-._~!$&'()*+,;=:@/";
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (letter || (c && strchr(plain, c))) {
            *out++ = c;
            continue;
        }
        *out++ = '%';
        *out++ = "0123456789ABCDEF"[(unsigned char)c >> 4];
        *out++ = "0123456789ABCDEF"[(unsigned char)c & 15];
    }
    return out;
}

/* To the same path with a slash at its end. It is made of the clean path: as sent it could begin
 * with "//", which names another host. */
static void redirect(dz_request *req, dz_response *res, dz_slice above, dz_slice path)
{
    dz_slice query = req->head.query;
    char *text = dz_arena_alloc(&req->arena, above.len + 3 * path.len + 3 + query.len);
    if (!text) {
        dz_sending_failed(req, res, DZ_E_NOMEM);
        return;
    }
    char *end = text;
    if (above.len > 0) {
        memcpy(text, above.ptr, above.len);
        end += above.len;
    }
    end = escape(end, path);
    *end++ = '/';
    if (query.len > 0) {
        *end++ = '?';
        memcpy(end, query.ptr, query.len);
        end += query.len;
    }
    int rc =
        dz_res_header_slice(res, DZ_LIT("Location"), dz_slice_make(text, (size_t)(end - text)));
    if (rc == 0)
        rc = dz_send_status(res, 301);
    if (rc < 0)
        dz_sending_failed(req, res, rc);
}

/* A path without a file's name that a single-page app's start should answer. */
static bool may_fall_back(const dz_files *files, dz_slice path)
{
    const char *slash = path.len > 0 ? memrchr(path.ptr, '/', path.len) : NULL;
    size_t start = slash ? (size_t)(slash - path.ptr) : 0;
    return files->options.fallback &&
           (path.len == start || !memchr(path.ptr + start, '.', path.len - start));
}

static void send_missing(dz_sending *it, dz_slice path, int error)
{
    const char *fallback = it->files->options.fallback;
    if (status_of(error) == 404 && may_fall_back(it->files, path)) {
        error = dz_sending_find(it->files, fallback, &it->found);
        if (error == 0) {
            dz_sending_found(it, fallback);
            return;
        }
    }
    dz_sending_failed(it->req, it->res, error);
}

void dz_files_send(dz_request *req, dz_response *res, dz_files *files, dz_slice path,
                   dz_slice above)
{
    dz_sending it = {.req = req, .res = res, .files = files};
    bool folder = path.len > 0 && path.ptr[path.len - 1] == '/';
    const char *index = files->options.index;
    res->prepare = NULL; /* a file's tag and coding are decided here */
    if (path.len == 0 && above.ptr) {
        redirect(req, res, above, path);
        return;
    }
    if (!is_visible(files, path)) {
        dz_sending_failed(req, res, -ENOENT);
        return;
    }
    if (folder && !index) {
        send_missing(&it, path, -ENOENT);
        return;
    }
    const char *name =
        dz_sending_join(req, dz_slice_make(path.ptr + 1, path.len - 1), folder ? index : "");
    int rc = name ? find(files, name, &it.found) : DZ_E_NOMEM;
    if (rc == 0 && S_ISDIR(it.found.st.st_mode)) {
        close(it.found.fd);
        if (above.ptr && !folder && index) {
            redirect(req, res, above, path);
            return;
        }
        rc = -ENOENT;
    }
    if (rc < 0)
        send_missing(&it, path, rc);
    else
        dz_sending_found(&it, name);
}

/* "a/b.txt": no empty segment, `.` or `..`, no byte that ends a name. */
static bool is_clean(dz_slice path)
{
    size_t start = 0;
    for (size_t i = 0; i <= path.len; i++) {
        if (i < path.len && path.ptr[i] == '\0')
            return false;
        if (i < path.len && path.ptr[i] != '/')
            continue;
        size_t len = i - start;
        if (len == 0 || (len == 1 && path.ptr[start] == '.') ||
            (len == 2 && memcmp(path.ptr + start, "..", 2) == 0))
            return false;
        start = i + 1;
    }
    return true;
}

int dz_send_file(dz_request *req, dz_response *res, dz_files *files, dz_slice name)
{
    if (res->state != DZ_RESPONSE_OPEN)
        return DZ_E_STATE;
    if (!is_clean(name)) {
        dz_sending_failed(req, res, -ENOENT);
        return 0;
    }
    char *path = dz_arena_alloc(&req->arena, name.len + 1);
    if (!path) {
        dz_sending_failed(req, res, DZ_E_NOMEM);
        return 0;
    }
    path[0] = '/';
    memcpy(path + 1, name.ptr, name.len);
    dz_files_send(req, res, files, dz_slice_make(path, name.len + 1), (dz_slice){0});
    return 0;
}
