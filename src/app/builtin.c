#include "app/app.h"

#include <donmaz/error.h>

#include <stdio.h>

/* The routes that answer where no route of the service's does. */

static void answer_not_found(dz_request *req, dz_response *res)
{
    dz_core_render_error(req, res, 404, 0);
}

static void set_allow(dz_request *req, dz_response *res)
{
    uint32_t allowed = dz_call_of(req)->match.allowed;
    char text[128] = "";
    size_t len = 0;
    if (allowed & 1U << DZ_GET)
        allowed |= 1U << DZ_HEAD;
    if (allowed == 0) /* OPTIONS *: what the server as a whole knows */
        allowed = 1U << DZ_GET | 1U << DZ_HEAD | 1U << DZ_POST | 1U << DZ_PUT | 1U << DZ_PATCH |
                  1U << DZ_DELETE;
    allowed |= 1U << DZ_OPTIONS;
    for (unsigned method = 0; method < DZ_OTHER; method++)
        if (allowed & 1U << method)
            len += (size_t)snprintf(text + len, sizeof text - len, "%s%s", len ? ", " : "",
                                    dz_method_name((dz_method)method));
    dz_res_header(res, "Allow", text);
}

static void answer_not_allowed(dz_request *req, dz_response *res)
{
    set_allow(req, res);
    dz_core_render_error(req, res, 405, 0);
}

static void answer_options(dz_request *req, dz_response *res)
{
    set_allow(req, res);
    dz_send_status(res, 204);
}

static void answer_overloaded(dz_request *req, dz_response *res)
{
    dz_res_header(res, "Retry-After", "1");
    dz_core_render_error(req, res, 503, DZ_E_QUEUE_FULL);
}

static void init_builtin(dz_core *core, dz_route *route, const char *label)
{
    *route = (dz_route){.pattern = "", .rule = DZ_ROUTE_INLINE, .core = core};
    route->label = (char *)(uintptr_t)label; /* never freed */
    dz_list_init(&route->link);
}

void dz_core_init_builtin(dz_core *core)
{
    init_builtin(core, &core->not_found, "(no route)");
    init_builtin(core, &core->not_allowed, "(method not allowed)");
    init_builtin(core, &core->options, "(options)");
    init_builtin(core, &core->overloaded, "(overloaded)");
}

/* The routes that answer without a match run the app's own middleware, as it is now. */
int dz_core_build_builtin(dz_app *app)
{
    dz_core *core = app->core;
    int rc = dz_route_build_chain(&core->not_found, app, answer_not_found);
    if (rc == 0)
        rc = dz_route_build_chain(&core->not_allowed, app, answer_not_allowed);
    if (rc == 0)
        rc = dz_route_build_chain(&core->options, app, answer_options);
    if (rc == 0)
        rc = dz_route_build_chain(&core->overloaded, NULL, answer_overloaded);
    return rc;
}
