#include "content/fields.h"

#include "base/clock.h"
#include "http/date.h"
#include "http/split.h"

dz_slice dz_content_list(dz_request *req, const char *name)
{
    dz_slice wanted = dz_slice_of(name), joined = {0};
    for (size_t i = 0; i < req->head.header_count; i++) {
        const dz_header *header = &req->head.headers[i];
        if (!dz_slice_equal_nocase(header->name, wanted))
            continue;
        if (!joined.ptr) {
            joined = dz_slice_make(header->value.ptr ? header->value.ptr : "", header->value.len);
            continue;
        }
        char *both = dz_arena_alloc(&req->arena, joined.len + 1 + header->value.len);
        if (!both)
            return (dz_slice){0};
        memcpy(both, joined.ptr, joined.len);
        both[joined.len] = ',';
        if (header->value.len > 0)
            memcpy(both + joined.len + 1, header->value.ptr, header->value.len);
        joined = dz_slice_make(both, joined.len + 1 + header->value.len);
    }
    return joined;
}

dz_slice dz_content_get(const dz_response *res, const char *name)
{
    dz_slice wanted = dz_slice_of(name);
    for (size_t i = 0; i < res->header_count; i++)
        if (dz_slice_equal_nocase(res->headers[i].name, wanted))
            return res->headers[i].value;
    return (dz_slice){0};
}

void dz_content_remove(dz_response *res, const char *name)
{
    dz_slice wanted = dz_slice_of(name);
    uint16_t kept = 0;
    for (size_t i = 0; i < res->header_count; i++)
        if (!dz_slice_equal_nocase(res->headers[i].name, wanted))
            res->headers[kept++] = res->headers[i];
    res->header_count = kept;
}

static bool says_vary(const dz_response *res)
{
    for (size_t i = 0; i < res->header_count; i++) {
        if (!dz_slice_equal_nocase(res->headers[i].name, DZ_LIT("vary")))
            continue;
        dz_slice rest = res->headers[i].value, name;
        while (rest.ptr) {
            dz_split_take(&rest, ',', &name);
            if (dz_slice_equal(name, DZ_LIT("*")) ||
                dz_slice_equal_nocase(name, DZ_LIT("accept-encoding")))
                return true;
        }
    }
    return false;
}

int dz_content_vary(dz_response *res)
{
    return says_vary(res) ? 0 : dz_res_add_header(res, "Vary", "Accept-Encoding");
}

void dz_content_conditions(dz_request *req, dz_conditions *conditions)
{
    *conditions = (dz_conditions){
        .if_match = dz_content_list(req, "if-match"),
        .if_unmodified_since = dz_req_header(req, "if-unmodified-since"),
        .if_none_match = dz_content_list(req, "if-none-match"),
        .if_modified_since = dz_req_header(req, "if-modified-since"),
        .if_range = dz_req_header(req, "if-range"),
    };
}

void dz_content_validators(const dz_response *res, bool exists, dz_validators *validators)
{
    *validators = (dz_validators){.exists = exists, .etag = dz_content_get(res, "etag")};
    dz_slice modified = dz_content_get(res, "last-modified");
    validators->has_modified =
        modified.len > 0 && dz_date_parse(modified, dz_content_now(), &validators->modified);
}

void dz_content_forget_body(dz_response *res)
{
    static const char *const names[] = {"content-encoding", "content-language", "content-range",
                                        "content-disposition", "accept-ranges"};
    res->content_type = (dz_slice){0};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        dz_content_remove(res, names[i]);
}

void dz_content_not_modified(dz_response *res)
{
    dz_content_forget_body(res);
    if (dz_content_get(res, "etag").len > 0)
        dz_content_remove(res, "last-modified");
    res->status = 304;
}

int64_t dz_content_now(void)
{
    return (int64_t)(dz_clock(CLOCK_REALTIME_COARSE) / DZ_SEC);
}
