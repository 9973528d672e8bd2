#include "content/encoding.h"
#include "content/fields.h"
#include "content/files.h"
#include "content/multipart.h"
#include "content/range.h"
#include "content/types.h"

#include "base/clock.h"

#include <donmaz/conditional.h>
#include <donmaz/error.h>

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* From a clean path to the response:
 *
 *   visible? ─> find ─> folder: redirect or index ─> variant ─> validators ─> 304, 412?
 *            ─> Range: 206, 416 ─> head and pieces of the file
 */

enum {
    SMALL = 16 << 10, /* a body up to this is read and goes in one piece with the head */
    SETTLED_S = 2,    /* after this a file's time tells every change apart (RFC 9110 8.8.2.2) */
};

typedef struct sending {
    dz_request *req;
    dz_response *res;
    dz_files *files;
    dz_slice type;
    dz_coding coding;
    dz_found found; /* what is sent */
    bool settled;   /* its time is old enough to be a strong validator */
} sending;

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

/* What went wrong is the operator's business: the client gets the status alone. */
static void fail(dz_request *req, dz_response *res, int error)
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

/* NUL-terminated: the path below the folder and something after it. NULL out of memory. */
static char *join(dz_request *req, dz_slice path, const char *end)
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

static int find_regular(dz_files *files, const char *name, dz_found *found)
{
    int rc = find(files, name, found);
    if (rc < 0 || S_ISREG(found->st.st_mode))
        return rc;
    close(found->fd);
    return -ENOENT;
}

static bool is_newer_or_same(const struct stat *a, const struct stat *b)
{
    return a->st_mtim.tv_sec != b->st_mtim.tv_sec ? a->st_mtim.tv_sec > b->st_mtim.tv_sec
                                                  : a->st_mtim.tv_nsec >= b->st_mtim.tv_nsec;
}

/* Takes the precompressed neighbour that the client likes best, unless the file has changed since.
 * 0, or out of memory. */
static int choose_variant(sending *it, const char *name)
{
    unsigned available = 1U << DZ_CODING_BR | 1U << DZ_CODING_GZIP;
    if (!it->files->options.precompressed || !dz_type_compressible(it->type))
        return 0;
    if (dz_content_vary(it->res) < 0)
        return DZ_E_NOMEM;
    dz_slice accepted = dz_content_list(it->req, "accept-encoding");
    for (dz_coding coding; (coding = dz_coding_choose(accepted, available)) != DZ_CODING_IDENTITY;
         available &= ~(1U << coding)) {
        dz_found variant;
        const char *path = join(it->req, dz_slice_of(name), coding == DZ_CODING_BR ? ".br" : ".gz");
        if (!path)
            return DZ_E_NOMEM;
        if (find_regular(it->files, path, &variant) < 0)
            continue;
        if (is_newer_or_same(&variant.st, &it->found.st)) {
            close(it->found.fd);
            it->found = variant;
            it->coding = coding;
            return dz_res_header_slice(it->res, DZ_LIT("Content-Encoding"), dz_coding_name(coding));
        }
        close(variant.fd);
    }
    return 0;
}

static dz_slice type_of(const dz_files *files, dz_slice name)
{
    const char *dot = name.len > 0 ? memrchr(name.ptr, '.', name.len) : NULL;
    dz_slice extension = {0};
    if (dot)
        extension = dz_slice_make(dot + 1, (size_t)(name.ptr + name.len - dot - 1));
    for (const dz_type *own = files->options.types; own && own->extension; own++)
        if (dz_slice_equal_nocase(extension, dz_slice_of(own->extension)))
            return dz_slice_of(own->type);
    return dz_type_of_name(name);
}

/* --- header fields --- */

