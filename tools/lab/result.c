#include "result.h"

#include "bootstrap.h"
#include "machine.h"
#include "metric.h"

#include "common/printable.h"

#include <donmaz/error.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_REPEATS = 1000 };

static json_t *phase_definition(const dz_lab_phase *phase, bool quick)
{
    json_t *endpoints = json_array();
    for (unsigned i = 0; i < phase->endpoints_count; i++) {
        const dz_lab_endpoint *e = &phase->endpoints[i];
        json_t *endpoint =
            json_pack("{s:s, s:i}", "path", e->path, "connections", (int)e->connections);
        if (e->work_ms > 0)
            json_object_set_new(endpoint, "work_ms", json_real(e->work_ms));
        json_array_append_new(endpoints, endpoint);
    }
    json_t *out = json_pack("{s:s, s:f, s:f, s:o}", "name", phase->name, "duration_s",
                            (double)(quick ? phase->quick_duration : phase->duration) / 1e9,
                            "warmup_s", (double)(quick ? phase->quick_warmup : phase->warmup) / 1e9,
                            "endpoints", endpoints);
    if (phase->rate > 0)
        json_object_set_new(out, "rate", json_real(phase->rate));
    if (phase->rate_of) {
        json_object_set_new(out, "rate_of", json_string(phase->rate_of));
        json_object_set_new(out, "rate_times", json_real(phase->rate_times));
    }
    if (phase->success_only)
        json_object_set_new(out, "success_only", json_true());
    if (phase->pipelining > 1)
        json_object_set_new(out, "pipelining", json_integer(phase->pipelining));
    return out;
}

static json_t *row_definition(const dz_lab_row *row)
{
    json_t *out = json_pack("{s:s}", "metric", row->metric);
    if (row->phase)
        json_object_set_new(out, "phase", json_string(row->phase));
    if (row->path)
        json_object_set_new(out, "path", json_string(row->path));
    if (row->label)
        json_object_set_new(out, "label", json_string(row->label));
    return out;
}

/* The rows of the experiment's table, or every metric there is. */
static json_t *table_definition(const dz_lab_experiment *x)
{
    json_t *rows = json_array();
    size_t count;
    const dz_lab_metric *metrics = dz_lab_metrics(&count);
    for (unsigned i = 0; i < x->table_count; i++)
        json_array_append_new(rows, row_definition(&x->table[i]));
    for (unsigned p = 0; x->table_count == 0 && p < x->phases_count; p++)
        for (size_t m = 0; m < count; m++) {
            const dz_lab_phase *phase = &x->phases[p];
            dz_lab_row row = {.metric = (char *)(uintptr_t)metrics[m].name, .phase = phase->name};
            if (metrics[m].scope == DZ_LAB_OF_PHASE)
                json_array_append_new(rows, row_definition(&row));
            for (unsigned e = 0;
                 metrics[m].scope == DZ_LAB_OF_ENDPOINT && e < phase->endpoints_count; e++) {
                row.path = phase->endpoints[e].path;
                json_array_append_new(rows, row_definition(&row));
            }
        }
    for (size_t m = 0; x->table_count == 0 && m < count; m++)
        if (metrics[m].scope == DZ_LAB_OF_STACK)
            json_array_append_new(rows, json_pack("{s:s}", "metric", metrics[m].name));
    return rows;
}

/* Names and units, so that whoever reads the document needs no list of their own. */
static json_t *metric_definitions(void)
{
    size_t count;
    const dz_lab_metric *metrics = dz_lab_metrics(&count);
    json_t *out = json_object();
    for (size_t i = 0; i < count; i++)
        json_object_set_new(out, metrics[i].name,
                            json_pack("{s:s, s:s, s:f, s:i}", "label", metrics[i].label, "unit",
                                      metrics[i].unit, "scale", metrics[i].scale, "better",
                                      metrics[i].better));
    return out;
}

static json_t *now_text(void)
{
    char text[40];
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return json_string(text);
}

json_t *dz_lab_result_new(const dz_lab_bench *bench, bool quick, unsigned repeats)
{
    const dz_lab_experiment *x = bench->experiment;
    json_t *phases = json_array();
    for (unsigned i = 0; i < x->phases_count; i++)
        json_array_append_new(phases, phase_definition(&x->phases[i], quick));
    json_t *machine = dz_lab_machine();
    json_t *document =
        json_pack("{s:s, s:s, s:b, s:i, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:[], s:[]}",
                  "experiment", x->name, "title", x->title, "quick", quick, "repeats", (int)repeats,
                  "complete", 0, "started", now_text(), "machine", machine, "warnings",
                  dz_lab_machine_warnings(machine), "phases", phases, "table", table_definition(x),
                  "metrics", metric_definitions(), "stacks", "runs");
    if (document && x->description)
        json_object_set_new(document, "description", json_string(x->description));
    return document;
}

