#include "app/shedding.h"

#include <donmaz/error.h>

#include <stdio.h>
#include <stdlib.h>

/* From the settings and the routes to the guards. */

static const uint64_t WAIT_NS = 5 * DZ_MS;      /* adaptive: the mean wait aimed at */
static const uint64_t LAG_MAX_NS = 500 * DZ_MS; /* adaptive, unless said otherwise */
static const double START = 256, MOST = 100000; /* requests in flight on a loop */

dz_route *dz_shed_priority(dz_route *route, dz_shed_class priority)
{
    if (route && (unsigned)priority <= DZ_SHED_NEVER)
        route->shed_class = (uint8_t)priority;
    return route;
}

void dz_shed_body(dz_app *app, const char *type, dz_slice body)
{
    if (!app)
        return;
    app->core->shed_type = type;
    app->core->shed_text = body.ptr ? body : DZ_LIT("");
}

/* --- what is to be protected --- */

typedef enum shed_mode { OFF, ADAPTIVE, FIXED, UNKNOWN } shed_mode;

static shed_mode mode_said(const dz_settings *settings)
{
    static const char *const names[] = {"off", "adaptive", "fixed"};
    if (!settings->shed)
        return OFF;
    for (unsigned i = 0; i < UNKNOWN; i++)
        if (strcmp(settings->shed, names[i]) == 0)
            return (shed_mode)i;
    return UNKNOWN;
}

static bool chain_answers(const dz_route *route)
{
    for (size_t i = 0; i < route->chain_len; i++)
        if (route->chain[i] == dz_shed)
            return true;
    return false;
}

static bool middleware_used(const dz_core *core)
{
    for (dz_list *link = core->routes.next; link != &core->routes; link = link->next)
        if (chain_answers(DZ_CONTAINER(link, dz_route, link)))
            return true;
    return false;
}

static shed_mode mode_of(const dz_core *core)
{
    if (core->settings.shed)
        return mode_said(&core->settings);
    return middleware_used(core) ? ADAPTIVE : OFF;
}

/* A threshold that refuses everything for ever is a mistake, better said now. */
static bool holds_more_than(uint64_t bytes)
{
    dz_rss rss;
    dz_rss_init(&rss, NULL);
    return bytes > 0 && dz_rss_now(&rss, dz_now()) >= bytes;
}

const char *dz_shed_complain(const dz_core *core)
{
    const dz_settings *s = &core->settings;
    bool thresholds =
        s->shed_wait_max_ns || s->shed_lag_max_ns || s->shed_in_flight_max || s->shed_rss_max;
    if (mode_of(core) != OFF && holds_more_than(s->shed_rss_max))
        return "--shed-rss-max is less than the program holds before its first request";
    switch (mode_of(core)) {
    case UNKNOWN:
        return "--shed is off, adaptive or fixed";
    case OFF:
        if (!s->shed && (thresholds || s->shed_wait_ns))
            return "--shed-... settings do nothing without --shed adaptive or --shed fixed";
        return NULL;
    case FIXED:
        if (s->shed_wait_ns)
            return "--shed-wait is what --shed adaptive aims at; --shed fixed takes "
                   "--shed-wait-max";
        if (!thresholds)
            return "--shed fixed needs a threshold: --shed-in-flight-max, --shed-wait-max, "
                   "--shed-lag-max or --shed-rss-max";
        return NULL;
    case ADAPTIVE:
        if (s->shed_wait_max_ns &&
            s->shed_wait_max_ns <= (s->shed_wait_ns ? s->shed_wait_ns : WAIT_NS))
            return "--shed-wait-max must be above --shed-wait (5ms unless set): it is for what the "
                   "mean hides";
        return NULL;
    }
    return NULL;
}

/* --- making it --- */

/* Numbers the routes that can be refused. Builtin ones (404 and the like) with --shed alone. */
static unsigned mark_routes(dz_core *core)
{
    bool all = core->settings.shed != NULL;
    unsigned count = 0;
    for (dz_list *link = core->routes.next; link != &core->routes; link = link->next) {
        dz_route *route = DZ_CONTAINER(link, dz_route, link);
        route->answers_shed = chain_answers(route);
        route->guarded =
            (all || route->answers_shed) && route->shed_class != (uint8_t)DZ_SHED_NEVER;
        route->guard_index = route->guarded ? count++ : 0;
    }
    dz_route *builtin[] = {&core->not_found, &core->not_allowed, &core->options};
    for (size_t i = 0; i < sizeof builtin / sizeof builtin[0]; i++) {
        builtin[i]->answers_shed = chain_answers(builtin[i]);
        builtin[i]->guarded = all || builtin[i]->answers_shed;
        builtin[i]->guard_index = builtin[i]->guarded ? count++ : 0;
    }
    return count;
}

static dz_guard_options guard_options(const dz_core *core, shed_mode mode)
{
    const dz_settings *s = &core->settings;
    uint64_t loops = s->loops;
    /* A process has the loops' share each, rounded up. */
    uint64_t most = s->shed_in_flight_max ? (s->shed_in_flight_max + loops - 1) / loops : 0;
    return (dz_guard_options){
        .adaptive = mode == ADAPTIVE,
        .limit = {.start = START,
                  .min = 1,
                  .max = most ? (double)most : MOST,
                  .wait_ns = s->shed_wait_ns ? s->shed_wait_ns : WAIT_NS},
        .in_flight_max = most,
        .wait_max_ns = s->shed_wait_max_ns,
        .lag_max_ns = s->shed_lag_max_ns || mode == FIXED ? s->shed_lag_max_ns : LAG_MAX_NS,
        .rss_max = s->shed_rss_max,
        .close_every = s->shed_close_every,
    };
}

int dz_shed_start(dz_core *core)
{
    shed_mode mode = mode_of(core);
    if (dz_shed_complain(core))
        return DZ_E_INVALID;
    if (mode == OFF)
        return 0;
    dz_shedding *shed = calloc(1, sizeof *shed);
    if (!shed)
        return DZ_E_NOMEM;
    core->shed = shed; /* freed with the app, whatever happens below */
    const dz_settings *settings = &core->settings;
    shed->loop_count = (unsigned)settings->loops;
    shed->route_count = mark_routes(core);
    shed->guards = aligned_alloc(_Alignof(dz_guard), shed->loop_count * sizeof *shed->guards);
    size_t routes = (size_t)shed->route_count * shed->loop_count;
    shed->routes = calloc(routes ? routes : 1, sizeof *shed->routes);
    if (!shed->guards || !shed->routes)
        return DZ_E_NOMEM;
    const dz_guard_options options = guard_options(core, mode);
    for (unsigned i = 0; i < shed->loop_count; i++)
        dz_guard_init(&shed->guards[i], &options, dz_now());
    shed->watches_lag = options.lag_max_ns > 0;
    shed->watches_rss = options.rss_max > 0;
    dz_rss_init(&shed->rss, NULL);
    uint64_t seconds = (settings->shed_retry_after_ns + DZ_SEC - 1) / DZ_SEC;
    snprintf(shed->retry_after, sizeof shed->retry_after, "%llu", (unsigned long long)seconds);
    if (shed->watches_rss && dz_rss_now(&shed->rss, dz_now()) == 0)
        dz_core_log(core, 40,
                    "--shed-rss-max protects from nothing: /proc/self/statm can't be read");
    return 0;
}

void dz_shed_free(dz_core *core)
{
    if (!core->shed)
        return;
    free(core->shed->guards);
    free(core->shed->routes);
    free(core->shed);
    core->shed = NULL;
}