static int set_validators(sending *it)
{
    static const char *const suffix[] = {
        [DZ_CODING_IDENTITY] = "", [DZ_CODING_GZIP] = "-gz", [DZ_CODING_BR] = "-br"};
    const struct timespec *mtime = &it->found.st.st_mtim;
    int64_t now = dz_content_now();
    char tag[64];
    /* Not the inode: machines that serve copies of the folder should agree. */
    int len =
        snprintf(tag, sizeof tag, "%llx-%llx%s",
                 (unsigned long long)mtime->tv_sec * DZ_SEC + (unsigned long long)mtime->tv_nsec,
                 (unsigned long long)it->found.st.st_size, suffix[it->coding]);
    it->settled = mtime->tv_sec <= now - SETTLED_S;
    int rc = dz_res_etag(it->res, dz_slice_make(tag, (size_t)len), !it->settled);
    if (rc < 0)
        return rc;
    /* Never later than Date (RFC 9110 8.8.2.1). */
    return dz_res_last_modified(it->res, mtime->tv_sec < now ? mtime->tv_sec : now);
}

static int set_cache_control(sending *it)
{
    const dz_files *files = it->files;
    const char *value =
        files->options.cache_control ? files->options.cache_control : files->cache_control;
    if (*value == '\0' || dz_content_get(it->res, "cache-control").ptr)
        return 0;
    return dz_res_header(it->res, "Cache-Control", value);
}

static int set_fields(sending *it)
{
    if (!it->res->content_type.ptr)
        it->res->content_type = it->type;
    int rc = set_validators(it);
    if (rc == 0)
        rc = set_cache_control(it);
    if (rc == 0)
        rc = dz_res_header(it->res, "Accept-Ranges", "bytes");
    return rc;
}

/* --- the body --- */

static void send_small(sending *it, dz_range range)
{
    char *text = dz_arena_alloc(&it->req->arena, (size_t)range.len + 1);
    int rc = text ? dz_files_read(it->files, it->found.fd, text, (size_t)range.len, range.start)
                  : DZ_E_NOMEM;
    close(it->found.fd);
    dz_buf body = dz_buf_borrow(dz_slice_make(text, (size_t)range.len));
    if (rc == 0)
        rc = dz_http_reply(it->req, &body);
    if (rc < 0)
        fail(it->req, it->res, rc);
}

/* Ranges one after the other, with what stands between them. */
static void send_pieces(sending *it, const dz_range *ranges, int count)
{
    dz_list pieces;
    uint64_t length = 0;
    dz_list_init(&pieces);
    dz_out_file *file = dz_file_out_new(it->files, it->req->loop, it->found.fd, (unsigned)count);
    if (!file) {
        close(it->found.fd);
        fail(it->req, it->res, DZ_E_NOMEM);
        return;
    }
    int rc = dz_multipart_pieces(it->req, file, (uint64_t)it->found.st.st_size, ranges, count,
                                 &pieces, &length);
    if (rc == 0)
        rc = dz_http_reply_pieces(it->req, length, &pieces);
    if (rc < 0) {
        file->release(file);
        fail(it->req, it->res, rc);
    }
}

/* Sets the status and Content-Range; the ranges to send, 0 after 416 was answered. */
static int choose_ranges(sending *it, dz_range ranges[DZ_RANGES_MAX])
{
    uint64_t size = (uint64_t)it->found.st.st_size;
    dz_validators validators;
    int64_t now = dz_content_now();
    dz_content_validators(it->res, true, &validators);
    validators.strong_date = it->settled;
    dz_slice field = dz_req_header(it->req, "range");
    int count = 0;
    if (field.ptr && it->req->head.method == DZ_GET &&
        dz_if_range_holds(dz_req_header(it->req, "if-range"), &validators, now))
        count = dz_range_parse(field, size, ranges);
    char text[80];
    if (count == DZ_RANGE_UNSATISFIABLE) {
        close(it->found.fd);
        dz_content_forget_body(it->res);
        dz_content_remove(it->res, "etag");
        dz_content_remove(it->res, "last-modified");
        dz_content_remove(it->res, "cache-control");
        snprintf(text, sizeof text, "bytes */%llu", (unsigned long long)size);
        (void)dz_res_header(it->res, "Content-Range", text);
        dz_core_render_error(it->req, it->res, 416, 0);
        return 0;
    }
    if (count == 0) {
        ranges[0] = (dz_range){0, size};
        return 1;
    }
    it->res->status = 206;
    if (count == 1) {
        snprintf(text, sizeof text, "bytes %llu-%llu/%llu", (unsigned long long)ranges[0].start,
                 (unsigned long long)(ranges[0].start + ranges[0].len - 1),
                 (unsigned long long)size);
        if (dz_res_header(it->res, "Content-Range", text) < 0) {
            close(it->found.fd);
            fail(it->req, it->res, DZ_E_NOMEM);
            return 0;
        }
    }
    return count;
}

