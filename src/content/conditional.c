#include "content/fields.h"
#include "content/prepare.h"

#include "app/app.h"
#include "http/date.h"

#include <donmaz/conditional.h>
#include <donmaz/error.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

int dz_res_etag(dz_response *res, dz_slice opaque, bool weak)
{
    if (!dz_etag_valid(opaque) || opaque.len > UINT16_MAX)
        return DZ_E_INVALID;
    size_t len = opaque.len + 2 + (weak ? 2 : 0);
    char *text = dz_arena_alloc(&res->req->arena, len);
    if (!text)
        return DZ_E_NOMEM;
    char *at = text;
    if (weak) {
        *at++ = 'W';
        *at++ = '/';
    }
    *at++ = '"';
    if (opaque.len > 0)
        memcpy(at, opaque.ptr, opaque.len);
    at[opaque.len] = '"';
    return dz_res_header_slice(res, DZ_LIT("ETag"), dz_slice_make(text, len));
}

int dz_res_last_modified(dz_response *res, int64_t seconds)
{
    char text[DZ_DATE_LEN];
    dz_date_format(text, seconds);
    return dz_res_header_slice(res, DZ_LIT("Last-Modified"), dz_slice_make(text, sizeof text));
}

static void answer_412(dz_request *req, dz_response *res)
{
    dz_content_forget_body(res);
    res->prepare = NULL;
    dz_core_render_error(req, res, 412, 0);
}

bool dz_preconditions(dz_request *req, dz_response *res, bool exists)
{
    dz_conditions conditions;
    dz_validators validators;
    if (res->state != DZ_RESPONSE_OPEN)
        return false;
    dz_content_conditions(req, &conditions);
    dz_content_validators(res, exists, &validators);
    int status = dz_preconditions_check(&conditions, (dz_method)req->head.method, &validators,
                                        dz_content_now());
    if (status == 304) {
        dz_content_not_modified(res);
        res->prepare = NULL;
        dz_http_reply(req, NULL);
    } else if (status == 412) {
        answer_412(req, res);
    }
    return status == 0;
}

/* A tag of the body's bytes. */
static int hash_etag(dz_response *res, dz_slice body, bool weak)
{
    XXH128_canonical_t hash;
    char text[2 * sizeof hash.digest];
    XXH128_canonicalFromHash(&hash, XXH3_128bits(body.len > 0 ? body.ptr : "", body.len));
    for (size_t i = 0; i < sizeof hash.digest; i++) {
        text[2 * i] = "0123456789abcdef"[hash.digest[i] >> 4];
        text[2 * i + 1] = "0123456789abcdef"[hash.digest[i] & 15];
    }
    return dz_res_etag(res, dz_slice_make(text, sizeof text), weak);
}

int dz_conditional_prepare(dz_request *req, const dz_buf *body, bool stream, bool weak)
{
    dz_response *res = &req->res;
    bool reads = req->head.method == DZ_GET || req->head.method == DZ_HEAD;
    if (!reads || res->status < 200 || res->status > 299)
        return 0;
    if (res->status == 200 && !stream && !dz_content_get(res, "etag").ptr) {
        int rc = hash_etag(res, body ? dz_buf_slice(body) : (dz_slice){0}, weak);
        if (rc < 0)
            return rc;
    }
    dz_conditions conditions;
    dz_validators validators;
    dz_content_conditions(req, &conditions);
    dz_content_validators(res, true, &validators);
    int status = dz_preconditions_check(&conditions, (dz_method)req->head.method, &validators,
                                        dz_content_now());
    if (status == 304) {
        dz_content_not_modified(res);
    } else if (status == 412) {
        answer_412(req, res);
        return 1;
    }
    return 0;
}

void dz_conditional(dz_request *req, dz_response *res)
{
    dz_prepare_add(res, DZ_PREPARE_CONDITIONAL);
    dz_next(req, res);
}

void dz_conditional_weak(dz_request *req, dz_response *res)
{
    dz_prepare_add(res, DZ_PREPARE_CONDITIONAL | DZ_PREPARE_WEAK);
    dz_next(req, res);
}
