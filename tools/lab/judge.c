#include "judge.h"

#include "metric.h"
#include "view.h"

#include "common/printable.h"

#include <fnmatch.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* The stack that "best" means: of those whose name matches, the one with the best figure. */
static json_t *best_stack(const dz_lab_best *best, json_t *document)
{
    const dz_lab_metric *metric = dz_lab_metric_find(best->metric);
    json_t *stack, *found = NULL;
    double record = NAN;
    size_t i;
    json_array_foreach(json_object_get(document, "stacks"), i, stack)
    {
        const char *name = json_string_value(json_object_get(stack, "name"));
        double value = dz_lab_metric_value(stack, metric, best->phase, best->path);
        if (fnmatch(best->stacks, name, 0) != 0 || isnan(value))
            continue;
        if (isnan(record) || (metric->better > 0 ? value > record : value < record)) {
            record = value;
            found = stack;
        }
    }
    return found;
}

typedef struct verdict {
    char text[400];
    bool holds, measured;
} verdict;

static verdict judge_one(const dz_lab_experiment *x, const dz_lab_expect *e, json_t *document)
{
    verdict v = {.holds = false};
    json_t *stacks = json_object_get(document, "stacks"), *rival = NULL;
    json_t *own = dz_lab_find_named(stacks, "name", e->stack);
    json_t *row =
        json_pack("{s:s, s:s*, s:s*}", "metric", e->metric, "phase", e->phase, "path", e->path);
    const dz_lab_metric *metric = dz_lab_metric_find(e->metric);
    dz_lab_cell label = dz_lab_row_label(row);
    double value = dz_lab_metric_value(own, metric, e->phase, e->path);
    double bound = isnan(e->at_most) ? e->at_least : e->at_most, limit;
    json_decref(row);
    if (e->against) {
        rival = strcmp(e->against, "best") == 0 ? best_stack(&x->best, document)
                                                : dz_lab_find_named(stacks, "name", e->against);
        limit = bound * dz_lab_metric_value(rival, metric, e->phase, e->path);
    } else if (e->against_phase) {
        limit = bound * dz_lab_metric_value(own, metric, e->against_phase, e->path);
    } else {
        limit = bound * metric->scale;
    }
    if (isnan(value) || isnan(limit)) {
        snprintf(v.text, sizeof v.text, "%s: %s: not measured", e->stack, label.text);
        return v;
    }
    v.measured = true;
    v.holds = isnan(e->at_most) ? value >= limit : value <= limit;
    int used = snprintf(v.text, sizeof v.text, "%s: %s: %s", e->stack, label.text,
                        dz_lab_figure(value / metric->scale).text);
    const char *sense = isnan(e->at_most) ? "at least" : "at most";
    size_t room = sizeof v.text - (size_t)used;
    if (rival)
        snprintf(v.text + used, room, " is %.2f times %s's %s; wanted: %s %g times",
                 value / (limit / bound), json_string_value(json_object_get(rival, "name")),
                 dz_lab_figure(limit / bound / metric->scale).text, sense, bound);
    else if (e->against_phase)
        snprintf(v.text + used, room, " is %.2f times the %s of phase %s; wanted: %s %g times",
                 value / (limit / bound), dz_lab_figure(limit / bound / metric->scale).text,
                 e->against_phase, sense, bound);
    else
        snprintf(v.text + used, room, "; wanted: %s %g", sense, bound);
    return v;
}

unsigned dz_lab_judge(const dz_lab_experiment *x, json_t *document, FILE *out)
{
    unsigned broken = 0;
    json_t *list = json_array();
    for (unsigned i = 0; i < x->expect_count; i++) {
        verdict v = judge_one(x, &x->expect[i], document);
        broken += !v.holds;
        dz_print_clean(out, "  %s  %s\n",
                       v.holds      ? "holds      "
                       : v.measured ? "FAILS      "
                                    : "not tested ",
                       v.text);
        json_array_append_new(list, json_pack("{s:s, s:b, s:b}", "text", v.text, "holds", v.holds,
                                              "measured", v.measured));
    }
    json_object_set_new(document, "expectations", list);
    return broken;
}
