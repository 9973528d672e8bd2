/* What is measured of an app, as metrics. Nothing is registered before the first text is written: a
 * service that nobody scrapes pays for counting alone. */
#include "app/app.h"

#include <donmaz/error.h>

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

enum { PROBE_MS = 100 }; /* the longest that a text waits for a loop that is busy */

/* A series about a route; the registry has its address. */
typedef struct route_ref {
    struct route_ref *next;
    dz_core *core;
    const dz_route *route;
    char *method;
    int status;
} route_ref;

/* Asks a loop how long a message waits there. */
typedef struct probe {
    dz_msg msg;
    dz_loop *loop;
    struct dz_exposure *owner;
    _Atomic bool under_way;
    _Atomic uint64_t posted, delay; /* monotonic ns; ns */
    char index[12];                 /* of the loop, as a label */
} probe;

typedef struct dz_exposure {
    dz_core *core;
    bool registered;
    bool *shown; /* [route * DZ_STATUS_COUNT + status]: the series is registered */
    bool refused[DZ_STATUS_COUNT];
    route_ref *refs;
    probe *probes;
    unsigned probe_count;
    sem_t answered;
} dz_exposure;

static double read_u64(const _Atomic uint64_t *number)
{
    return (double)atomic_load_explicit((_Atomic uint64_t *)(uintptr_t)number,
                                        memory_order_relaxed);
}

/* --- the server --- */

static double read_connections(void *data)
{
    return atomic_load(&((dz_core *)data)->server->stats.open);
}

static double read_accepted(void *data)
{
    return read_u64(&((dz_core *)data)->server->stats.accepted);
}

static double read_accept_errors(void *data)
{
    return read_u64(&((dz_core *)data)->server->stats.accept_errors);
}

static double read_sent(void *data)
{
    const dz_server *server = ((dz_core *)data)->server;
    double sum = 0;
    for (unsigned i = 0; i < server->loop_count; i++)
        sum += read_u64(&server->loops[i].bytes_out);
    return sum;
}

static double read_aborted(void *data)
{
    const dz_meter *meter = ((dz_core *)data)->meter;
    double sum = 0;
    for (unsigned i = 0; i < meter->loops; i++)
        sum += read_u64(&meter->by_loop[i].aborted);
    return sum;
}

static double read_in_flight(void *data)
{
    const dz_core *core = data;
    double begun = 0, ended = 0;
    for (unsigned i = 0; i < core->meter->loops; i++)
        ended += read_u64(&core->meter->by_loop[i].ended); /* first: never below zero */
    for (unsigned i = 0; i < core->server->loop_count; i++)
        begun += read_u64(&core->server->loops[i].requests);
    return begun > ended ? begun - ended : 0;
}

/* --- the log --- */

static dz_log_stats log_stats(void *data)
{
    dz_log_stats stats;
    dz_logger_stats(((dz_core *)data)->logger, &stats);
    return stats;
}

static double read_log_lines(void *data)
{
    return (double)log_stats(data).lines;
}

static double read_log_dropped(void *data)
{
    return (double)log_stats(data).dropped;
}

static double read_log_lost(void *data)
{
    return (double)log_stats(data).lost;
}

static double read_one(void *data)
{
    (void)data;
    return 1;
}

/* --- loops --- */

static double read_ticks(void *data)
{
    return read_u64(&((probe *)data)->loop->stats.ticks);
}

static double read_rescues(void *data)
{
    return read_u64(&((probe *)data)->loop->stats.rescues);
}

static double read_capped(void *data)
{
    return read_u64(&((probe *)data)->loop->stats.rescues_capped);
}

static double read_failed(void *data)
{
    return read_u64(&((probe *)data)->loop->stats.rescues_failed);
}

static double read_delay(void *data)
{
    const probe *it = data;
    if (atomic_load(&((probe *)data)->under_way)) /* it waits still */
        return (double)(dz_now() - atomic_load(&((probe *)data)->posted)) / 1e9;
    return read_u64(&it->delay) / 1e9;
}

