/* Every figure of a run, one a line. */
#include "view.h"

#include "common/csv.h"

#include "metric.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static const char *text_of(json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static void csv_line(FILE *out, json_t *stack, const dz_lab_metric *metric, const char *phase,
                     const char *path)
{
    double low, high, value = dz_lab_metric_value(stack, metric, phase, path);
    if (isnan(value))
        return;
    dz_csv_text(out, text_of(stack, "name"));
    fputc(',', out);
    dz_csv_text(out, phase);
    fputc(',', out);
    dz_csv_text(out, path);
    fprintf(out, ",%s,%.10g,", metric->name, value);
    if (dz_lab_metric_interval(stack, metric, phase, path, &low, &high))
        fprintf(out, "%.10g,%.10g\n", low, high);
    else
        fputs(",\n", out);
}

static void csv_scope(FILE *out, json_t *stack, dz_lab_scope scope, const char *phase,
                      const char *path)
{
    size_t count;
    const dz_lab_metric *metrics = dz_lab_metrics(&count);
    for (size_t i = 0; i < count; i++)
        if (metrics[i].scope == scope)
            csv_line(out, stack, &metrics[i], phase, path);
}

int dz_lab_print_csv(json_t *document, FILE *out)
{
    size_t i, j, k;
    json_t *stack, *phase, *endpoint;
    fputs("stack,phase,path,metric,value,ci_low,ci_high\n", out);
    json_array_foreach(json_object_get(document, "stacks"), i, stack)
    {
        csv_scope(out, stack, DZ_LAB_OF_STACK, NULL, NULL);
        json_array_foreach(json_object_get(stack, "phases"), j, phase)
        {
            const char *name = text_of(phase, "name");
            csv_scope(out, stack, DZ_LAB_OF_PHASE, name, NULL);
            json_array_foreach(json_object_get(phase, "endpoints"), k, endpoint)
                csv_scope(out, stack, DZ_LAB_OF_ENDPOINT, name, text_of(endpoint, "path"));
        }
    }
    return ferror(out) ? -EIO : 0;
}