json_t *dz_lab_result_stack(json_t *document, const char *name)
{
    json_t *stacks = json_object_get(document, "stacks");
    json_t *stack = dz_lab_find_named(stacks, "name", name);
    if (stack)
        return stack;
    stack = json_pack("{s:s, s:n, s:n}", "name", name, "skipped", "failed");
    json_array_append_new(stacks, stack);
    return stack;
}

static json_t *find_run(json_t *document, const char *stack, unsigned repeat, size_t *index)
{
    size_t i;
    json_t *run;
    json_array_foreach(json_object_get(document, "runs"), i, run)
    {
        const char *name = json_string_value(json_object_get(run, "stack"));
        if (name && strcmp(name, stack) == 0 &&
            json_integer_value(json_object_get(run, "repeat")) == (json_int_t)repeat) {
            *index = i;
            return run;
        }
    }
    return NULL;
}

json_t *dz_lab_result_run(json_t *document, const char *stack, unsigned repeat)
{
    size_t index;
    json_t *run = find_run(document, stack, repeat, &index);
    return json_is_true(json_object_get(run, "complete")) ? run : NULL;
}

void dz_lab_result_store(json_t *document, const char *stack, unsigned repeat, json_t *run)
{
    size_t index;
    json_t *runs = json_object_get(document, "runs");
    json_object_set_new(run, "stack", json_string(stack));
    json_object_set_new(run, "repeat", json_integer((json_int_t)repeat));
    if (find_run(document, stack, repeat, &index))
        json_array_set_new(runs, index, run);
    else
        json_array_append_new(runs, run);
    json_object_set_new(document, "finished", now_text());
}

size_t dz_lab_result_values(json_t *document, const char *stack, const char *name,
                            const char *phase, const char *path, double *values, size_t max)
{
    const dz_lab_metric *metric = dz_lab_metric_find(name);
    size_t i, count = 0;
    json_t *run;
    json_array_foreach(json_object_get(document, "runs"), i, run)
    {
        const char *owner = json_string_value(json_object_get(run, "stack"));
        if (!metric || !owner || strcmp(owner, stack) != 0 || count == max)
            continue;
        double value = dz_lab_metric_value(run, metric, phase, path);
        if (!isnan(value))
            values[count++] = value;
    }
    return count;
}

static double merged(const dz_lab_metric *metric, double *values, size_t count)
{
    double total = 0, most = values[0];
    for (size_t i = 0; i < count; i++) {
        total += values[i];
        most = values[i] > most ? values[i] : most;
    }
    switch (metric->merge) {
    case DZ_LAB_SUM:
        return total;
    case DZ_LAB_MAX:
        return most;
    case DZ_LAB_MEDIAN:
        break;
    }
    return dz_lab_median(values, count);
}

/* One figure of `stack` from its runs, into `holder`. */
static void summarise_metric(json_t *document, const char *stack, const dz_lab_metric *metric,
                             const char *phase, const char *path, json_t *holder)
{
    double values[MOST_REPEATS], low, high;
    size_t count =
        dz_lab_result_values(document, stack, metric->name, phase, path, values, MOST_REPEATS);
    json_object_set_new(holder, metric->name, json_null());
    if (count == 0)
        return;
    bool sure =
        metric->merge == DZ_LAB_MEDIAN && dz_lab_median_interval(values, count, &low, &high);
    json_object_set_new(holder, metric->name, json_real(merged(metric, values, count)));
    if (!sure)
        return;
    json_t *intervals = json_object_get(holder, "ci");
    if (!intervals) {
        intervals = json_object();
        json_object_set_new(holder, "ci", intervals);
    }
    json_object_set_new(intervals, metric->name, json_pack("[f, f]", low, high));
}

static void summarise_scope(json_t *document, const char *stack, dz_lab_scope scope,
                            const char *phase, const char *path, json_t *holder)
{
    size_t count;
    const dz_lab_metric *metrics = dz_lab_metrics(&count);
    for (size_t i = 0; i < count; i++)
        if (metrics[i].scope == scope)
            summarise_metric(document, stack, &metrics[i], phase, path, holder);
}

