#include "app/app.h"

#include <donmaz/error.h>

#include <stdio.h>
#include <stdlib.h>

/* What a service registers: middleware, groups, routes. */

void dz_use_at(dz_app *app, dz_handler *middleware, const char *place)
{
    if (!app || dz_core_sealed(app->core, DZ_WARNED_USE, "dz_use", place))
        return;
    if (!middleware) {
        dz_core_fail_build(app->core, place ? place : "dz_use", DZ_E_INVALID);
        return;
    }
    dz_handler **list = realloc(app->middleware, (app->middleware_count + 1) * sizeof *list);
    if (!list) {
        dz_core_fail_build(app->core, "dz_use", DZ_E_NOMEM);
        return;
    }
    app->middleware = list;
    list[app->middleware_count++] = middleware;
}

static size_t count_middleware(const dz_app *app)
{
    return app ? app->middleware_count + count_middleware(app->parent) : 0;
}

/* The app's first, then each group's, outermost first. Returns the end. */
static dz_handler **copy_middleware(const dz_app *app, dz_handler **out)
{
    if (!app)
        return out;
    out = copy_middleware(app->parent, out);
    for (size_t i = 0; i < app->middleware_count; i++)
        *out++ = app->middleware[i];
    return out;
}

int dz_route_build_chain(dz_route *route, const dz_app *app, dz_handler *handler)
{
    size_t len = count_middleware(app) + 1;
    dz_handler **chain = malloc(len * sizeof *chain);
    if (!chain)
        return DZ_E_NOMEM;
    *copy_middleware(app, chain) = handler;
    free(route->chain);
    route->chain = chain;
    route->chain_len = len;
    return 0;
}

dz_app *dz_group(dz_app *app, const char *prefix)
{
    if (!app || dz_core_sealed(app->core, DZ_WARNED_ROUTE, "dz_group", prefix))
        return NULL;
    if (!prefix) {
        dz_core_fail_build(app->core, "dz_group", DZ_E_INVALID);
        return NULL;
    }
    dz_app *group = calloc(1, sizeof *group);
    const char *above = app->prefix ? app->prefix : "";
    if (!group || asprintf(&group->prefix, "%s%s", above, prefix) < 0) {
        free(group);
        dz_core_fail_build(app->core, prefix, DZ_E_NOMEM);
        return NULL;
    }
    size_t len = strlen(group->prefix);
    if (len > 0 && group->prefix[len - 1] == '/')
        group->prefix[len - 1] = '\0';
    group->core = app->core;
    group->parent = app;
    dz_list_push(&app->core->groups, &group->link);
    return group;
}

static dz_route *add_route(dz_app *app, unsigned method, const char *pattern, dz_handler *handler)
{
    if (!app || dz_core_sealed(app->core, DZ_WARNED_ROUTE, "registering a route", pattern))
        return NULL;
    dz_core *core = app->core;
    int rc = pattern && handler ? DZ_E_NOMEM : DZ_E_INVALID;
    dz_route *route = rc == DZ_E_NOMEM ? calloc(1, sizeof *route) : NULL;
    if (!route)
        goto fail;
    const char *name = method == DZ_ANY ? "ANY" : dz_method_name((dz_method)method);
    const char *prefix = app->prefix ? app->prefix : "";
    const char *rest = *prefix && strcmp(pattern, "/") == 0 ? "" : pattern;
    if (asprintf(&route->label, "%s %s%s", name, prefix, rest) < 0) {
        route->label = NULL;
        goto fail;
    }
    route->pattern = route->label + strlen(name) + 1;
    route->core = core;
    if (dz_route_build_chain(route, app, handler) < 0)
        goto fail;
    rc = dz_router_add(core->router, method, route->pattern, route);
    if (rc < 0)
        goto fail;
    dz_list_push(&core->routes, &route->link);
    return route;
fail:
    dz_core_fail_build(core, pattern ? pattern : "(no pattern)", rc);
    if (route) {
        free(route->label);
        free(route->chain);
    }
    free(route);
    return NULL;
}

#define ADDS_ROUTES(name, method)                                                                  \
    dz_route *name(dz_app *app, const char *pattern, dz_handler *handler)                          \
    {                                                                                              \
        return add_route(app, method, pattern, handler);                                           \
    }

ADDS_ROUTES(dz_get, DZ_GET)
ADDS_ROUTES(dz_post, DZ_POST)
ADDS_ROUTES(dz_put, DZ_PUT)
ADDS_ROUTES(dz_patch, DZ_PATCH)
ADDS_ROUTES(dz_delete, DZ_DELETE)
ADDS_ROUTES(dz_all, DZ_ANY)

dz_route *dz_route_use_at(dz_route *route, dz_handler *middleware, const char *place)
{
    if (!route || dz_core_sealed(route->core, DZ_WARNED_USE, "dz_route_use", place))
        return route;
    if (!middleware) {
        dz_core_fail_build(route->core, route->label, DZ_E_INVALID);
        return route;
    }
    dz_handler **chain = realloc(route->chain, (route->chain_len + 1) * sizeof *chain);
    if (!chain) {
        dz_core_fail_build(route->core, route->label, DZ_E_NOMEM);
        return route;
    }
    chain[route->chain_len] = chain[route->chain_len - 1];
    chain[route->chain_len - 1] = middleware;
    route->chain = chain;
    route->chain_len++;
    return route;
}

dz_route *dz_blocking(dz_route *route)
{
    if (route) {
        route->rule = DZ_ROUTE_BLOCKING;
        atomic_store(&route->klass, DZ_ROUTE_HEAVY);
    }
    return route;
}

dz_route *dz_inline(dz_route *route)
{
    if (route) {
        route->rule = DZ_ROUTE_INLINE;
        atomic_store(&route->klass, DZ_ROUTE_LIGHT);
    }
    return route;
}

dz_route *dz_body_limit(dz_route *route, uint64_t bytes)
{
    if (route)
        route->body_max = bytes;
    return route;
}
