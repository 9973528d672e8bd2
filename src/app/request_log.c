/* A request's id, the lines its handler logs, and the line about its end. */
#include "app/app.h"
#include "log/logger.h"

#include <donmaz/error.h>

#include <sys/random.h>
#include <unistd.h>

/* --- the id --- */

void dz_core_start_ids(dz_core *core)
{
    static const char letters[] = "0123456789abcdefghjkmnpqrstvwxyz";
    uint64_t bits;
    if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) != (ssize_t)sizeof bits)
        bits = dz_clock(CLOCK_REALTIME) * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)getpid();
    size_t len = sizeof core->id_start - 2;
    for (size_t i = 0; i < len; i++, bits >>= 5)
        core->id_start[i] = letters[bits & 31];
    core->id_start[len] = '-';
    core->id_start[len + 1] = '\0';
}

/* What stands in a log or a header of ours as it is, whoever sent it. */
static bool is_valid_id(dz_slice id)
{
    enum { LONGEST = 128 };
    if (id.len == 0 || id.len > LONGEST)
        return false;
    for (size_t i = 0; i < id.len; i++) {
        char c = id.ptr[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && !memchr("-_.:/+=@", c, 8))
            return false;
    }
    return true;
}

static dz_slice sent_id(const dz_request *req, const char *header)
{
    dz_slice name = dz_slice_of(header);
    for (size_t i = 0; i < req->head.header_count; i++)
        if (dz_slice_equal_nocase(req->head.headers[i].name, name) &&
            is_valid_id(req->head.headers[i].value))
            return req->head.headers[i].value;
    return (dz_slice){0};
}

dz_slice dz_req_id(dz_request *req)
{
    dz_call *call = dz_call_of(req);
    if (call->id.len > 0)
        return call->id;
    const dz_core *core = call->core;
    const char *header = core->settings.request_id_header;
    if (*header && strcmp(header, "off") != 0)
        call->id = sent_id(req, header);
    if (call->id.len > 0)
        return call->id;
    size_t start = sizeof core->id_start - 1;
    char *text = dz_arena_alloc(&req->arena, start + 20);
    if (!text)
        return DZ_LIT("-");
    memcpy(text, core->id_start, start);
    call->id = dz_slice_make(text, (size_t)(dz_digits(text + start, req->id) - text));
    return call->id;
}

uint64_t dz_req_number(const dz_request *req)
{
    return req->id;
}

/* --- lines of a handler --- */

dz_logger *dz_req_logger(const dz_request *req)
{
    return dz_call_of(req)->core->logger;
}

bool dz_log_req_enabled(const dz_request *req, int level)
{
    return dz_log_enabled(dz_req_logger(req), level);
}

/* Members in the request's arena; empty out of memory. */
static dz_slice join_members(dz_request *req, dz_slice a, dz_slice b)
{
    if (a.len == 0 || b.len == 0)
        return a.len ? a : b;
    char *text = dz_arena_alloc(&req->arena, a.len + 1 + b.len);
    if (!text)
        return (dz_slice){0};
    memcpy(text, a.ptr, a.len);
    text[a.len] = ',';
    memcpy(text + a.len + 1, b.ptr, b.len);
    return dz_slice_make(text, a.len + 1 + b.len);
}

static dz_slice render(dz_request *req, const dz_field *fields, size_t count)
{
    char text[2048];
    size_t len = dz_log_render_members(dz_req_logger(req), fields, count, text, sizeof text);
    char *copy = len > 0 ? dz_arena_alloc(&req->arena, len) : NULL;
    if (!copy)
        return (dz_slice){0};
    memcpy(copy, text, len);
    return dz_slice_make(copy, len);
}

int dz_log_bind_fields(dz_request *req, const dz_field *fields, size_t count)
{
    dz_call *call = dz_call_of(req);
    if (!call->core->logger)
        return 0;
    dz_slice more = render(req, fields, count), all = join_members(req, call->bound, more);
    if (all.len <= call->bound.len)
        return DZ_E_NOMEM;
    call->bound = all;
    call->child = (dz_slice){0};
    return 0;
}