static bool has_runs(json_t *document, const char *stack)
{
    double value;
    return dz_lab_result_values(document, stack, "startup_ms", NULL, NULL, &value, 1) > 0;
}

static void summarise_stack(json_t *document, json_t *stack)
{
    const char *name = json_string_value(json_object_get(stack, "name"));
    size_t i, j;
    json_t *definition, *endpoint;
    json_t *phases = json_array();
    json_object_del(stack, "ci");
    summarise_scope(document, name, DZ_LAB_OF_STACK, NULL, NULL, stack);
    json_array_foreach(json_object_get(document, "phases"), i, definition)
    {
        const char *phase_name = json_string_value(json_object_get(definition, "name"));
        json_t *phase = json_pack("{s:s}", "name", phase_name);
        json_t *endpoints = json_array();
        if (has_runs(document, name))
            summarise_scope(document, name, DZ_LAB_OF_PHASE, phase_name, NULL, phase);
        json_array_foreach(json_object_get(definition, "endpoints"), j, endpoint)
        {
            json_t *out = json_copy(endpoint);
            const char *path = json_string_value(json_object_get(endpoint, "path"));
            summarise_scope(document, name, DZ_LAB_OF_ENDPOINT, phase_name, path, out);
            json_array_append_new(endpoints, out);
        }
        json_object_set_new(phase, "endpoints", endpoints);
        json_array_append_new(phases, phase);
    }
    json_object_set_new(stack, "phases", phases);
}

void dz_lab_result_summarise(json_t *document)
{
    size_t i;
    json_t *stack;
    json_array_foreach(json_object_get(document, "stacks"), i, stack)
    {
        const char *name = json_string_value(json_object_get(stack, "name"));
        if (has_runs(document, name))
            summarise_stack(document, stack);
        else
            json_object_set_new(stack, "phases", json_array());
    }
}

/* Each element has a text under `key`: what is printed and searched by is there. */
static bool all_have(json_t *list, const char *key)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_is_string(json_object_get(json_array_get(list, i), key)))
            return false;
    return true;
}

static bool is_result(json_t *document)
{
    json_t *stacks = json_object_get(document, "stacks");
    if (!json_is_string(json_object_get(document, "experiment")) || !json_is_array(stacks) ||
        !json_is_array(json_object_get(document, "runs")) || !all_have(stacks, "name") ||
        !all_have(json_object_get(document, "table"), "metric"))
        return false;
    for (size_t i = 0; i < json_array_size(stacks); i++)
        if (!all_have(json_object_get(json_array_get(stacks, i), "phases"), "name"))
            return false;
    return all_have(json_object_get(document, "phases"), "name");
}

json_t *dz_lab_result_load(const char *path)
{
    json_error_t error;
    json_t *document = json_load_file(path, 0, &error);
    if (!document) {
        dz_print_clean(stderr, "donmaz lab: can't read %s: %s\n", path, error.text);
        return NULL;
    }
    if (!is_result(document)) {
        dz_print_clean(stderr, "donmaz lab: %s is not the result of 'donmaz lab run'\n", path);
        json_decref(document);
        return NULL;
    }
    return document;
}

static int dump(json_t *document, FILE *out)
{
    errno = 0;
    bool written = json_dumpf(document, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 &&
                   fputc('\n', out) != EOF && fflush(out) == 0;
    return written ? 0 : -(errno ? errno : EIO);
}

/* A device or a pipe can't be replaced, only written to. */
static int save_special(json_t *document, const char *path)
{
    FILE *file = fopen(path, "we");
    if (!file)
        return -errno;
    int rc = dump(document, file);
    if (fclose(file) != 0 && rc == 0)
        rc = -errno;
    return rc;
}

int dz_lab_result_save(json_t *document, const char *path)
{
    char temporary[4096];
    struct stat info;
    if (strcmp(path, "-") == 0)
        return dump(document, stdout);
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return save_special(document, path);
    if (snprintf(temporary, sizeof temporary, "%s.%d.part", path, getpid()) >=
        (int)sizeof temporary)
        return -ENAMETOOLONG;
    FILE *file = fopen(temporary, "we");
    if (!file)
        return -errno;
    int rc = dump(document, file);
    if (fclose(file) != 0 && rc == 0)
        rc = -errno;
    if (rc == 0 && rename(temporary, path) < 0)
        rc = -errno;
    if (rc < 0)
        unlink(temporary);
    return rc;
}
