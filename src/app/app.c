#include "app/app.h"

#include <donmaz/error.h>

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* --- building --- */

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
    init_builtin(core, &core->not_found, "(no route)");
    init_builtin(core, &core->not_allowed, "(method not allowed)");
    init_builtin(core, &core->options, "(options)");
    init_builtin(core, &core->overloaded, "(overloaded)");
    return app;
}

static void free_view(dz_app *app)
{
    free(app->prefix);
    free(app->middleware);
    free(app);
}

/* Whether the caller is one of the app's own handlers, which can't wait for its own end. */
static bool in_own_handler(const dz_core *core)
{
    const dz_fiber *fiber = dz_fiber_current();
    return fiber && core->runtime && fiber->loop->runtime == core->runtime;
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
    for (dz_list *link; (link = dz_list_shift(&core->routes));) {
        dz_route *route = DZ_CONTAINER(link, dz_route, link);
        free(route->label);
        free(route->chain);
        free(route);
    }
    dz_route *builtin[] = {&core->not_found, &core->not_allowed, &core->options, &core->overloaded};
    for (size_t i = 0; i < sizeof builtin / sizeof builtin[0]; i++)
        free(builtin[i]->chain);
    for (dz_list *link; (link = dz_list_shift(&core->groups));)
        free_view(DZ_CONTAINER(link, dz_app, link));
    while (core->user_options) {
        dz_user_option *next = core->user_options->next;
        free(core->user_options);
        core->user_options = next;
    }
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

void dz_core_fail_build(dz_core *core, const char *what, int code)
{
    if (core->build_error)
        return;
    core->build_error = what;
    core->build_error_code = code;
}

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

static int build_chain(dz_route *route, const dz_app *app, dz_handler *handler)
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
    if (build_chain(route, app, handler) < 0)
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

dz_route *dz_get(dz_app *app, const char *pattern, dz_handler *handler)
{
    return add_route(app, DZ_GET, pattern, handler);
}

dz_route *dz_post(dz_app *app, const char *pattern, dz_handler *handler)
{
    return add_route(app, DZ_POST, pattern, handler);
}

dz_route *dz_put(dz_app *app, const char *pattern, dz_handler *handler)
{
    return add_route(app, DZ_PUT, pattern, handler);
}

dz_route *dz_patch(dz_app *app, const char *pattern, dz_handler *handler)
{
    return add_route(app, DZ_PATCH, pattern, handler);
}

dz_route *dz_delete(dz_app *app, const char *pattern, dz_handler *handler)
{
    return add_route(app, DZ_DELETE, pattern, handler);
}

dz_route *dz_all(dz_app *app, const char *pattern, dz_handler *handler)
{
    return add_route(app, DZ_ANY, pattern, handler);
}

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

/* --- running --- */

int dz_core_listen(const dz_core *core, unsigned *port)
{
    const dz_settings *settings = &core->settings;
    char service[16];
    snprintf(service, sizeof service, "%u", (unsigned)settings->port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found;
    if (getaddrinfo(settings->host, service, &hints, &found) != 0)
        return -EADDRNOTAVAIL;
    int rc = -EADDRNOTAVAIL, fd = -1;
    for (const struct addrinfo *at = found; at; at = at->ai_next) {
        fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd < 0) {
            rc = -errno;
            continue;
        }
        int one = 1;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
            break;
        rc = -errno;
        close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    if (fd < 0)
        return rc;
    union {
        struct sockaddr any;
        struct sockaddr_in ip4;
        struct sockaddr_in6 ip6;
    } bound = {.any.sa_family = AF_UNSPEC};
    socklen_t len = sizeof bound;
    if (getsockname(fd, &bound.any, &len) == 0)
        *port = ntohs(bound.any.sa_family == AF_INET6 ? bound.ip6.sin6_port : bound.ip4.sin_port);
    return fd;
}

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

/* The routes that answer without a match run the app's own middleware, as it is now. */
static int build_builtin_chains(dz_app *app)
{
    dz_core *core = app->core;
    int rc = build_chain(&core->not_found, app, answer_not_found);
    if (rc == 0)
        rc = build_chain(&core->not_allowed, app, answer_not_allowed);
    if (rc == 0)
        rc = build_chain(&core->options, app, answer_options);
    if (rc == 0)
        rc = build_chain(&core->overloaded, NULL, answer_overloaded);
    return rc;
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
    if ((rc = build_builtin_chains(app)) < 0 || (rc = make_meter(core)) < 0 ||
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
