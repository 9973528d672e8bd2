/* The response for a file that was found: variant, validators, conditions, ranges, body. */
#include "content/fields.h"
#include "content/multipart.h"
#include "content/range.h"
#include "content/sending.h"
#include "content/types.h"

#include "base/clock.h"

#include <donmaz/conditional.h>
#include <donmaz/error.h>

#include <stdio.h>
#include <unistd.h>

enum {
    SMALL = 16 << 10, /* a body up to this is read and goes in one piece with the head */
    SETTLED_S = 2,    /* after this a file's time tells every change apart (RFC 9110 8.8.2.2) */
};

static bool is_newer_or_same(const struct stat *a, const struct stat *b)
{
    return a->st_mtim.tv_sec != b->st_mtim.tv_sec ? a->st_mtim.tv_sec > b->st_mtim.tv_sec
                                                  : a->st_mtim.tv_nsec >= b->st_mtim.tv_nsec;
}

/* Takes the precompressed neighbour that the client likes best, unless the file has changed since.
 * 0, or out of memory. */
static int choose_variant(dz_sending *it, const char *name)
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
        const char *path =
            dz_sending_join(it->req, dz_slice_of(name), coding == DZ_CODING_BR ? ".br" : ".gz");
        if (!path)
            return DZ_E_NOMEM;
        if (dz_sending_find(it->files, path, &variant) < 0)
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

static int set_validators(dz_sending *it)
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

static int set_cache_control(dz_sending *it)
{
    const dz_files *files = it->files;
    const char *value =
        files->options.cache_control ? files->options.cache_control : files->cache_control;
    if (*value == '\0' || dz_content_get(it->res, "cache-control").ptr)
        return 0;
    return dz_res_header(it->res, "Cache-Control", value);
}

static int set_fields(dz_sending *it)
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

static void send_small(dz_sending *it, dz_range range)
{
    char *text = dz_arena_alloc(&it->req->arena, (size_t)range.len + 1);
    int rc = text ? dz_files_read(it->files, it->found.fd, text, (size_t)range.len, range.start)
                  : DZ_E_NOMEM;
    close(it->found.fd);
    dz_buf body = dz_buf_borrow(dz_slice_make(text, (size_t)range.len));
    if (rc == 0)
        rc = dz_http_reply(it->req, &body);
    if (rc < 0)
        dz_sending_failed(it->req, it->res, rc);
}

/* Ranges one after the other, with what stands between them. */
static void send_pieces(dz_sending *it, const dz_range *ranges, int count)
{
    dz_list pieces;
    uint64_t length = 0;
    dz_list_init(&pieces);
    dz_out_file *file = dz_file_out_new(it->files, it->req->loop, it->found.fd, (unsigned)count);
    if (!file) {
        close(it->found.fd);
        dz_sending_failed(it->req, it->res, DZ_E_NOMEM);
        return;
    }
    int rc = dz_multipart_pieces(it->req, file, (uint64_t)it->found.st.st_size, ranges, count,
                                 &pieces, &length);
    if (rc == 0)
        rc = dz_http_reply_pieces(it->req, length, &pieces);
    if (rc < 0) {
        file->release(file);
        dz_sending_failed(it->req, it->res, rc);
    }
}

/* Sets the status and Content-Range; the ranges to send, 0 after 416 was answered. */
static int choose_ranges(dz_sending *it, dz_range ranges[DZ_RANGES_MAX])
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
            dz_sending_failed(it->req, it->res, DZ_E_NOMEM);
            return 0;
        }
    }
    return count;
}

static void send_body(dz_sending *it)
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
            dz_sending_failed(it->req, it->res, rc);
    } else if (count == 1 && ranges[0].len <= SMALL) {
        send_small(it, ranges[0]);
    } else {
        send_pieces(it, ranges, count);
    }
}

void dz_sending_found(dz_sending *it, const char *name)
{
    it->type = type_of(it->files, dz_slice_of(name));
    int rc = choose_variant(it, name);
    if (rc == 0)
        rc = set_fields(it);
    if (rc < 0) {
        close(it->found.fd);
        dz_sending_failed(it->req, it->res, rc);
    } else if (!dz_preconditions(it->req, it->res, true)) {
        close(it->found.fd);
    } else {
        send_body(it);
    }
}
