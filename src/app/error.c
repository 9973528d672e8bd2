#include "app/app.h"

#include <donmaz/error.h>

#include <stdio.h>

/* {"error":"Not Found","message":"..."} */
static void render_default(dz_request *req, dz_response *res, int status, int error)
{
    (void)req;
    const char *reason = dz_status_reason(status);
    if (error)
        dz_send_json(res, status, "{\"error\":\"%s\",\"message\":\"%s\"}\n", reason,
                     dz_strerror(error));
    else
        dz_send_json(res, status, "{\"error\":\"%s\"}\n", reason);
}

void dz_core_render_error(dz_request *req, dz_response *res, int status, int error)
{
    if (res->state != DZ_RESPONSE_OPEN)
        return;
    dz_core *core = dz_call_of(req)->core;
    if (core->on_error)
        core->on_error(req, res, status, error);
    if (res->state == DZ_RESPONSE_OPEN)
        render_default(req, res, status, error);
    if (res->state == DZ_RESPONSE_OPEN) {
        /* Out of memory, or headers that can't be sent: try with nothing at all. */
        res->header_count = 0;
        res->content_type = (dz_slice){0};
        res->status = 500;
        dz_http_reply(req, NULL);
    }
}

int dz_send_error(dz_response *res, int status, int error)
{
    if (res->state != DZ_RESPONSE_OPEN || !dz_http_is_handler(res->req))
        return DZ_E_STATE;
    dz_core_render_error(res->req, res, status, error);
    return 0;
}