static void on_probe(dz_loop *loop, dz_msg *msg)
{
    probe *it = DZ_CONTAINER(msg, probe, msg);
    uint64_t delay = dz_now() - atomic_load(&it->posted);
    atomic_store(&it->delay, delay);
    dz_histogram_put(loop->stats.lag, delay);
    sem_t *answered = &it->owner->answered;
    atomic_store(&it->under_way, false);
    sem_post(answered);
}

static void ask_loops(dz_exposure *it)
{
    const dz_fiber *fiber = dz_fiber_current();
    unsigned asked = 0;
    while (sem_trywait(&it->answered) == 0) /* late answers to the last time */
        continue;
    for (unsigned i = 0; i < it->probe_count; i++) {
        probe *one = &it->probes[i];
        if (atomic_load(&one->under_way) || (fiber && fiber->loop == one->loop))
            continue; /* we may be what it waits for */
        atomic_store(&one->posted, dz_now());
        atomic_store(&one->under_way, true);
        dz_loop_post(one->loop, &one->msg);
        asked++;
    }
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += PROBE_MS * (long)DZ_MS;
    if (until.tv_nsec >= (long)DZ_SEC) {
        until.tv_nsec -= (long)DZ_SEC;
        until.tv_sec++;
    }
    while (asked > 0 && sem_timedwait(&it->answered, &until) == 0)
        asked--;
}

/* --- routes --- */

static double read_status(void *data)
{
    const route_ref *ref = data;
    return (double)dz_meter_count(ref->core->meter, ref->route->index, ref->status);
}

static double read_route_rescues(void *data)
{
    return read_u64(&((route_ref *)data)->route->rescues);
}

static double read_route_demotions(void *data)
{
    return read_u64(&((route_ref *)data)->route->demotions);
}

static double read_route_computed(void *data)
{
    return read_u64(&((route_ref *)data)->route->computed_ns) / 1e9;
}

static double read_route_class(void *data)
{
    return dz_route_now(((route_ref *)data)->route);
}

static double read_refused(void *data)
{
    const route_ref *ref = data;
    return read_u64(&ref->core->meter->refused[ref->status - DZ_STATUS_FIRST]);
}

static route_ref *add_ref(dz_exposure *it, const dz_route *route, int status)
{
    route_ref *ref = calloc(1, sizeof *ref);
    if (!ref)
        return NULL;
    *ref = (route_ref){.next = it->refs, .core = it->core, .route = route, .status = status};
    /* "GET /users/:id", or "(no route)" for any method. */
    bool named = route && *route->pattern;
    size_t len = named ? (size_t)(route->pattern - route->label) - 1 : 3;
    ref->method = strndup(named ? route->label : "ANY", len);
    it->refs = ref;
    return ref->method ? ref : NULL;
}

static const char *route_name(const dz_route *route)
{
    return route ? (*route->pattern ? route->pattern : route->label) : "(refused)";
}

static int add_status(dz_exposure *it, const dz_route *route, int status, dz_metric_fn read)
{
    route_ref *ref = add_ref(it, route, status);
    char text[12];
    if (!ref)
        return DZ_E_NOMEM;
    snprintf(text, sizeof text, "%d", status);
    const dz_label labels[] = {
        {"method", ref->method}, {"route", route_name(route)}, {"status", text}};
    const dz_metric metric = {"donmaz_http_requests_total",
                              "Requests answered, by route and status; 499: the client was gone.",
                              labels, 3};
    return dz_metrics_counter_fn(it->core->metrics, &metric, read, ref);
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
        if (it->refused[i] || read_u64(&it->core->meter->refused[i]) == 0)
            continue;
        int rc = add_status(it, NULL, DZ_STATUS_FIRST + i, read_refused);
        if (rc < 0)
            return rc;
        it->refused[i] = true;
    }
    return 0;
}

