#include "loadrun.h"

#include "child.h"
#include "interrupt.h"
#include "latency.h"
#include "machine.h"

#include "target/proctree.h"

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

/* What the server used during the measured part: from `begin` to `end`. */
typedef struct usage {
    uint64_t begin, end;          /* when the measured part is meant to be */
    uint64_t first_at, last_at;   /* when it was really looked at */
    uint64_t first_cpu, last_cpu; /* ns */
    uint64_t rss_sum, rss_max, samples;
    dz_lab_ticks first_ticks, last_ticks; /* of the whole machine */
    json_t *times, *cpu, *rss;            /* the series for the chart */
    dz_proctree tree;
} usage;

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

/* A point of the series: CPU since the last look. */
static void note_point(usage *u, uint64_t now)
{
    double wall = (double)(now - u->last_at), cpu = (double)(u->tree.cpu_ns - u->last_cpu);
    json_array_append_new(u->times, json_real((double)(now - u->first_at) / 1e9));
    json_array_append_new(u->cpu, json_real(100 * cpu / wall));
    json_array_append_new(u->rss, json_integer((json_int_t)u->tree.rss_kb));
}

static void sample(usage *u, pid_t target)
{
    uint64_t now = dz_now();
    bool first = u->first_at == 0, last = now >= u->end;
    /* Searching for new processes is dear: only at both ends, so that it disturbs nothing. */
    if (first || last) {
        dz_proctree_free(&u->tree);
        if (dz_proctree_read(target, true, &u->tree) < 0 || u->tree.count == 0)
            return;
        now = dz_now();
    } else {
        dz_proctree_refresh(&u->tree);
    }
    if (first) {
        u->first_at = now;
        u->first_cpu = u->tree.cpu_ns;
        u->first_ticks = dz_lab_ticks_now();
    }
    if (!first && now > u->last_at)
        note_point(u, now);
    u->last_at = now;
    u->last_cpu = u->tree.cpu_ns;
    if (last)
        u->last_ticks = dz_lab_ticks_now();
    u->rss_sum += u->tree.rss_kb;
    u->samples++;
    if (u->tree.rss_kb > u->rss_max)
        u->rss_max = u->tree.rss_kb;
}

/* Waits for the load to end, looking at the target meanwhile. NULL or what went wrong. */
static const char *watch(const dz_lab_load *load, dz_lab_child *child, usage *u)
{
    uint64_t deadline = u->end + PATIENCE, next = u->begin;
    while (!dz_lab_child_wait(child, next)) {
        uint64_t now = dz_now();
        if (dz_lab_interrupted())
            return "interrupted";
        if (!dz_lab_target_alive(load->target))
            return "died";
        if (now > deadline)
            return "the load generator did not end in time";
        if (now >= u->begin && u->last_at < u->end)
            sample(u, load->target->pid);
        if (now < next)
            continue;
        next += SAMPLE_EVERY;
        if (u->last_at < u->end && next > u->end)
            next = u->end;
        if (next <= now)
            next = now + SAMPLE_EVERY;
    }
    return dz_lab_target_alive(load->target) ? NULL : "died";
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

/* How much of all cores went to neither server nor client, nor to idling. */
static void note_others(json_t *result, const usage *u)
{
    double total = (double)(u->last_ticks.total - u->first_ticks.total);
    double busy = total - (double)(u->last_ticks.idle - u->first_ticks.idle);
    double wall = (double)(u->last_at - u->first_at);
    double cores = (double)dz_lab_cores();
    double ours = json_number_value(json_object_get(result, "cpu_percent")) +
                  json_number_value(json_object_get(result, "client_cpu_percent"));
    if (u->last_ticks.total <= u->first_ticks.total || wall <= 0)
        return;
    double steal = dz_lab_steal_percent(u->first_ticks, u->last_ticks); /* warned of by itself */
    double others = 100 * busy / total - steal - ours / cores;
    json_object_set_new(result, "others_cpu_percent", json_real(others > 0 ? others : 0));
}

/* The load generator lists the endpoints in the order of its URLs. */
static json_t *phase_result(const dz_lab_load *load, json_t *measured, const usage *u,
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
    double cpu = (double)(u->last_cpu - u->first_cpu), wall = (double)(u->last_at - u->first_at);
    double asked = (double)duration_of(load);
    if (wall > 0) {
        json_object_set_new(result, "cpu_percent", json_real(100 * cpu / wall));
        if (requests > 0) /* the window looked at may differ from the one loaded by a little */
            json_object_set_new(result, "cpu_us_per_request",
                                json_real(cpu / 1e3 * (asked / wall) / requests));
    }
    if (u->samples > 0) {
        json_object_set_new(result, "rss_kb", json_integer((json_int_t)(u->rss_sum / u->samples)));
        json_object_set_new(result, "rss_max_kb", json_integer((json_int_t)u->rss_max));
    }
    if (useful > 0)
        json_object_set_new(result, "useful_cores", json_real(useful / 1e3));
    json_t *client = json_object_get(json_object_get(measured, "client"), "cpu_seconds");
    if (json_is_number(client))
        json_object_set_new(result, "client_cpu_percent",
                            json_real(100 * json_number_value(client) / (asked / 1e9)));
    note_others(result, u);
    note_shares(result, list);
    json_object_set_new(
        result, "series",
        json_pack("{s:O, s:O, s:O}", "t_s", u->times, "cpu_percent", u->cpu, "rss_kb", u->rss));
    json_object_set_new(result, "endpoints", list);
    return result;
}

static json_t *conclude(const dz_lab_load *load, const dz_lab_child *child, const usage *u,
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
        if (WIFEXITED(child->status) && WEXITSTATUS(child->status) != 0)
            snprintf(why, size, "the load generator exited with status %d: %s",
                     WEXITSTATUS(child->status), said);
        else
            snprintf(why, size, "the load generator's result can't be read: %s", said);
    }
    return result;
}

static json_t *run_child(const dz_lab_load *load, dz_lab_child *child, int latencies, char *why,
                         size_t size)
{
    json_t *result = NULL;
    usage u = {.begin = dz_now() + warmup_of(load),
               .times = json_array(),
               .cpu = json_array(),
               .rss = json_array()};
    u.end = u.begin + duration_of(load);
    const char *problem = watch(load, child, &u);
    if (problem)
        snprintf(why, size, "%s", problem);
    else
        result = conclude(load, child, &u, latencies, why, size);
    dz_proctree_free(&u.tree);
    json_decref(u.times);
    json_decref(u.cpu);
    json_decref(u.rss);
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
