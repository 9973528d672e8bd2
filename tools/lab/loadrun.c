#include "loadrun.h"

#include "child.h"
#include "interrupt.h"
#include "latency.h"
#include "usage.h"

#include <base/clock.h>
#include <donmaz/error.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAMPLE_EVERY (200 * DZ_MS)
#define PATIENCE     (60 * DZ_SEC) /* how much longer than asked a load may take */

enum { ARGS = 40 };

typedef struct arguments {
    char *list[ARGS + 1];
    size_t count;
    bool failed;
} arguments;

__attribute__((format(printf, 2, 3))) static void add(arguments *args, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    char *text = NULL;
    if (args->count == ARGS || vasprintf(&text, format, values) < 0)
        args->failed = true;
    else
        args->list[args->count++] = text;
    va_end(values);
}

static uint64_t duration_of(const dz_lab_load *load)
{
    return load->quick ? load->phase->quick_duration : load->phase->duration;
}

static uint64_t warmup_of(const dz_lab_load *load)
{
    return load->quick ? load->phase->quick_warmup : load->phase->warmup;
}

static void build(arguments *args, const dz_lab_load *load, int latencies)
{
    const dz_lab_phase *phase = load->phase;
    add(args, "%s", load->program);
    add(args, "load");
    add(args, "-n");
    add(args, "--json=-");
    add(args, "-d");
    add(args, "%.3fs", (double)duration_of(load) / 1e9);
    if (warmup_of(load) > 0) {
        add(args, "--warmup");
        add(args, "%.3fs", (double)warmup_of(load) / 1e9);
    }
    if (latencies >= 0) { /* the child opens our descriptor: no file that could be left behind */
        add(args, "--latencies");
        add(args, "/proc/%d/fd/%d", getpid(), latencies);
    }
    if (phase->pipelining > 1) {
        add(args, "-p");
        add(args, "%u", phase->pipelining);
    }
    if (load->rate > 0) {
        add(args, "--open");
        add(args, "-R");
        add(args, "%.10g", load->rate);
    }
    if (phase->success_only)
        add(args, "-x");
    for (unsigned i = 0; i < phase->endpoints_count; i++)
        add(args, "http://%s:%u%s@%u", load->host, load->port, phase->endpoints[i].path,
            phase->endpoints[i].connections);
}

/* Waits for the load to end, looking at the target meanwhile. NULL or what went wrong. */
static const char *watch(const dz_lab_load *load, dz_lab_child *child, dz_lab_usage *u)
{
    uint64_t deadline = u->end + PATIENCE, next = u->begin;
    while (!dz_lab_child_wait(child, next)) {
        uint64_t now = dz_now();
        if (dz_lab_interrupted())
            return "interrupted";
        if (dz_target_poll(load->target))
            return "died";
        if (now > deadline)
            return "the load generator did not end in time";
        if (now >= u->begin && u->last_at < u->end)
            dz_lab_usage_sample(u, load->target);
        if (u->missing)
            return "a service is missing";
        if (now < next)
            continue;
        next += SAMPLE_EVERY;
        if (u->last_at < u->end && next > u->end)
            next = u->end;
        if (next <= now)
            next = now + SAMPLE_EVERY;
    }
    return dz_target_poll(load->target) ? "died" : NULL;
}

static void copy_number(json_t *to, json_t *from, const char *key)
{
    json_t *value = json_object_get(from, key);
    json_object_set_new(to, key, json_is_number(value) ? json_copy(value) : json_null());
}

static bool is_latency(const char *key)
{
    size_t len = strlen(key);
    return len > 3 && strcmp(key + len - 3, "_ms") == 0;
}

static double number(json_t *from, const char *key)
{
    return json_number_value(json_object_get(from, key));
}

static json_t *endpoint_result(const dz_lab_load *load, const dz_lab_endpoint *endpoint,
                               json_t *measured)
{
    static const char *const keys[] = {"requests", "rps",      "mean_ms",  "p50_ms",
                                       "p90_ms",   "p99_ms",   "p99_9_ms", "max_ms",
                                       "errors",   "timeouts", "non2xx"};
    json_t *result =
        json_pack("{s:s, s:i}", "path", endpoint->path, "connections", (int)endpoint->connections);
    double requests = number(measured, "requests"), good = requests - number(measured, "non2xx");
    bool none = (load->phase->success_only ? good : requests) <= 0;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        copy_number(result, measured, keys[i]);
        if (none && is_latency(keys[i])) /* no request has no latency: not one of 0 ms */
            json_object_set_new(result, keys[i], json_null());
    }
    double part = requests > 0 ? good / requests : 0;
    json_object_set_new(result, "good_rps", json_real(number(measured, "rps") * part));
    if (requests > 0 && json_is_number(json_object_get(measured, "bytes")))
        json_object_set_new(
            result, "mb_per_s",
            json_real(number(measured, "bytes") / requests * number(measured, "rps") / 1e6));
    json_t *classes = json_object_get(measured, "errorClasses");
    if (json_object_size(classes) > 0)
        json_object_set(result, "error_classes", classes);
    return result;
}

