/* metric.h: the figures a run yields: their names in JSON, units, and which way is better. */
#ifndef DZ_LAB_METRIC_H
#define DZ_LAB_METRIC_H

#include <jansson.h>

#include <stdbool.h>
#include <stddef.h>

typedef enum dz_lab_scope { DZ_LAB_OF_STACK, DZ_LAB_OF_PHASE, DZ_LAB_OF_ENDPOINT } dz_lab_scope;

/* How the figures of several repeats become one. */
typedef enum dz_lab_merge { DZ_LAB_MEDIAN, DZ_LAB_SUM, DZ_LAB_MAX } dz_lab_merge;

typedef struct dz_lab_metric {
    const char *name; /* its JSON key */
    const char *label;
    const char *unit;
    double scale; /* what the JSON figure is divided by to be in `unit` */
    dz_lab_scope scope;
    dz_lab_merge merge;
    int better; /* -1: lower is better, 1: higher, 0: neither */
} dz_lab_metric;

/* All metrics, in the order they are reported. */
const dz_lab_metric *dz_lab_metrics(size_t *count);

const dz_lab_metric *dz_lab_metric_find(const char *name); /* NULL: no such metric */
const char *dz_lab_metric_nearest(const char *name);       /* NULL: none is near */

/* Where a metric lies in a stack's JSON: the stack itself, one of its phases or endpoints; NULL
 * when it was not measured. Borrowed. */
json_t *dz_lab_metric_holder(json_t *stack, const dz_lab_metric *metric, const char *phase,
                             const char *path);

/* The figure as in JSON; NaN when it was not measured. */
double dz_lab_metric_value(json_t *stack, const dz_lab_metric *metric, const char *phase,
                           const char *path);

/* Its confidence interval; false when there is none. */
bool dz_lab_metric_interval(json_t *stack, const dz_lab_metric *metric, const char *phase,
                            const char *path, double *low, double *high);

/* The element of a JSON array of objects whose `key` is `name`; NULL when there is none. */
json_t *dz_lab_find_named(json_t *array, const char *key, const char *name);

#endif