void dz_log_req_write(dz_request *req, int level, const char *msg, const dz_field *fields,
                      size_t count)
{
    dz_call *call = dz_call_of(req);
    if (!dz_log_enabled(call->core->logger, level))
        return;
    if (call->child.len == 0) {
        const dz_field id = dz_field_slice("reqId", dz_req_id(req));
        call->child = join_members(req, render(req, &id, 1), call->bound);
    }
    dz_log_write_bound(call->core->logger, level, msg, call->child, fields, count);
}

/* --- the end --- */

/* The target as the log shows it. Path and query need not lie together: "http://host?q" has no path
 * of its own. */
static dz_slice copy_url(dz_request *req, bool with_query)
{
    dz_slice path = req->head.path, query = req->head.query;
    bool more = with_query && query.ptr;
    size_t len = path.len + (more ? 1 + query.len : 0);
    char *text = dz_arena_alloc(&req->arena, len + 1);
    if (!text)
        return (dz_slice){0};
    if (path.len > 0)
        memcpy(text, path.ptr, path.len);
    if (more) {
        text[path.len] = '?';
        memcpy(text + path.len + 1, query.ptr, query.len);
    }
    return dz_slice_make(text, len);
}

static dz_slice copy_text(dz_request *req, dz_slice text)
{
    const char *copy = dz_arena_strndup(&req->arena, text.ptr, text.len);
    return copy ? dz_slice_make(copy, text.len) : DZ_LIT("-");
}

static bool is_logged(const dz_core *core)
{
    return core->settings.request_log && dz_log_enabled(core->logger, DZ_LOG_INFO);
}

void dz_core_keep_head(dz_core *core, dz_request *req)
{
    dz_call *call = dz_call_of(req);
    if (call->kept || !is_logged(core))
        return;
    call->kept = true;
    call->id = copy_text(req, dz_req_id(req));
    call->method = copy_text(req, req->head.method_text);
    call->url = copy_url(req, core->settings.log_query);
}

static void log_request(dz_core *core, dz_request *req, dz_call *call, int status, bool aborted,
                        uint64_t ns)
{
    const char *pattern = call->matched->pattern;
    dz_loop_meter *loop = &core->meter->by_loop[req->loop->index];
    dz_core_keep_head(core, req);
    dz_log_request(core->logger, &(dz_log_request_info){
                                     .id = call->id,
                                     .method = call->method,
                                     .url = call->url,
                                     .route = dz_slice_of(pattern),
                                     .status = (uint16_t)status,
                                     .rescued = call->rescued,
                                     .aborted = aborted,
                                     .members = call->bound,
                                     .time_ms = dz_meter_wall_clock(loop, req->loop->now) / DZ_MS,
                                     .bytes = req->res.sent,
                                     .duration_ns = ns});
}

void dz_core_request_ended(void *context, dz_request *req)
{
    dz_core *core = context;
    dz_call *call = req->app;
    dz_loop_meter *loop = &core->meter->by_loop[req->loop->index];
    dz_histogram_bump(&loop->ended, 1);
    if (!call)
        return; /* rejected: the refusal was counted */
    int status = req->res.status ? req->res.status : DZ_STATUS_GONE;
    bool aborted = req->cut || req->res.status == 0;
    uint64_t ns = req->loop->now > req->started ? req->loop->now - req->started : 0;
    if (aborted)
        dz_histogram_bump(&loop->aborted, 1);
    dz_meter_note(core->meter, req->loop->index, call->matched->index, status, ns);
    if (is_logged(core))
        log_request(core, req, call, status, aborted, ns);
}

void dz_core_request_refused(void *context, int status)
{
    dz_core *core = context;
    if (status >= DZ_STATUS_FIRST && status < DZ_STATUS_FIRST + DZ_STATUS_COUNT)
        atomic_fetch_add_explicit(&core->meter->refused[status - DZ_STATUS_FIRST], 1,
                                  memory_order_relaxed);
    if (!core->settings.request_log)
        return;
    dz_log(core->logger, status >= 500 ? DZ_LOG_ERROR : DZ_LOG_INFO, "request refused",
           dz_field_group("res"), dz_field_int("statusCode", status), dz_field_end());
}
