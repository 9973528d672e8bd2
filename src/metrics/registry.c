#include "metrics/registry.h"

#include <stdlib.h>

dz_metrics *dz_metrics_new(void)
{
    dz_metrics *metrics = calloc(1, sizeof *metrics);
    if (!metrics)
        return NULL;
    metrics->c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (metrics->c_locale == (locale_t)0) {
        free(metrics);
        return NULL;
    }
    pthread_mutex_init(&metrics->writing, NULL);
    pthread_mutex_init(&metrics->lock, NULL);
    metrics->last = &metrics->families;
    metrics->last_collector = &metrics->collectors;
    return metrics;
}

void dz_series_free(dz_series *series)
{
    if (!series)
        return;
    for (dz_source *source = series->sources, *next; source; source = next) {
        next = source->next;
        free(source);
    }
    dz_counter_free(series->counter);
    free(series->gauge);
    free(series->labels);
    free(series);
}

void dz_family_free(dz_family *family)
{
    if (!family)
        return;
    for (dz_series *series = family->series, *next; series; series = next) {
        next = series->next;
        dz_series_free(series);
    }
    free(family->name);
    free(family->help);
    free(family->bounds);
    free(family);
}

void dz_metrics_free(dz_metrics *metrics)
{
    if (!metrics)
        return;
    for (dz_family *family = metrics->families, *next; family; family = next) {
        next = family->next;
        dz_family_free(family);
    }
    for (dz_collector *collector = metrics->collectors, *next; collector; collector = next) {
        next = collector->next;
        free(collector);
    }
    freelocale(metrics->c_locale);
    pthread_mutex_destroy(&metrics->writing);
    pthread_mutex_destroy(&metrics->lock);
    free(metrics);
}

static void forget_in(dz_series *series, const void *key)
{
    dz_source **link = &series->sources;
    while (*link) {
        dz_source *source = *link;
        if (source->key != key) {
            link = &source->next;
            continue;
        }
        *link = source->next;
        free(source);
    }
}

void dz_metrics_resume(dz_metrics *metrics, bool on)
{
    pthread_mutex_lock(&metrics->lock);
    metrics->resuming = on;
    pthread_mutex_unlock(&metrics->lock);
}

int dz_metrics_collect(dz_metrics *metrics, dz_metrics_collector fn, void *data)
{
    dz_collector *collector = malloc(sizeof *collector);
    if (!collector)
        return DZ_E_NOMEM;
    *collector = (dz_collector){.fn = fn, .data = data};
    pthread_mutex_lock(&metrics->writing);
    *metrics->last_collector = collector;
    metrics->last_collector = &collector->next;
    pthread_mutex_unlock(&metrics->writing);
    return 0;
}

static void forget_collectors(dz_metrics *metrics, const void *data)
{
    dz_collector **link = &metrics->collectors;
    while (*link) {
        dz_collector *collector = *link;
        if (collector->data != data) {
            link = &collector->next;
            continue;
        }
        *link = collector->next;
        free(collector);
    }
    metrics->last_collector = link;
}

void dz_metrics_forget(dz_metrics *metrics, const void *histogram_or_data)
{
    pthread_mutex_lock(&metrics->writing);
    forget_collectors(metrics, histogram_or_data);
    pthread_mutex_lock(&metrics->lock);
    for (dz_family *family = metrics->families; family; family = family->next)
        for (dz_series *series = family->series; series; series = series->next)
            forget_in(series, histogram_or_data);
    pthread_mutex_unlock(&metrics->lock);
    pthread_mutex_unlock(&metrics->writing);
}
