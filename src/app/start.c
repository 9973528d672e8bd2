#include "app/app.h"

#include <donmaz/error.h>

#include <unistd.h>

/* From the settings to threads that serve, and back. */

static int make_runtime(dz_core *core)
{
    const dz_settings *settings = &core->settings;
    const dz_runtime_options options = {
        .loops = (unsigned)settings->loops,
        .stack_size = settings->stack_size,
        .rescue_after_ns = settings->rescue_after_ns,
        .rescue_max = (unsigned)settings->rescue_max,
        .demote_after_ns = settings->demote_after_ns,
        .demote_nice = (int)settings->demote_nice,
        .backtrace_signal = core->backtrace_signal,
    };
    int error;
    core->runtime = dz_runtime_new(&options, &error);
    return core->runtime ? 0 : error;
}

static int make_server(dz_core *core)
{
    const dz_settings *settings = &core->settings;
    dz_server_options options;
    dz_server_options_init(&options);
    options.head.head_max = (uint32_t)settings->head_max;
    options.body_max = settings->body_max;
    options.connections_max = (unsigned)settings->connections_max;
    options.header_timeout_ns = settings->header_timeout_ns;
    options.idle_timeout_ns = settings->idle_timeout_ns;
    options.body_timeout_ns = settings->body_timeout_ns;
    options.write_timeout_ns = settings->write_timeout_ns;
    const dz_service service = {.start = dz_dispatch_start,
                                .refused = dz_core_request_refused,
                                .ended = dz_core_request_ended,
                                .context = core};
    core->server = dz_server_new(core->runtime, &options, &service);
    return core->server ? 0 : DZ_E_NOMEM;
}

static int make_pools(dz_core *core)
{
    dz_pool_options options;
    dz_pool_options_init(&options);
    options.max_workers = (unsigned)core->settings.workers;
    options.max_queue = 4096;
    core->medium = dz_pool_new(&options);
    options.nice = (int)core->settings.demote_nice;
    core->heavy = dz_pool_new(&options);
    if (!core->medium || !core->heavy)
        return DZ_E_NOMEM;
    dz_pool_spread(core->medium, &core->spread, DZ_SPREAD_LIGHT);
    dz_pool_spread(core->heavy, &core->spread, DZ_SPREAD_LOWERED);
    return 0;
}

static int make_meter(dz_core *core)
{
    dz_route *const builtin[] = {&core->not_found, &core->not_allowed, &core->options,
                                 &core->overloaded};
    size_t count = 0;
    for (; count < sizeof builtin / sizeof builtin[0]; count++)
        builtin[count]->index = count;
    for (dz_list *link = core->routes.next; link != &core->routes; link = link->next)
        DZ_CONTAINER(link, dz_route, link)->index = count++;
    core->meter = dz_meter_new((unsigned)core->settings.loops, count);
    return core->meter ? 0 : DZ_E_NOMEM;
}

int dz_app_start(dz_app *app, unsigned *port)
{
    if (!app)
        return DZ_E_INVALID;
    unsigned ignored;
    port = port ? port : &ignored;
    dz_core *core = app->core;
    if (app->parent || core->runtime)
        return DZ_E_STATE;
    if (core->build_error)
        return core->build_error_code;
    int rc, fd = core->listen_fd;
    if ((rc = dz_core_build_builtin(app)) < 0 || (rc = make_meter(core)) < 0 ||
        (rc = make_runtime(core)) < 0 || (rc = make_server(core)) < 0 ||
        (rc = make_pools(core)) < 0 || (rc = dz_shed_start(core)) < 0)
        return rc;
    dz_core_start_ids(core);
    if (core->adopt_fd >= 0) {
        rc = dz_server_adopt_from(core->server, core->adopt_fd, core->given_back);
    } else {
        if (fd < 0)
            fd = dz_core_listen(core, port);
        if (fd < 0)
            return fd;
        rc = dz_server_listen(core->server, fd);
        if (rc < 0)
            close(fd);
    }
    if (rc < 0)
        return rc;
    dz_core_seal(core);
    rc = dz_runtime_start(core->runtime);
    core->running = rc == 0;
    return rc;
}

void dz_app_stop(dz_app *app)
{
    if (app && app->core->server)
        dz_server_drain(app->core->server);
}

/* Whether the caller is one of the app's own handlers, which can't wait for its own end. */
static bool in_own_handler(const dz_core *core)
{
    const dz_fiber *fiber = dz_fiber_current();
    return fiber && core->runtime && fiber->loop->runtime == core->runtime;
}

int dz_app_wait(dz_app *app)
{
    if (!app)
        return DZ_E_INVALID;
    dz_core *core = app->core;
    if (!core->server || in_own_handler(core))
        return DZ_E_STATE;
    int rc = dz_runtime_join(core->runtime, dz_now() + core->settings.drain_timeout_ns);
    if (rc < 0) {
        /* Cut what still runs; handlers that park or send come back at once. */
        dz_server_abort(core->server);
        rc = dz_runtime_join(core->runtime, dz_now() + DZ_SEC);
    }
    core->running = core->running && rc < 0;
    return rc;
}