static void send_body(sending *it)
{
    dz_range ranges[DZ_RANGES_MAX];
    it->res->status = 200;
    int count = choose_ranges(it, ranges);
    if (count == 0)
        return;
    if (it->req->head.method == DZ_HEAD) {
        dz_list none;
        dz_list_init(&none);
        close(it->found.fd);
        int rc = dz_http_reply_pieces(it->req, ranges[0].len, &none);
        if (rc < 0)
            fail(it->req, it->res, rc);
    } else if (count == 1 && ranges[0].len <= SMALL) {
        send_small(it, ranges[0]);
    } else {
        send_pieces(it, ranges, count);
    }
}

static void send_found(sending *it, const char *name)
{
    it->type = type_of(it->files, dz_slice_of(name));
    int rc = choose_variant(it, name);
    if (rc == 0)
        rc = set_fields(it);
    if (rc < 0) {
        close(it->found.fd);
        fail(it->req, it->res, rc);
    } else if (!dz_preconditions(it->req, it->res, true)) {
        close(it->found.fd);
    } else {
        send_body(it);
    }
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
        fail(req, res, DZ_E_NOMEM);
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
        fail(req, res, rc);
}

/* A path without a file's name that a single-page app's start should answer. */
static bool may_fall_back(const dz_files *files, dz_slice path)
{
    const char *slash = path.len > 0 ? memrchr(path.ptr, '/', path.len) : NULL;
    size_t start = slash ? (size_t)(slash - path.ptr) : 0;
    return files->options.fallback &&
           (path.len == start || !memchr(path.ptr + start, '.', path.len - start));
}

static void send_missing(sending *it, dz_slice path, int error)
{
    const char *fallback = it->files->options.fallback;
    if (status_of(error) == 404 && may_fall_back(it->files, path)) {
        error = find_regular(it->files, fallback, &it->found);
        if (error == 0) {
            send_found(it, fallback);
            return;
        }
    }
    fail(it->req, it->res, error);
}

void dz_files_send(dz_request *req, dz_response *res, dz_files *files, dz_slice path,
                   dz_slice above)
{
    sending it = {.req = req, .res = res, .files = files};
    bool folder = path.len > 0 && path.ptr[path.len - 1] == '/';
    const char *index = files->options.index;
    res->prepare = NULL; /* a file's tag and coding are decided here */
    if (path.len == 0 && above.ptr) {
        redirect(req, res, above, path);
        return;
    }
    if (!is_visible(files, path)) {
        fail(req, res, -ENOENT);
        return;
    }
    if (folder && !index) {
        send_missing(&it, path, -ENOENT);
        return;
    }
    const char *name = join(req, dz_slice_make(path.ptr + 1, path.len - 1), folder ? index : "");
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
        send_found(&it, name);
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
        fail(req, res, -ENOENT);
        return 0;
    }
    char *path = dz_arena_alloc(&req->arena, name.len + 1);
    if (!path) {
        fail(req, res, DZ_E_NOMEM);
        return 0;
    }
    path[0] = '/';
    memcpy(path + 1, name.ptr, name.len);
    dz_files_send(req, res, files, dz_slice_make(path, name.len + 1), (dz_slice){0});
    return 0;
}
