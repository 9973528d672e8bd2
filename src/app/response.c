#include "app/app.h"

#include <donmaz/error.h>
#include <donmaz/json.h>

#include <stdarg.h>

static dz_slice copy(dz_response *res, dz_slice text)
{
    char *out = dz_arena_strndup(&res->req->arena, text.ptr, text.len);
    return dz_slice_make(out, out ? text.len : 0);
}

/* No program needs as many; the head they make would be refused by any client. */
enum { HEADERS_MAX = 1 << 14 };

static int add(dz_response *res, dz_slice name, dz_slice value)
{
    if (res->header_count == HEADERS_MAX)
        return DZ_E_TOO_LARGE;
    if (res->header_count == res->header_cap) {
        uint16_t cap = res->header_cap ? (uint16_t)(res->header_cap * 2) : 8;
        dz_header *headers = dz_arena_alloc(&res->req->arena, cap * sizeof *headers);
        if (!headers)
            return DZ_E_NOMEM;
        if (res->header_count > 0)
            memcpy(headers, res->headers, res->header_count * sizeof *headers);
        res->headers = headers;
        res->header_cap = cap;
    }
    res->headers[res->header_count++] = (dz_header){name, value};
    return 0;
}

/* Fields that the library writes itself. */
static bool is_ours(dz_slice name)
{
    static const char *const names[] = {"content-length", "transfer-encoding", "connection",
                                        "date"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (dz_slice_equal_nocase(name, dz_slice_of(names[i])))
            return true;
    return false;
}

static int check(const dz_response *res, dz_slice name, dz_slice value)
{
    if (res->state != DZ_RESPONSE_OPEN)
        return DZ_E_STATE;
    return dz_header_valid(name, value) && !is_ours(name) ? 0 : DZ_E_INVALID;
}

int dz_core_set_header(dz_response *res, dz_slice name, dz_slice value)
{
    int rc = check(res, name, value);
    if (rc < 0)
        return rc;
    dz_slice kept = copy(res, value);
    if (!kept.ptr)
        return DZ_E_NOMEM;
    if (dz_slice_equal_nocase(name, DZ_LIT("content-type"))) {
        res->content_type = kept;
        return 0;
    }
    for (size_t i = 0; i < res->header_count; i++)
        if (dz_slice_equal_nocase(res->headers[i].name, name)) {
            res->headers[i].value = kept;
            return 0;
        }
    dz_slice kept_name = copy(res, name);
    return kept_name.ptr ? add(res, kept_name, kept) : DZ_E_NOMEM;
}

int dz_res_header_slice(dz_response *res, dz_slice name, dz_slice value)
{
    return dz_http_is_handler(res->req) ? dz_core_set_header(res, name, value) : DZ_E_STATE;
}

int dz_res_header(dz_response *res, const char *name, const char *value)
{
    return dz_res_header_slice(res, dz_slice_of(name), dz_slice_of(value));
}

int dz_res_add_header(dz_response *res, const char *name, const char *value)
{
    int rc = check(res, dz_slice_of(name), dz_slice_of(value));
    if (rc == 0 && !dz_http_is_handler(res->req))
        rc = DZ_E_STATE;
    if (rc < 0)
        return rc;
    dz_slice kept_name = copy(res, dz_slice_of(name)), kept = copy(res, dz_slice_of(value));
    return kept_name.ptr && kept.ptr ? add(res, kept_name, kept) : DZ_E_NOMEM;
}

bool dz_res_sent(const dz_response *res)
{
    return res->state != DZ_RESPONSE_OPEN;
}

int dz_res_status(const dz_response *res)
{
    return res->state == DZ_RESPONSE_OPEN ? 0 : res->status;
}

/* A type set by dz_res_header goes before the call's own. */
static int begin(dz_response *res, int status, const char *type)
{
    if (res->state != DZ_RESPONSE_OPEN || !dz_http_is_handler(res->req))
        return DZ_E_STATE;
    if (status < 200 || status > 999)
        return DZ_E_INVALID;
    res->status = status;
    if (type && !res->content_type.ptr)
        res->content_type = dz_slice_of(type);
    return 0;
}

int dz_send_buf(dz_response *res, int status, const char *type, dz_buf *body)
{
    dz_slice type_before = res->content_type;
    int rc = begin(res, status, type);
    if (rc == 0)
        rc = dz_http_reply(res->req, body);
    if (rc < 0 && res->state == DZ_RESPONSE_OPEN)
        res->content_type = type_before; /* one that can't be sent must not spoil the next try */
    dz_buf_release(body);
    return rc;
}

enum { COPIED_ANYWAY = 16 << 10 }; /* dz_http_reply puts such a body behind the head */

static bool lies_in(dz_slice part, dz_slice whole)
{
    uintptr_t at = (uintptr_t)part.ptr, start = (uintptr_t)whole.ptr;
    return whole.ptr && at >= start && at - start <= whole.len &&
           part.len <= whole.len - (at - start);
}

/* The request's head as received: it lies in the connection's input buffer, which is used again as
 * soon as the handler has returned, perhaps before the response is written. */
static dz_slice head_bytes(const dz_head *head)
{
    const char *start = head->method_text.ptr, *end = head->target.ptr + head->target.len;
    if (head->header_count > 0) {
        const dz_header *last = &head->headers[head->header_count - 1];
        end = last->value.len > 0 ? last->value.ptr + last->value.len
                                  : last->name.ptr + last->name.len;
    }
    return dz_slice_make(start, (size_t)(end - start));
}

static int send_copy(dz_response *res, int status, const char *type, dz_slice bytes)
{
    dz_buf body;
    if (dz_buf_copy(&body, bytes) < 0)
        return DZ_E_NOMEM;
    return dz_send_buf(res, status, type, &body);
}

int dz_send_borrowed(dz_response *res, int status, const char *type, dz_slice bytes)
{
    if (bytes.len > COPIED_ANYWAY && lies_in(bytes, head_bytes(&res->req->head)))
        return send_copy(res, status, type, bytes);
    dz_buf body = dz_buf_borrow(bytes);
    return dz_send_buf(res, status, type, &body);
}

int dz_send_bytes(dz_response *res, int status, const char *type, dz_slice bytes)
{
    if (bytes.len <= COPIED_ANYWAY || lies_in(bytes, dz_buf_slice(&res->req->body.whole)))
        return dz_send_borrowed(res, status, type, bytes);
    return send_copy(res, status, type, bytes);
}

int dz_send_text(dz_response *res, int status, const char *text)
{
    return dz_send_bytes(res, status, "text/plain; charset=utf-8", dz_slice_of(text));
}

/* JSON text grows in the request's arena. */
static int grow(dz_buf *out, size_t cap, void *context)
{
    dz_response *res = context;
    size_t room = out->cap * 2 > cap ? out->cap * 2 : cap;
    char *memory = dz_arena_alloc(&res->req->arena, room);
    if (!memory)
        return DZ_E_NOMEM;
    if (out->len > 0)
        memcpy(memory, out->data, out->len);
    out->data = memory;
    out->cap = room;
    return 0;
}

int dz_send_json(dz_response *res, int status, const char *fmt, ...)
{
    enum { FIRST = 256 };
    dz_buf text = {0};
    dz_json json;
    if (!dz_http_is_handler(res->req))
        return DZ_E_STATE;
    int rc = grow(&text, FIRST, res);
    if (rc < 0)
        return rc;
    dz_json_init_grow(&json, &text, 0, grow, res);
    va_list args;
    va_start(args, fmt);
    dz_json_vformat(&json, fmt, args);
    va_end(args);
    rc = dz_json_finish(&json);
    return rc < 0 ? rc : dz_send_borrowed(res, status, "application/json", dz_buf_slice(&text));
}

int dz_send_status(dz_response *res, int status)
{
    int rc = begin(res, status, NULL);
    return rc < 0 ? rc : dz_http_reply(res->req, NULL);
}

int dz_redirect(dz_response *res, int status, const char *location)
{
    if (status < 300 || status > 399)
        return DZ_E_INVALID;
    int rc = dz_res_header(res, "Location", location);
    return rc < 0 ? rc : dz_send_status(res, status);
}

int dz_stream(dz_response *res, int status, const char *type)
{
    int rc = begin(res, status, type);
    return rc < 0 ? rc : dz_http_stream(res->req, UINT64_MAX);
}

int dz_write(dz_response *res, dz_slice bytes)
{
    return dz_http_write(res->req, bytes);
}

int dz_end(dz_response *res)
{
    return dz_http_end(res->req);
}
