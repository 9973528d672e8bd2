#include "metric.h"

#include "common/values.h"

#include <math.h>
#include <string.h>

static const dz_lab_metric metrics[] = {
    {"rps", "req/s", "req/s", 1, DZ_LAB_OF_ENDPOINT, DZ_LAB_MEDIAN, 1},
    {"share_percent", "share", "%", 1, DZ_LAB_OF_ENDPOINT, DZ_LAB_MEDIAN, 0},
    {"good_rps", "2xx/s", "req/s", 1, DZ_LAB_OF_ENDPOINT, DZ_LAB_MEDIAN, 1},
    {"mb_per_s", "MB/s", "MB/s", 1, DZ_LAB_OF_ENDPOINT, DZ_LAB_MEDIAN, 1},
    {"p50_ms", "p50", "ms", 1, DZ_LAB_OF_ENDPOINT, DZ_LAB_MEDIAN, -1},
    {"p90_ms", "p90", "ms", 1, DZ_LAB_OF_ENDPOINT, DZ_LAB_MEDIAN, -1},
    {"p99_ms", "p99", "ms", 1, DZ_LAB_OF_ENDPOINT, DZ_LAB_MEDIAN, -1},
    {"p99_9_ms", "p99.9", "ms", 1, DZ_LAB_OF_ENDPOINT, DZ_LAB_MEDIAN, -1},
    {"max_ms", "max", "ms", 1, DZ_LAB_OF_ENDPOINT, DZ_LAB_MAX, -1},
    {"mean_ms", "mean", "ms", 1, DZ_LAB_OF_ENDPOINT, DZ_LAB_MEDIAN, -1},
    {"requests", "requests", "", 1, DZ_LAB_OF_ENDPOINT, DZ_LAB_SUM, 0},
    {"errors", "errors", "", 1, DZ_LAB_OF_ENDPOINT, DZ_LAB_SUM, -1},
    {"non2xx", "not 2xx", "", 1, DZ_LAB_OF_ENDPOINT, DZ_LAB_SUM, -1},
    {"total_rps", "req/s in all", "req/s", 1, DZ_LAB_OF_PHASE, DZ_LAB_MEDIAN, 1},
    {"offered_rps", "offered", "req/s", 1, DZ_LAB_OF_PHASE, DZ_LAB_MEDIAN, 0},
    {"cpu_percent", "server CPU", "% of a core", 1, DZ_LAB_OF_PHASE, DZ_LAB_MEDIAN, 0},
    {"cpu_us_per_request", "server CPU per request", "us", 1, DZ_LAB_OF_PHASE, DZ_LAB_MEDIAN, -1},
    {"service_cpu_percent", "services CPU", "% of a core", 1, DZ_LAB_OF_PHASE, DZ_LAB_MEDIAN, 0},
    {"service_cpu_us_per_request", "services CPU per request", "us", 1, DZ_LAB_OF_PHASE,
     DZ_LAB_MEDIAN, -1},
    {"useful_cores", "useful work", "cores", 1, DZ_LAB_OF_PHASE, DZ_LAB_MEDIAN, 1},
    {"rss_kb", "RSS under load", "MB", 1024, DZ_LAB_OF_PHASE, DZ_LAB_MEDIAN, -1},
    {"rss_max_kb", "RSS at most", "MB", 1024, DZ_LAB_OF_PHASE, DZ_LAB_MAX, -1},
    {"startup_ms", "start to first response", "ms", 1, DZ_LAB_OF_STACK, DZ_LAB_MEDIAN, -1},
    {"rss_idle_kb", "RSS idle", "MB", 1024, DZ_LAB_OF_STACK, DZ_LAB_MEDIAN, -1},
};

enum { METRICS = sizeof metrics / sizeof metrics[0] };

const dz_lab_metric *dz_lab_metrics(size_t *count)
{
    *count = METRICS;
    return metrics;
}

const dz_lab_metric *dz_lab_metric_find(const char *name)
{
    for (size_t i = 0; i < METRICS; i++)
        if (strcmp(metrics[i].name, name) == 0)
            return &metrics[i];
    return NULL;
}

const char *dz_lab_metric_nearest(const char *name)
{
    const char *names[METRICS];
    for (size_t i = 0; i < METRICS; i++)
        names[i] = metrics[i].name;
    return dz_nearest_name(dz_slice_of(name), names, METRICS);
}

json_t *dz_lab_find_named(json_t *array, const char *key, const char *name)
{
    size_t i;
    json_t *item;
    json_array_foreach(array, i, item)
    {
        const char *value = json_string_value(json_object_get(item, key));
        if (value && strcmp(value, name) == 0)
            return item;
    }
    return NULL;
}

json_t *dz_lab_metric_holder(json_t *stack, const dz_lab_metric *metric, const char *phase,
                             const char *path)
{
    if (metric->scope == DZ_LAB_OF_STACK)
        return stack;
    if (!phase)
        return NULL;
    json_t *in = dz_lab_find_named(json_object_get(stack, "phases"), "name", phase);
    if (metric->scope == DZ_LAB_OF_PHASE)
        return in;
    return path ? dz_lab_find_named(json_object_get(in, "endpoints"), "path", path) : NULL;
}

double dz_lab_metric_value(json_t *stack, const dz_lab_metric *metric, const char *phase,
                           const char *path)
{
    json_t *holder = dz_lab_metric_holder(stack, metric, phase, path);
    json_t *value = json_object_get(holder, metric->name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

bool dz_lab_metric_interval(json_t *stack, const dz_lab_metric *metric, const char *phase,
                            const char *path, double *low, double *high)
{
    json_t *holder = dz_lab_metric_holder(stack, metric, phase, path);
    json_t *interval = json_object_get(json_object_get(holder, "ci"), metric->name);
    if (json_array_size(interval) != 2)
        return false;
    *low = json_number_value(json_array_get(interval, 0));
    *high = json_number_value(json_array_get(interval, 1));
    return true;
}
