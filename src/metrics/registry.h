/* registry.h: families (one name, one type) of series (one set of labels) of sources. */
#ifndef DZ_METRICS_REGISTRY_H
#define DZ_METRICS_REGISTRY_H

#include "metrics/histogram.h"

#include <locale.h>
#include <pthread.h>
#include <stdbool.h>

typedef enum dz_metric_type {
    DZ_METRIC_COUNTER,
    DZ_METRIC_GAUGE,
    DZ_METRIC_HISTOGRAM,
} dz_metric_type;

/* A function, or one of the histograms that make up a series. */
typedef struct dz_source {
    struct dz_source *next;
    dz_metric_fn fn;
    const dz_histogram *histogram;
    const void *key; /* what dz_metrics_forget looks for */
    void *data;
} dz_source;

typedef struct dz_series {
    struct dz_series *next;
    char *labels; /* as they are written, without braces: a="x",b="y" */
    dz_counter *counter;
    dz_gauge *gauge;
    dz_source *sources;
} dz_series;

typedef struct dz_family {
    struct dz_family *next;
    char *name, *help;
    dz_metric_type type;
    double scale;
    double *bounds;
    size_t bound_count;
    dz_series *series, **last;
} dz_family;

typedef struct dz_collector {
    struct dz_collector *next;
    dz_metrics_collector fn;
    void *data;
} dz_collector;

struct dz_metrics {
    pthread_mutex_t writing; /* taken before the other one; guards the collectors */
    dz_collector *collectors, **last_collector;
    pthread_mutex_t lock;
    locale_t c_locale; /* so that 0.5 is never written 0,5 */
    dz_family *families, **last;
    bool resuming;
};

void dz_series_free(dz_series *series); /* NULL is harmless, here and below */
void dz_family_free(dz_family *family); /* with its series */

/* While `on`, registering a function or histogram exactly as it is there already succeeds: for
 * whoever goes on after DZ_E_NOMEM with a list of which a part was registered. */
void dz_metrics_resume(dz_metrics *metrics, bool on);

/* The labels in name order, escaped (what makes a series the same series). *out is from malloc.
 * DZ_E_INVALID, DZ_E_NOMEM. */
int dz_labels_render(const dz_metric *metric, bool is_histogram, char **out);

/* Whether `name` is a metric name of the data model. */
bool dz_metric_name_valid(const char *name);

dz_counter *dz_counter_new(void); /* NULL out of memory */
void dz_counter_free(dz_counter *counter);

struct dz_gauge {
    _Alignas(64) _Atomic int64_t value; /* a line of its own: neighbours must not slow it */
};

#endif
