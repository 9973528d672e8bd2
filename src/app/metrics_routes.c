/* The metrics of routes. A status is registered when it was first seen. */
#include "app/exposure.h"

#include <donmaz/error.h>

#include <stdio.h>
#include <stdlib.h>

static double read_status(void *data)
{
    const dz_route_ref *ref = data;
    return (double)dz_meter_count(ref->core->meter, ref->route->index, ref->status);
}

static double read_route_rescues(void *data)
{
    return dz_read_u64(&((dz_route_ref *)data)->route->rescues);
}

static double read_route_demotions(void *data)
{
    return dz_read_u64(&((dz_route_ref *)data)->route->demotions);
}

static double read_route_computed(void *data)
{
    return dz_read_u64(&((dz_route_ref *)data)->route->computed_ns) / 1e9;
}

static dz_meter_work read_work(const void *data)
{
    const dz_route_ref *ref = data;
    return dz_meter_work_of(ref->core->meter, ref->route->index);
}

static double read_route_ran(void *data)
{
    return (double)read_work(data).ran_ns / 1e9;
}

static double read_route_cpu(void *data)
{
    return (double)read_work(data).used_ns / 1e9;
}

static double read_route_cpu_squared(void *data)
{
    return (double)read_work(data).used_us_squared / 1e12;
}

static double read_route_class(void *data)
{
    return dz_route_now(((dz_route_ref *)data)->route);
}

static double read_refused(void *data)
{
    const dz_route_ref *ref = data;
    return dz_read_u64(&ref->core->meter->refused[ref->status - DZ_STATUS_FIRST]);
}

/* What an attempt that had no memory for all of the route's series began with. */
static dz_route_ref *find_ref(const dz_exposure *it, const dz_route *route)
{
    dz_route_ref *ref = it->resumed ? it->refs : NULL;
    while (ref && (ref->route != route || ref->status != 0))
        ref = ref->next;
    return ref;
}

static void drop_last_ref(dz_exposure *it)
{
    dz_route_ref *ref = it->refs;
    it->refs = ref->next;
    free(ref->method);
    free(ref);
}

/* NULL: no memory. */
static dz_route_ref *add_ref(dz_exposure *it, const dz_route *route, int status)
{
    dz_route_ref *ref = calloc(1, sizeof *ref);
    if (!ref)
        return NULL;
    *ref = (dz_route_ref){.next = it->refs, .core = it->core, .route = route, .status = status};
    /* "GET /users/:id", or "(no route)" for any method. */
    bool named = route && *route->pattern;
    size_t len = named ? (size_t)(route->pattern - route->label) - 1 : 3;
    ref->method = strndup(named ? route->label : "ANY", len);
    it->refs = ref;
    if (ref->method)
        return ref;
    drop_last_ref(it);
    return NULL;
}

static const char *route_name(const dz_route *route)
{
    return route ? (*route->pattern ? route->pattern : route->label) : "(refused)";
}

static int add_status(dz_exposure *it, const dz_route *route, int status, dz_metric_fn read)
{
    dz_route_ref *ref = add_ref(it, route, status);
    char text[12];
    if (!ref)
        return DZ_E_NOMEM;
    snprintf(text, sizeof text, "%d", status);
    const dz_label labels[] = {
        {"method", ref->method}, {"route", route_name(route)}, {"status", text}};
    const dz_metric metric = {"donmaz_http_requests_total",
                              "Requests answered, by route and status; 499: the client was gone.",
                              labels, 3};
    int rc = dz_metrics_counter_fn(it->core->metrics, &metric, read, ref);
    if (rc < 0)
        drop_last_ref(it); /* the next time begins anew */
    return rc;
}

static int show_statuses(dz_exposure *it, const dz_route *route)
{
    bool *shown = &it->shown[route->index * DZ_STATUS_COUNT];
    for (int i = 0; i < DZ_STATUS_COUNT; i++) {
        int status = DZ_STATUS_FIRST + i;
        if (shown[i] || dz_meter_count(it->core->meter, route->index, status) == 0)
            continue;
        int rc = add_status(it, route, status, read_status);
        if (rc < 0)
            return rc;
        shown[i] = true;
    }
    return 0;
}

static int show_refused(dz_exposure *it)
{
    for (int i = 0; i < DZ_STATUS_COUNT; i++) {
        if (it->refused[i] || dz_read_u64(&it->core->meter->refused[i]) == 0)
            continue;
        int rc = add_status(it, NULL, DZ_STATUS_FIRST + i, read_refused);
        if (rc < 0)
            return rc;
        it->refused[i] = true;
    }
    return 0;
}

static int add_route(dz_exposure *it, const dz_route *route)
{
    static const dz_plain list[] = {
        {"donmaz_route_rescues_total", "Requests whose handler was rescued from.",
         read_route_rescues, false},
        {"donmaz_route_demotions_total", "Requests whose handler's priority was lowered.",
         read_route_demotions, false},
        {"donmaz_route_rescued_seconds_total", "Time that rescued handlers computed.",
         read_route_computed, false},
        {"donmaz_route_handler_seconds_total", "Time that handlers ran, waits apart.",
         read_route_ran, false},
        {"donmaz_route_cpu_seconds_total",
         "CPU time of handlers; of requests too short to be measured, the time they ran.",
         read_route_cpu, false},
        {"donmaz_route_cpu_squared_seconds_total",
         "The squares of each request's CPU time, summed: with it a deviation can be told.",
         read_route_cpu_squared, false},
        {"donmaz_route_class",
         "Where the route's handlers start: 0 loop, 1 worker, 2 worker of "
         "lower priority.",
         read_route_class, true},
    };
    dz_route_ref *ref = find_ref(it, route);
    if (!ref)
        ref = add_ref(it, route, 0);
    if (!ref)
        return DZ_E_NOMEM;
    const dz_label labels[] = {{"method", ref->method}, {"route", route_name(route)}};
    const dz_metric latency = {"donmaz_http_request_duration_seconds",
                               "From the end of a request's head to the end of its response.",
                               labels, 2};
    int rc = dz_expose_all(it->core->metrics, list, DZ_COUNT_OF(list), labels, 2, ref);
    for (unsigned loop = 0; loop < it->core->meter->loops && rc == 0; loop++)
        rc = dz_metrics_histogram(it->core->metrics, &latency,
                                  dz_meter_latency(it->core->meter, loop, route->index), 1e-9, NULL,
                                  0);
    return rc;
}

static int for_each_route(dz_exposure *it, int (*fn)(dz_exposure *, const dz_route *))
{
    dz_core *core = it->core;
    const dz_route *const builtin[] = {&core->not_found, &core->not_allowed, &core->options,
                                       &core->overloaded};
    int rc = 0;
    for (size_t i = 0; i < DZ_COUNT_OF(builtin) && rc == 0; i++)
        rc = fn(it, builtin[i]);
    for (dz_list *at = core->routes.next; at != &core->routes && rc == 0; at = at->next)
        rc = fn(it, DZ_CONTAINER(at, dz_route, link));
    return rc;
}

int dz_expose_routes(dz_exposure *it)
{
    if (!it->shown)
        it->shown = calloc(it->core->meter->routes * DZ_STATUS_COUNT, sizeof *it->shown);
    return it->shown ? for_each_route(it, add_route) : DZ_E_NOMEM;
}

int dz_expose_statuses(dz_exposure *it)
{
    if (!it->shown)
        return DZ_E_NOMEM; /* dz_expose_routes had none */
    int rc = show_refused(it);
    return rc == 0 ? for_each_route(it, show_statuses) : rc;
}