/* --- registering --- */

typedef struct plain {
    const char *name, *help;
    dz_metric_fn read;
    bool gauge;
} plain;

static int add_plain(dz_metrics *metrics, const plain *one, const dz_label *labels, size_t count,
                     void *data)
{
    const dz_metric metric = {one->name, one->help, labels, count};
    return one->gauge ? dz_metrics_gauge_fn(metrics, &metric, one->read, data)
                      : dz_metrics_counter_fn(metrics, &metric, one->read, data);
}

static int add_all(dz_metrics *metrics, const plain *list, size_t len, const dz_label *labels,
                   size_t count, void *data)
{
    int rc = 0;
    for (size_t i = 0; i < len && rc == 0; i++)
        rc = add_plain(metrics, &list[i], labels, count, data);
    return rc;
}

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

static int add_server(dz_core *core)
{
    static const plain list[] = {
        {"donmaz_http_connections", "Open connections.", read_connections, true},
        {"donmaz_http_requests_in_flight", "Requests begun and not answered yet.", read_in_flight,
         true},
        {"donmaz_http_connections_accepted_total", "Connections accepted.", read_accepted, false},
        {"donmaz_http_accept_errors_total", "Connections that could not be accepted.",
         read_accept_errors, false},
        {"donmaz_http_sent_bytes_total", "Bytes sent to clients.", read_sent, false},
        {"donmaz_http_requests_aborted_total",
         "Requests whose client was gone before it had the whole response.", read_aborted, false},
        {"donmaz_log_lines_total", "Log lines taken.", read_log_lines, false},
        {"donmaz_log_dropped_total", "Log lines dropped because a buffer was full.",
         read_log_dropped, false},
        {"donmaz_log_lost_total", "Log lines that the file or pipe refused.", read_log_lost, false},
    };
    int rc = add_all(core->metrics, list, COUNT_OF(list), NULL, 0, core);
    if (rc == 0) {
        static const plain info = {"donmaz_build_info", "The version of libdonmaz.", read_one,
                                   true};
        const dz_label version = {"version", DZ_VERSION};
        rc = add_plain(core->metrics, &info, &version, 1, core);
    }
    if (rc == 0)
        rc = dz_pool_register_metrics(core->medium, core->metrics, "medium");
    if (rc == 0)
        rc = dz_pool_register_metrics(core->heavy, core->metrics, "heavy");
    return rc;
}

static int add_loop(dz_exposure *it, probe *one)
{
    static const plain list[] = {
        {"donmaz_loop_delay_seconds", "How long a message waited for the loop, asked just now.",
         read_delay, true},
        {"donmaz_loop_ticks_total", "Turns of the loop.", read_ticks, false},
        {"donmaz_loop_rescues_total", "Times the loop left a thread whose handler computed.",
         read_rescues, false},
        {"donmaz_loop_rescues_capped_total",
         "Stalls left alone because --rescue-max handlers computed.", read_capped, false},
        {"donmaz_loop_rescues_failed_total",
         "Stalls left alone because no thread could be started.", read_failed, false},
    };
    static const double bounds[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                    0.05,   0.1,     0.25,   0.5,   1,      2.5,   5,    10};
    dz_metrics *metrics = it->core->metrics;
    const dz_label label = {"loop", one->index};
    const dz_metric lag = {"donmaz_loop_lag_seconds", "How late timers and messages ran.", &label,
                           1};
    const dz_metric stalls = {"donmaz_loop_stall_seconds",
                              "How long handlers held the loop, from 1 ms on.", &label, 1};
    int rc = add_all(metrics, list, COUNT_OF(list), &label, 1, one);
    if (rc == 0)
        rc = dz_metrics_histogram(metrics, &lag, one->loop->stats.lag, 1e-9, bounds,
                                  COUNT_OF(bounds));
    if (rc == 0)
        rc = dz_metrics_histogram(metrics, &stalls, one->loop->stats.stalls, 1e-9, bounds,
                                  COUNT_OF(bounds));
    return rc;
}

