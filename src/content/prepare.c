#include "content/prepare.h"

#include "content/fields.h"

#include <donmaz/error.h>

/* A coding changes the bytes, so a tag that vouches for each of them can't stay (RFC 9110 8.8.3).
 */
static void weaken_etag(dz_response *res)
{
    dz_slice tag = dz_content_get(res, "etag");
    if (tag.len == 0 || tag.ptr[0] != '"')
        return;
    char *weak = dz_arena_alloc(&res->req->arena, tag.len + 2);
    if (!weak) {
        dz_content_remove(res, "etag");
        return;
    }
    memcpy(weak, "W/", 2);
    memcpy(weak + 2, tag.ptr, tag.len);
    for (size_t i = 0; i < res->header_count; i++)
        if (res->headers[i].value.ptr == tag.ptr)
            res->headers[i].value = dz_slice_make(weak, tag.len + 2);
}

static int prepare(dz_request *req, dz_buf *body, bool stream)
{
    dz_response *res = &req->res;
    unsigned flags = res->prepare_flags;
    bool compress = flags & DZ_PREPARE_COMPRESS && dz_compress_wanted(req, body, stream);
    if (flags & DZ_PREPARE_CONDITIONAL) {
        int rc = dz_conditional_prepare(req, body, stream, flags & DZ_PREPARE_WEAK);
        if (compress && rc == 0 && res->status == 304)
            weaken_etag(res); /* as the 200 would have it */
        if (rc != 0 || res->status == 304)
            return rc;
    }
    if (!compress)
        return 0;
    if (stream)
        dz_compress_stream(req);
    else
        dz_compress_whole(req, body);
    if (dz_content_get(res, "content-encoding").ptr)
        weaken_etag(res);
    return 0;
}

void dz_prepare_add(dz_response *res, unsigned flags)
{
    if (res->state != DZ_RESPONSE_OPEN)
        return;
    res->prepare_flags |= flags;
    res->prepare = prepare;
}
