#include "content/multipart.h"

#include "base/clock.h"

#include <donmaz/error.h>

#include <stdio.h>

/* `boundary` must not occur in the file; sixteen digits that nobody can foresee do not. */
static uint64_t make_boundary(const dz_request *req)
{
    uint64_t mixed = dz_now() ^ req->id * UINT64_C(0x9e3779b97f4a7c15);
    mixed ^= mixed >> 29;
    mixed *= UINT64_C(0xbf58476d1ce4e5b9);
    return mixed ^ mixed >> 32;
}

static int add(dz_request *req, dz_list *pieces, uint64_t *length, dz_out piece)
{
    dz_out *out = dz_arena_alloc(&req->arena, sizeof *out);
    if (!out)
        return DZ_E_NOMEM;
    *out = piece;
    out->req = req;
    dz_list_push(pieces, &out->link);
    *length += out->len;
    return 0;
}

__attribute__((format(printf, 4, 5))) static int add_text(dz_request *req, dz_list *pieces,
                                                          uint64_t *length, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    dz_slice text = dz_arena_vprintf(&req->arena, fmt, args);
    va_end(args);
    if (!text.ptr)
        return DZ_E_NOMEM;
    return add(req, pieces, length, (dz_out){.ptr = text.ptr, .len = text.len});
}

static int add_range(dz_request *req, dz_list *pieces, uint64_t *length, dz_out_file *file,
                     dz_range range)
{
    return add(req, pieces, length,
               (dz_out){.file = file, .offset = range.start, .len = (size_t)range.len});
}

int dz_multipart_pieces(dz_request *req, dz_out_file *file, uint64_t size, const dz_range *ranges,
                        int count, dz_list *pieces, uint64_t *length)
{
    if (count == 1)
        return add_range(req, pieces, length, file, ranges[0]);
    dz_slice type = req->res.content_type;
    unsigned long long boundary = make_boundary(req);
    int rc = 0;
    for (int i = 0; i < count && rc == 0; i++) {
        unsigned long long start = ranges[i].start, last = start + ranges[i].len - 1;
        rc = add_text(req, pieces, length,
                      "%s--%016llx\r\nContent-Type: %.*s\r\nContent-Range: bytes "
                      "%llu-%llu/%llu\r\n\r\n",
                      i ? "\r\n" : "", boundary, (int)type.len, type.ptr, start, last,
                      (unsigned long long)size);
        if (rc == 0)
            rc = add_range(req, pieces, length, file, ranges[i]);
    }
    if (rc == 0)
        rc = add_text(req, pieces, length, "\r\n--%016llx--\r\n", boundary);
    char text[64];
    snprintf(text, sizeof text, "multipart/byteranges; boundary=%016llx", boundary);
    if (rc == 0)
        rc = dz_res_header(&req->res, "Content-Type", text);
    return rc;
}
