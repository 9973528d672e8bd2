#include "app/app.h"
#include "http/cookie.h"
#include "http/url.h"
#include "pool/process.h"

#include <donmaz/error.h>

#include <arpa/inet.h>
#include <jansson.h>
#include <sys/socket.h>

dz_method dz_req_method(const dz_request *req)
{
    return (dz_method)req->head.method;
}

dz_slice dz_req_method_text(const dz_request *req)
{
    return req->head.method_text;
}

dz_slice dz_req_path(const dz_request *req)
{
    return req->head.path;
}

const char *dz_req_pattern(const dz_request *req)
{
    return dz_call_of(req)->route->pattern;
}

dz_slice dz_req_query_text(const dz_request *req)
{
    return req->head.query;
}

/* A decoded copy when one is needed; .ptr NULL for a bad escape or out of memory. */
static dz_slice decode(dz_request *req, dz_slice text, bool plus)
{
    if (!dz_percent_needed(text, plus))
        return text.ptr ? text : DZ_LIT("");
    char *out = dz_http_is_handler(req) ? dz_arena_alloc(&req->arena, text.len) : NULL;
    int len = out ? dz_percent_decode(out, text, plus) : DZ_E_NOMEM;
    return len < 0 ? (dz_slice){0} : dz_slice_make(out, (size_t)len);
}

dz_slice dz_req_param(dz_request *req, const char *name)
{
    const dz_route_match *match = &dz_call_of(req)->match;
    for (size_t i = 0; i < match->param_count; i++)
        if (dz_slice_equal(match->params[i].name, dz_slice_of(name)))
            return decode(req, match->params[i].value, false);
    return (dz_slice){0};
}

dz_slice dz_req_query(dz_request *req, const char *key)
{
    dz_slice value;
    if (!dz_query_find(req->head.query, dz_slice_of(key), &value))
        return (dz_slice){0};
    return decode(req, value, true);
}

dz_slice dz_req_header(const dz_request *req, const char *name)
{
    dz_slice wanted = dz_slice_of(name);
    for (size_t i = 0; i < req->head.header_count; i++)
        if (dz_slice_equal_nocase(req->head.headers[i].name, wanted))
            return req->head.headers[i].value;
    return (dz_slice){0};
}

const dz_header *dz_req_headers(const dz_request *req, size_t *count)
{
    *count = req->head.header_count;
    return req->head.headers;
}

dz_slice dz_req_cookie(const dz_request *req, const char *name)
{
    dz_slice value;
    for (size_t i = 0; i < req->head.header_count; i++)
        if (dz_slice_equal_nocase(req->head.headers[i].name, DZ_LIT("cookie")) &&
            dz_cookie_find(req->head.headers[i].value, dz_slice_of(name), &value))
            return value;
    return (dz_slice){0};
}

bool dz_req_cookie_at(const dz_request *req, size_t index, dz_slice *name, dz_slice *value)
{
    for (size_t i = 0; i < req->head.header_count; i++) {
        dz_slice field = req->head.headers[i].value;
        if (!dz_slice_equal_nocase(req->head.headers[i].name, DZ_LIT("cookie")))
            continue;
        while (dz_cookie_next(&field, name, value))
            if (index-- == 0)
                return true;
    }
    return false;
}

typedef struct peer {
    const dz_request *req;
    struct sockaddr_storage address;
    bool known;
} peer;

static void find_peer(peer *it)
{
    socklen_t len = sizeof it->address;
    it->known = getpeername(dz_conn_fd(it->req->conn), (struct sockaddr *)&it->address, &len) == 0;
}

static void on_find_peer(dz_loop *loop, dz_fiber *fiber)
{
    (void)loop;
    find_peer(fiber->after_arg);
    dz_fiber_ready(fiber);
}

const char *dz_req_ip(dz_request *req)
{
    enum { TEXT = INET6_ADDRSTRLEN };
    if (!dz_http_is_handler(req))
        return "";
    char *text = dz_arena_alloc(&req->arena, TEXT);
    if (!text)
        return "";
    peer it = {.req = req};
    /* The descriptor belongs to the loop, which may close it at any moment unless we own it. */
    if (dz_loop_pin(req->loop)) {
        find_peer(&it);
        dz_loop_unpin(req->loop);
    } else {
        dz_fiber_park(on_find_peer, &it);
    }
    if (!it.known)
        return "";
    const void *bytes;
    if (it.address.ss_family == AF_INET)
        bytes = &((struct sockaddr_in *)&it.address)->sin_addr;
    else if (it.address.ss_family == AF_INET6)
        bytes = &((struct sockaddr_in6 *)&it.address)->sin6_addr;
    else
        return "unix";
    return inet_ntop(it.address.ss_family, bytes, text, TEXT) ? text : "";
}

int dz_req_body(dz_request *req, dz_slice *body)
{
    *body = (dz_slice){0};
    int rc = dz_http_body(req);
    if (rc == 0)
        *body = dz_buf_slice(&req->body.whole);
    return rc;
}

int dz_req_take_body(dz_request *req, dz_buf *body)
{
    *body = (dz_buf){0};
    int rc = dz_http_body(req);
    if (rc < 0)
        return rc;
    if (req->body.lent) /* a reply that is not written yet may still show it */
        return dz_buf_copy(body, dz_buf_slice(&req->body.whole));
    *body = req->body.whole;
    req->body.whole = (dz_buf){0};
    return 0;
}

int dz_req_take_body_for(dz_request *req, const dz_pool *pool, dz_buf *body)
{
    if (pool->options.isolation == DZ_PROCESSES)
        req->body.reserve = dz_shared_reserve;
    return dz_req_take_body(req, body);
}

ssize_t dz_req_read(dz_request *req, void *out, size_t cap)
{
    return dz_http_read(req, out, cap);
}

int dz_req_json(dz_request *req, struct json_t **json)
{
    dz_slice body;
    *json = NULL;
    int rc = dz_req_body(req, &body);
    if (rc < 0)
        return rc;
    json_error_t error;
    *json = json_loadb(body.ptr ? body.ptr : "", body.len, JSON_REJECT_DUPLICATES, &error);
    if (*json)
        return 0;
    return json_error_code(&error) == json_error_out_of_memory ? DZ_E_NOMEM : DZ_E_FORMAT;
}

bool dz_req_gone(const dz_request *req)
{
    return atomic_load_explicit(&((dz_request *)(uintptr_t)req)->gone, memory_order_relaxed);
}

/* Values left by middleware: few, so a list is enough. */
typedef struct local {
    const char *name;
    void *value;
    struct local *next;
} local;

static local *find_local(const dz_request *req, const char *name)
{
    for (local *it = req->locals; it; it = it->next)
        if (strcmp(it->name, name) == 0)
            return it;
    return NULL;
}

int dz_req_set(dz_request *req, const char *name, void *value)
{
    if (!dz_http_is_handler(req))
        return DZ_E_STATE;
    local *it = find_local(req, name);
    if (!it) {
        it = dz_arena_alloc(&req->arena, sizeof *it);
        if (!it)
            return DZ_E_NOMEM;
        *it = (local){.name = name, .next = req->locals};
        req->locals = it;
    }
    it->value = value;
    return 0;
}

void *dz_req_get(const dz_request *req, const char *name)
{
    const local *it = find_local(req, name);
    return it ? it->value : NULL;
}

void *dz_req_data(const dz_request *req)
{
    return dz_call_of(req)->core->data;
}

void *dz_req_alloc(dz_request *req, size_t size)
{
    return dz_http_is_handler(req) ? dz_arena_alloc(&req->arena, size) : NULL;
}
