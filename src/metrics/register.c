/* Registering: which family and series a metric is, and what feeds it. */
#include "metrics/registry.h"

#include <math.h>
#include <stdlib.h>

/* The client libraries' usual limits for request durations, with two finer ones. */
static const double SECONDS[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                 0.1,    0.25,  0.5,    1,     2.5,  5,     10};

/* A histogram writes samples under three names of its own; no other family may use them. */
static bool is_part_of(const char *name, const char *histogram)
{
    size_t len = strlen(histogram);
    if (strncmp(name, histogram, len) != 0)
        return false;
    const char *rest = name + len;
    return strcmp(rest, "_bucket") == 0 || strcmp(rest, "_sum") == 0 || strcmp(rest, "_count") == 0;
}

static bool names_collide(const dz_family *family, const char *name, dz_metric_type type)
{
    return (family->type == DZ_METRIC_HISTOGRAM && is_part_of(name, family->name)) ||
           (type == DZ_METRIC_HISTOGRAM && is_part_of(family->name, name));
}

static dz_family *new_family(const dz_metric *metric, dz_metric_type type)
{
    dz_family *family = calloc(1, sizeof *family);
    if (!family)
        return NULL;
    family->type = type;
    family->last = &family->series;
    family->name = strdup(metric->name);
    family->help = strdup(metric->help ? metric->help : "");
    if (!family->name || !family->help) {
        dz_family_free(family);
        return NULL;
    }
    return family;
}

/* Finds the family or makes one. A new one is not linked yet (*is_new): it must not show in the
 * text before it has a series. */
static int find_family(dz_metrics *metrics, const dz_metric *metric, dz_metric_type type,
                       dz_family **out, bool *is_new)
{
    *is_new = false;
    for (dz_family *family = metrics->families; family; family = family->next) {
        if (strcmp(family->name, metric->name) == 0) {
            *out = family;
            return family->type == type ? 0 : DZ_E_EXISTS;
        }
        if (names_collide(family, metric->name, type))
            return DZ_E_EXISTS;
    }
    *out = new_family(metric, type);
    *is_new = true;
    return *out ? 0 : DZ_E_NOMEM;
}

static dz_series *find_series(const dz_family *family, const char *labels)
{
    for (dz_series *series = family->series; series; series = series->next)
        if (strcmp(series->labels, labels) == 0)
            return series;
    return NULL;
}

/* What a registration is about, between its steps. */
typedef struct registration {
    dz_family *family;
    dz_series *series;
    bool new_family, new_series;
} registration;

static int begin(dz_metrics *metrics, const dz_metric *metric, dz_metric_type type,
                 registration *reg)
{
    *reg = (registration){0};
    if (!metrics || !metric || !metric->name || !dz_metric_name_valid(metric->name))
        return DZ_E_INVALID;
    char *labels;
    int rc = dz_labels_render(metric, type == DZ_METRIC_HISTOGRAM, &labels);
    if (rc < 0)
        return rc;
    rc = find_family(metrics, metric, type, &reg->family, &reg->new_family);
    if (rc < 0) {
        free(labels);
        return rc;
    }
    reg->series = find_series(reg->family, labels);
    if (reg->series) {
        free(labels);
        return 0;
    }
    reg->series = calloc(1, sizeof *reg->series);
    if (!reg->series) {
        free(labels);
        if (reg->new_family)
            dz_family_free(reg->family);
        return DZ_E_NOMEM;
    }
    reg->series->labels = labels;
    reg->new_series = true;
    return 0;
}

/* Links what is new when rc is 0, frees it otherwise. Returns rc. */
static int finish(dz_metrics *metrics, registration *reg, int rc)
{
    if (rc < 0) {
        if (reg->new_series)
            dz_series_free(reg->series);
        if (reg->new_family)
            dz_family_free(reg->family);
        return rc;
    }
    if (reg->new_series) {
        *reg->family->last = reg->series;
        reg->family->last = &reg->series->next;
    }
    if (reg->new_family) {
        *metrics->last = reg->family;
        metrics->last = &reg->family->next;
    }
    return 0;
}

int dz_metrics_counter(dz_metrics *metrics, const dz_metric *metric, dz_counter **out)
{
    registration reg;
    pthread_mutex_lock(&metrics->lock);
    int rc = begin(metrics, metric, DZ_METRIC_COUNTER, &reg);
    if (rc == 0) {
        if (reg.new_series && !(reg.series->counter = dz_counter_new()))
            rc = DZ_E_NOMEM;
        else if (!reg.series->counter)
            rc = DZ_E_EXISTS;
        rc = finish(metrics, &reg, rc);
    }
    if (rc == 0)
        *out = reg.series->counter;
    pthread_mutex_unlock(&metrics->lock);
    return rc;
}