/* What each endpoint is of all that was answered in the phase. */
static void note_shares(json_t *result, json_t *endpoints)
{
    size_t i;
    json_t *endpoint;
    double total = 0;
    json_array_foreach(endpoints, i, endpoint) total +=
        json_number_value(json_object_get(endpoint, "rps"));
    json_object_set_new(result, "total_rps", json_real(total));
    json_array_foreach(endpoints, i, endpoint)
    {
        double rps = json_number_value(json_object_get(endpoint, "rps"));
        if (total > 0)
            json_object_set_new(endpoint, "share_percent", json_real(100 * rps / total));
    }
}

/* The load generator lists the endpoints in the order of its URLs. */
static json_t *phase_result(const dz_lab_load *load, json_t *measured, const dz_lab_usage *u,
                            json_t *curves)
{
    const dz_lab_phase *phase = load->phase;
    json_t *endpoints = json_object_get(measured, "endpoints");
    if (json_array_size(endpoints) != phase->endpoints_count)
        return NULL;
    json_t *list = json_array();
    double requests = 0, useful = 0;
    for (unsigned i = 0; i < phase->endpoints_count; i++) {
        json_t *from = json_array_get(endpoints, i);
        requests += json_number_value(json_object_get(from, "requests"));
        useful += json_number_value(json_object_get(from, "rps")) * phase->endpoints[i].work_ms;
        json_t *endpoint = endpoint_result(load, &phase->endpoints[i], from);
        if (json_array_size(curves) == phase->endpoints_count)
            json_object_set(endpoint, "curve", json_array_get(curves, i));
        json_array_append_new(list, endpoint);
    }
    json_t *result =
        json_pack("{s:s, s:f, s:f}", "name", phase->name, "duration_s",
                  (double)duration_of(load) / 1e9, "warmup_s", (double)warmup_of(load) / 1e9);
    if (load->rate > 0)
        json_object_set_new(result, "offered_rps", json_real(load->rate));
    double asked = (double)duration_of(load);
    if (useful > 0)
        json_object_set_new(result, "useful_cores", json_real(useful / 1e3));
    json_t *client = json_object_get(json_object_get(measured, "client"), "cpu_seconds");
    if (json_is_number(client))
        json_object_set_new(result, "client_cpu_percent",
                            json_real(100 * json_number_value(client) / (asked / 1e9)));
    dz_lab_usage_results(u, requests, asked, result);
    note_shares(result, list);
    json_object_set_new(result, "endpoints", list);
    return result;
}

static json_t *conclude(const dz_lab_load *load, const dz_lab_child *child, const dz_lab_usage *u,
                        int latencies, char *why, size_t size)
{
    const char *said = child->last[0] ? child->last : "it said nothing";
    json_error_t error;
    json_t *measured =
        child->output && !child->too_long ? json_loads(child->output, 0, &error) : NULL;
    json_t *curves = measured && latencies >= 0 ? dz_lab_latency_curves(latencies) : NULL;
    json_t *result = measured ? phase_result(load, measured, u, curves) : NULL;
    json_decref(measured);
    json_decref(curves);
    if (!result) {
        if (WIFEXITED(child->process.status) && WEXITSTATUS(child->process.status) != 0)
            snprintf(why, size, "the load generator exited with status %d: %s",
                     WEXITSTATUS(child->process.status), said);
        else
            snprintf(why, size, "the load generator's result can't be read: %s", said);
    }
    return result;
}

static json_t *run_child(const dz_lab_load *load, dz_lab_child *child, int latencies, char *why,
                         size_t size)
{
    json_t *result = NULL;
    dz_lab_usage u;
    uint64_t begin = dz_now() + warmup_of(load);
    dz_lab_usage_open(&u, load->stack, begin, begin + duration_of(load));
    const char *problem = watch(load, child, &u);
    if (u.missing)
        snprintf(why, size, "no process of the stack is called '%s', one of its services",
                 u.missing);
    else if (problem)
        snprintf(why, size, "%s", problem);
    else
        result = conclude(load, child, &u, latencies, why, size);
    dz_lab_usage_close(&u);
    return result;
}

json_t *dz_lab_load_run(const dz_lab_load *load, char *why, size_t size)
{
    arguments args = {0};
    dz_lab_child child;
    json_t *result = NULL;
    int latencies = memfd_create("latencies", MFD_CLOEXEC); /* -1: then there is no curve */
    build(&args, load, latencies);
    int rc = args.failed ? DZ_E_NOMEM : dz_lab_child_start(&child, args.list, NULL);
    if (rc < 0) {
        snprintf(why, size, "the load generator can't be started: %s", dz_strerror(rc));
    } else {
        result = run_child(load, &child, latencies, why, size);
        dz_lab_child_end(&child);
    }
    for (size_t i = 0; i < args.count; i++)
        free(args.list[i]);
    if (latencies >= 0)
        close(latencies);
    return result;
}
