/* What is measured of an app, as metrics. Nothing is registered before the first text is written: a
 * service that nobody scrapes pays for counting alone. */
#include "app/exposure.h"
#include "metrics/registry.h"

#include <donmaz/error.h>

#include <stdio.h>
#include <stdlib.h>

enum { PROBE_MS = 100 }; /* the longest that a text waits for a loop that is busy */

/* --- the server --- */

static double read_connections(void *data)
{
    return atomic_load(&((dz_core *)data)->server->stats.open);
}

static double read_accepted(void *data)
{
    return dz_read_u64(&((dz_core *)data)->server->stats.accepted);
}

static double read_accept_errors(void *data)
{
    return dz_read_u64(&((dz_core *)data)->server->stats.accept_errors);
}

static double read_sent(void *data)
{
    const dz_server *server = ((dz_core *)data)->server;
    double sum = 0;
    for (unsigned i = 0; i < server->loop_count; i++)
        sum += dz_read_u64(&server->loops[i].bytes_out);
    return sum;
}

static double read_aborted(void *data)
{
    const dz_meter *meter = ((dz_core *)data)->meter;
    double sum = 0;
    for (unsigned i = 0; i < meter->loops; i++)
        sum += dz_read_u64(&meter->by_loop[i].aborted);
    return sum;
}

static double read_in_flight(void *data)
{
    const dz_core *core = data;
    double begun = 0, ended = 0;
    for (unsigned i = 0; i < core->meter->loops; i++)
        ended += dz_read_u64(&core->meter->by_loop[i].ended); /* first: never below zero */
    for (unsigned i = 0; i < core->server->loop_count; i++)
        begun += dz_read_u64(&core->server->loops[i].requests);
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

static double read_log_waited(void *data)
{
    return (double)log_stats(data).waited;
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
    return dz_read_u64(&((dz_probe *)data)->loop->stats.ticks);
}

static double read_rescues(void *data)
{
    return dz_read_u64(&((dz_probe *)data)->loop->stats.rescues);
}

static double read_capped(void *data)
{
    return dz_read_u64(&((dz_probe *)data)->loop->stats.rescues_capped);
}

static double read_failed(void *data)
{
    return dz_read_u64(&((dz_probe *)data)->loop->stats.rescues_failed);
}

static double read_delay(void *data)
{
    const dz_probe *it = data;
    if (atomic_load(&((dz_probe *)data)->under_way)) /* it waits still */
        return (double)(dz_now() - atomic_load(&((dz_probe *)data)->posted)) / 1e9;
    return dz_read_u64(&it->delay) / 1e9;
}

static void on_probe(dz_loop *loop, dz_msg *msg)
{
    dz_probe *it = DZ_CONTAINER(msg, dz_probe, msg);
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
        dz_probe *one = &it->probes[i];
        if (atomic_load(&one->under_way) || (fiber && fiber->loop == one->loop))
            continue; /* we may be what it waits for */
        atomic_store(&one->posted, dz_now());
        atomic_store(&one->under_way, true);
        dz_loop_post(one->loop, &one->msg);
        asked++;
    }
    const struct timespec until = dz_timespec(dz_now() + PROBE_MS * DZ_MS);
    while (asked > 0 && sem_clockwait(&it->answered, CLOCK_MONOTONIC, &until) == 0)
        asked--;
}

/* --- registering --- */

static int add_plain(dz_metrics *metrics, const dz_plain *one, const dz_label *labels, size_t count,
                     void *data)
{
    const dz_metric metric = {one->name, one->help, labels, count};
    return one->gauge ? dz_metrics_gauge_fn(metrics, &metric, one->read, data)
                      : dz_metrics_counter_fn(metrics, &metric, one->read, data);
}

int dz_expose_all(dz_metrics *metrics, const dz_plain *list, size_t len, const dz_label *labels,
                  size_t count, void *data)
{
    int rc = 0;
    for (size_t i = 0; i < len && rc == 0; i++)
        rc = add_plain(metrics, &list[i], labels, count, data);
    return rc;
}

static int add_server(dz_core *core)
{
    static const dz_plain list[] = {
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
        {"donmaz_log_waited_total", "Log lines that waited for room, with --log-block.",
         read_log_waited, false},
        {"donmaz_log_lost_total", "Log lines that the file or pipe refused.", read_log_lost, false},
    };
    int rc = dz_expose_all(core->metrics, list, DZ_COUNT_OF(list), NULL, 0, core);
    if (rc == 0) {
        static const dz_plain info = {"donmaz_build_info", "The version of libdonmaz.", read_one,
                                      true};
        const dz_label version = {"version", DZ_VERSION};
        rc = add_plain(core->metrics, &info, &version, 1, core);
    }
    if (rc == 0)
        rc = dz_pool_register_metrics(core->medium, core->metrics, "medium");
    if (rc == 0)
        rc = dz_pool_register_metrics(core->heavy, core->metrics, "heavy");
    if (rc == 0)
        rc = dz_expose_shed(core);
    return rc;
}

static int add_loop(dz_exposure *it, dz_probe *one)
{
    static const dz_plain list[] = {
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
    int rc = dz_expose_all(metrics, list, DZ_COUNT_OF(list), &label, 1, one);
    if (rc == 0)
        rc = dz_metrics_histogram(metrics, &lag, one->loop->stats.lag, 1e-9, bounds,
                                  DZ_COUNT_OF(bounds));
    if (rc == 0)
        rc = dz_metrics_histogram(metrics, &stalls, one->loop->stats.stalls, 1e-9, bounds,
                                  DZ_COUNT_OF(bounds));
    return rc;
}

/* May be called again after an error, and then adds what is missing. */
static int add_everything(dz_exposure *it)
{
    dz_core *core = it->core;
    unsigned loops = core->runtime->options.loops;
    if (!it->probes)
        it->probes = calloc(loops, sizeof *it->probes);
    if (!it->probes)
        return DZ_E_NOMEM;
    it->probe_count = loops;
    int rc = add_server(core);
    for (unsigned i = 0; i < loops && rc == 0; i++) {
        dz_probe *one = &it->probes[i];
        one->msg.fn = on_probe;
        one->loop = &core->runtime->loops[i];
        one->owner = it;
        snprintf(one->index, sizeof one->index, "%u", i);
        rc = add_loop(it, one);
    }
    return rc == 0 ? dz_expose_routes(it) : rc;
}

static int collect(dz_metrics *metrics, void *data)
{
    dz_exposure *it = data;
    if (!it->core->heavy)
        return 0; /* not started */
    if (!it->registered) {
        dz_metrics_resume(metrics, true); /* what an attempt that ran out of memory left is kept */
        int rc = add_everything(it);
        dz_metrics_resume(metrics, false);
        it->registered = rc == 0;
        it->resumed = true;
        if (rc < 0)
            return rc;
    }
    ask_loops(it);
    return dz_expose_statuses(it);
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
    for (dz_route_ref *ref = it->refs, *next; ref; ref = next) {
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