int dz_metrics_gauge(dz_metrics *metrics, const dz_metric *metric, dz_gauge **out)
{
    registration reg;
    pthread_mutex_lock(&metrics->lock);
    int rc = begin(metrics, metric, DZ_METRIC_GAUGE, &reg);
    if (rc == 0) {
        if (reg.new_series) {
            reg.series->gauge = aligned_alloc(_Alignof(dz_gauge), sizeof(dz_gauge));
            if (reg.series->gauge)
                atomic_init(&reg.series->gauge->value, 0);
            else
                rc = DZ_E_NOMEM;
        } else if (!reg.series->gauge) {
            rc = DZ_E_EXISTS;
        }
        rc = finish(metrics, &reg, rc);
    }
    if (rc == 0)
        *out = reg.series->gauge;
    pthread_mutex_unlock(&metrics->lock);
    return rc;
}

static int add_source(dz_series *series, dz_source what)
{
    dz_source *source = malloc(sizeof *source);
    if (!source)
        return DZ_E_NOMEM;
    what.next = series->sources;
    *source = what;
    series->sources = source;
    return 0;
}

static bool has_fn(const dz_series *series, dz_metric_fn fn, const void *data)
{
    const dz_source *source = series->sources;
    return source && source->fn == fn && source->data == data;
}

static int add_fn(dz_metrics *metrics, const dz_metric *metric, dz_metric_type type,
                  dz_metric_fn fn, void *data)
{
    registration reg;
    pthread_mutex_lock(&metrics->lock);
    int rc = begin(metrics, metric, type, &reg);
    if (rc == 0 && !(metrics->resuming && has_fn(reg.series, fn, data))) {
        bool taken = reg.series->counter || reg.series->gauge || reg.series->sources;
        rc = taken ? DZ_E_EXISTS
                   : add_source(reg.series, (dz_source){.fn = fn, .key = data, .data = data});
        rc = finish(metrics, &reg, rc);
    }
    pthread_mutex_unlock(&metrics->lock);
    return rc;
}

int dz_metrics_counter_fn(dz_metrics *metrics, const dz_metric *metric, dz_metric_fn fn, void *data)
{
    return add_fn(metrics, metric, DZ_METRIC_COUNTER, fn, data);
}

int dz_metrics_gauge_fn(dz_metrics *metrics, const dz_metric *metric, dz_metric_fn fn, void *data)
{
    return add_fn(metrics, metric, DZ_METRIC_GAUGE, fn, data);
}

static int set_bounds(dz_family *family, double scale, const double *bounds, size_t count)
{
    if (!(scale > 0) || !isfinite(scale))
        return DZ_E_INVALID;
    for (size_t i = 0; i < count; i++)
        if (!isfinite(bounds[i]) || bounds[i] < 0 || (i > 0 && bounds[i] <= bounds[i - 1]))
            return DZ_E_INVALID;
    family->bounds = malloc((count ? count : 1) * sizeof *bounds);
    if (!family->bounds)
        return DZ_E_NOMEM;
    if (count > 0)
        memcpy(family->bounds, bounds, count * sizeof *bounds);
    family->bound_count = count;
    family->scale = scale;
    return 0;
}

static bool has_histogram(const dz_series *series, const dz_histogram *histogram)
{
    for (const dz_source *source = series->sources; source; source = source->next)
        if (source->histogram == histogram)
            return true;
    return false;
}

int dz_metrics_histogram(dz_metrics *metrics, const dz_metric *metric,
                         const dz_histogram *histogram, double scale, const double *bounds,
                         size_t bound_count)
{
    if (!bounds) {
        bounds = SECONDS;
        bound_count = sizeof SECONDS / sizeof *SECONDS;
    }
    registration reg;
    pthread_mutex_lock(&metrics->lock);
    int rc = begin(metrics, metric, DZ_METRIC_HISTOGRAM, &reg);
    if (rc == 0 && !(metrics->resuming && has_histogram(reg.series, histogram))) {
        if (reg.new_family)
            rc = set_bounds(reg.family, scale, bounds, bound_count);
        else if (has_histogram(reg.series, histogram))
            rc = DZ_E_EXISTS;
        if (rc == 0)
            rc = add_source(reg.series, (dz_source){.histogram = histogram, .key = histogram});
        rc = finish(metrics, &reg, rc);
    }
    pthread_mutex_unlock(&metrics->lock);
    return rc;
}