static int add_route(dz_exposure *it, const dz_route *route)
{
    static const plain list[] = {
        {"donmaz_route_rescues_total", "Requests whose handler was rescued from.",
         read_route_rescues, false},
        {"donmaz_route_demotions_total", "Requests whose handler's priority was lowered.",
         read_route_demotions, false},
        {"donmaz_route_rescued_seconds_total", "Time that rescued handlers computed.",
         read_route_computed, false},
        {"donmaz_route_class",
         "Where the route's handlers start: 0 loop, 1 worker, 2 worker of "
         "lower priority.",
         read_route_class, true},
    };
    route_ref *ref = add_ref(it, route, 0);
    if (!ref)
        return DZ_E_NOMEM;
    const dz_label labels[] = {{"method", ref->method}, {"route", route_name(route)}};
    const dz_metric latency = {"donmaz_http_request_duration_seconds",
                               "From the end of a request's head to the end of its response.",
                               labels, 2};
    int rc = add_all(it->core->metrics, list, COUNT_OF(list), labels, 2, ref);
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
    for (size_t i = 0; i < COUNT_OF(builtin) && rc == 0; i++)
        rc = fn(it, builtin[i]);
    for (dz_list *at = core->routes.next; at != &core->routes && rc == 0; at = at->next)
        rc = fn(it, DZ_CONTAINER(at, dz_route, link));
    return rc;
}

static int add_everything(dz_exposure *it)
{
    dz_core *core = it->core;
    unsigned loops = core->runtime->options.loops;
    it->shown = calloc(core->meter->routes * DZ_STATUS_COUNT, sizeof *it->shown);
    it->probes = calloc(loops, sizeof *it->probes);
    if (!it->shown || !it->probes)
        return DZ_E_NOMEM;
    it->probe_count = loops;
    int rc = add_server(core);
    for (unsigned i = 0; i < loops && rc == 0; i++) {
        probe *one = &it->probes[i];
        one->msg.fn = on_probe;
        one->loop = &core->runtime->loops[i];
        one->owner = it;
        snprintf(one->index, sizeof one->index, "%u", i);
        rc = add_loop(it, one);
    }
    return rc == 0 ? for_each_route(it, add_route) : rc;
}

static int collect(dz_metrics *metrics, void *data)
{
    (void)metrics;
    dz_exposure *it = data;
    if (!it->core->heavy)
        return 0; /* not started */
    if (!it->registered) {
        it->registered = true; /* once: a part of it may be there when memory runs out */
        int rc = add_everything(it);
        if (rc < 0)
            return rc;
    }
    ask_loops(it);
    int rc = show_refused(it);
    return rc == 0 ? for_each_route(it, show_statuses) : rc;
}

int dz_core_make_metrics(dz_core *core)
{
    core->metrics = dz_metrics_new();
    core->exposure = calloc(1, sizeof *core->exposure);
    if (!core->metrics || !core->exposure)
        return DZ_E_NOMEM;
    core->exposure->core = core;
    sem_init(&core->exposure->answered, 0, 0);
    int rc = dz_metrics_add_process(core->metrics);
    return rc == 0 ? dz_metrics_collect(core->metrics, collect, core->exposure) : rc;
}

void dz_core_free_metrics(dz_core *core)
{
    dz_metrics_free(core->metrics);
    dz_exposure *it = core->exposure;
    if (!it)
        return;
    for (route_ref *ref = it->refs, *next; ref; ref = next) {
        next = ref->next;
        free(ref->method);
        free(ref);
    }
    sem_destroy(&it->answered);
    free(it->shown);
    free(it->probes);
    free(it);
}

dz_metrics *dz_app_metrics(dz_app *app)
{
    return app ? app->core->metrics : NULL;
}

dz_metrics *dz_req_metrics(const dz_request *req)
{
    return dz_call_of(req)->core->metrics;
}
