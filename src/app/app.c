#include "app/app.h"

#include <donmaz/error.h>

#include <stdlib.h>

/* --- making and freeing --- */

dz_app *dz_app_new(void)
{
    dz_app *app = calloc(1, sizeof *app);
    dz_core *core = calloc(1, sizeof *core);
    dz_router *router = dz_router_new();
    if (!app || !core || !router) {
        free(app);
        free(core);
        dz_router_free(router);
        return NULL;
    }
    app->core = core;
    dz_list_init(&app->link);
    dz_list_init(&core->routes);
    dz_list_init(&core->groups);
    dz_list_init(&core->parts);
    core->router = router;
    if (dz_core_make_metrics(core) < 0) {
        dz_core_free_metrics(core);
        free(app);
        free(core);
        dz_router_free(router);
        return NULL;
    }
    core->listen_fd = core->adopt_fd = -1;
    dz_spread_init(&core->spread);
    pthread_mutex_init(&core->after.lock, NULL);
    dz_settings_init(&core->settings);
    dz_core_init_builtin(core);
    return app;
}

static void free_view(dz_app *app)
{
    free(app->prefix);
    free(app->middleware);
    free(app);
}

/* Ends what runs; false: it can't be ended, and nothing may be freed. */
static bool end(dz_app *app)
{
    if (!app->core->running)
        return true;
    dz_app_stop(app);
    if (dz_app_wait(app) == 0)
        return true;
    dz_core_log(app->core, 50,
                "dz_app_free while handlers run: the app stays in memory; "
                "call dz_app_stop and dz_app_wait before, outside of handlers");
    return false;
}

static void free_routes(dz_core *core)
{
    for (dz_list *link; (link = dz_list_shift(&core->routes));) {
        dz_route *route = DZ_CONTAINER(link, dz_route, link);
        free(route->label);
        free(route->chain);
        free(route);
    }
    dz_route *builtin[] = {&core->not_found, &core->not_allowed, &core->options, &core->overloaded};
    for (size_t i = 0; i < sizeof builtin / sizeof builtin[0]; i++)
        free(builtin[i]->chain);
}

static void free_options(dz_core *core)
{
    while (core->user_options) {
        dz_user_option *next = core->user_options->next;
        free(core->user_options);
        core->user_options = next;
    }
}

void dz_app_free(dz_app *app)
{
    if (!app || app->parent || !end(app))
        return;
    dz_core *core = app->core;
    for (dz_list *link; (link = dz_list_shift(&core->parts));) {
        dz_part *part = DZ_CONTAINER(link, dz_part, link);
        part->free(part);
    }
    /* Workers first: one may still be waking the loop that it gave a handler back to. */
    dz_pool_free(core->medium);
    dz_pool_free(core->heavy);
    dz_server_free(core->server);
    dz_runtime_free(core->runtime);
    dz_shed_free(core);
    free_routes(core);
    for (dz_list *link; (link = dz_list_shift(&core->groups));)
        free_view(DZ_CONTAINER(link, dz_app, link));
    free_options(core);
    dz_core_free_hooks(core);
    dz_router_free(core->router);
    dz_spread_destroy(&core->spread);
    dz_core_free_metrics(core);
    dz_meter_free(core->meter);
    if (core->owns_logger)
        dz_logger_close(core->logger);
    free(core);
    free_view(app);
}

/* --- what a service says of itself --- */

void dz_core_fail_build(dz_core *core, const char *what, int code)
{
    if (core->build_error)
        return;
    core->build_error = what;
    core->build_error_code = code;
}

void dz_app_set_data(dz_app *app, void *data)
{
    if (app)
        app->core->data = data;
}

void dz_on_error(dz_app *app, dz_error_handler *handler)
{
    if (app)
        app->core->on_error = handler;
}

void dz_on_log(dz_app *app, dz_log_handler *handler, void *context)
{
    if (!app)
        return;
    app->core->on_log = handler;
    app->core->log_context = context;
}

void dz_on_start(dz_app *app, int (*start)(dz_app *app, void *data))
{
    if (app)
        app->core->on_start = start;
}

void dz_on_stop(dz_app *app, void (*stop)(dz_app *app, void *data))
{
    if (app)
        app->core->on_stop = stop;
}

int dz_app_set(dz_app *app, const char *name, const char *value)
{
    return app && name && value ? dz_settings_set(&app->core->settings, name, value) : DZ_E_INVALID;
}
