#include "app/shedding.h"

#include <donmaz/error.h>

/* What an orchestrator asks. Live says "don't restart me", ready says "send me requests". */

void dz_live(dz_request *req, dz_response *res)
{
    (void)req;
    dz_res_header(res, "Cache-Control", "no-store");
    dz_send_json(res, 200, "{\"status\":\"live\"}\n");
}

/* NULL: ready. */
static const char *why_not_ready(const dz_core *core)
{
    const dz_shedding *shed = core->shed;
    uint64_t now = dz_now();
    if (atomic_load_explicit(&core->server->draining, memory_order_relaxed))
        return "stopping";
    for (unsigned i = 0; shed && i < shed->loop_count; i++)
        if (dz_guard_overloaded(&shed->guards[i], now))
            return "overloaded";
    return NULL;
}

void dz_ready(dz_request *req, dz_response *res)
{
    const dz_core *core = dz_call_of(req)->core;
    const char *why = why_not_ready(core);
    dz_res_header(res, "Cache-Control", "no-store");
    if (why)
        dz_res_header(res, "Retry-After", core->shed ? core->shed->retry_after : "1");
    dz_send_json(res, why ? 503 : 200, "{\"status\":%s}\n", why ? why : "ready");
}

int dz_health_routes(dz_app *app, const char *live, const char *ready)
{
    dz_route *first = live ? dz_get(app, live, dz_live) : NULL;
    dz_route *second = ready ? dz_get(app, ready, dz_ready) : NULL;
    dz_shed_priority(dz_inline(first), DZ_SHED_NEVER);
    dz_shed_priority(dz_inline(second), DZ_SHED_NEVER);
    return (live && !first) || (ready && !second) ? DZ_E_INVALID : 0;
}
