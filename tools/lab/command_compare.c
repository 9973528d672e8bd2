/* donmaz lab compare: a difference counts as shown when the confidence interval of the ratio of the
 * two medians does not hold 1. */
#include "lab.h"

#include "bootstrap.h"
#include "metric.h"
#include "result.h"
#include "view.h"

#include "common/options.h"
#include "common/table.h"
#include "tools.h"

#include <donmaz/error.h>

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define TOOL "donmaz lab compare"

enum { MOST_REPEATS = 1000 };

typedef struct options {
    const char *json;
} options;

static const dz_option table[] = {
    {DZ_OPT_OUTPUT, 'j', "json", "FILE", offsetof(options, json), 0, 0,
     "the comparison as JSON (- for standard output)"},
};

static const dz_option_spec spec = {
    .tool = TOOL,
    .usage = "A.json B.json [options]",
    .about =
        "Compares two runs of one experiment, stack by stack: B against A. With three or more\n"
        "repeats in each, it says whether a difference is more than noise (95% bootstrap\n"
        "confidence interval of the ratio of the medians).",
    .options = table,
    .count = sizeof table / sizeof table[0],
};

static const char *verdict_of(const dz_lab_metric *metric, bool sure, double low, double high)
{
    if (!sure)
        return "too few repeats to say";
    if (low <= 1 && high >= 1)
        return "no difference shown";
    if (metric->better == 0)
        return low > 1 ? "higher" : "lower";
    return (low > 1) == (metric->better > 0) ? "better" : "worse";
}

static void compare_row(json_t *a, json_t *b, const char *stack, json_t *row, dz_table *out,
                        json_t *list)
{
    double before[MOST_REPEATS], after[MOST_REPEATS], low = NAN, high = NAN;
    const char *name = json_string_value(json_object_get(row, "metric"));
    const char *phase = json_string_value(json_object_get(row, "phase"));
    const char *path = json_string_value(json_object_get(row, "path"));
    const dz_lab_metric *metric = name ? dz_lab_metric_find(name) : NULL;
    size_t n = dz_lab_result_values(a, stack, name, phase, path, before, MOST_REPEATS);
    size_t m = dz_lab_result_values(b, stack, name, phase, path, after, MOST_REPEATS);
    if (!metric || n == 0 || m == 0)
        return;
    bool sure = dz_lab_ratio_interval(after, m, before, n, &low, &high);
    double from = dz_lab_median(before, n), to = dz_lab_median(after, m);
    const char *verdict = verdict_of(metric, sure, low, high);
    char interval[64] = "";
    if (sure)
        snprintf(interval, sizeof interval, "%.3f to %.3f", low, high);
    dz_table_cell(out, "%s", stack);
    dz_table_cell(out, "%s", dz_lab_row_label(row).text);
    dz_table_cell(out, "%s", dz_lab_figure(from / metric->scale).text);
    dz_table_cell(out, "%s", dz_lab_figure(to / metric->scale).text);
    dz_table_cell(out, "%s", from != 0 ? dz_lab_figure(to / from).text : "-");
    dz_table_cell(out, "%s", interval);
    dz_table_cell(out, "%s", verdict);
    json_t *entry =
        json_pack("{s:s, s:s, s:s*, s:s*, s:f, s:f, s:s}", "stack", stack, "metric", name, "phase",
                  phase, "path", path, "a", from, "b", to, "verdict", verdict);
    if (sure)
        json_object_set_new(entry, "ratio_ci", json_pack("[f, f]", low, high));
    json_array_append_new(list, entry);
}

static int compare(json_t *a, json_t *b, const options *o)
{
    static const char *const heads[] = {"stack", "metric", "A", "B", "B / A", "95% of B / A", ""};
    json_t *list = json_array(), *stack, *row;
    dz_table *out = dz_table_new(7);
    size_t i, j;
    for (i = 0; i < 7; i++)
        dz_table_head(out, heads[i], i >= 2 && i <= 4 ? DZ_RIGHT : DZ_LEFT);
    json_array_foreach(json_object_get(a, "stacks"), i, stack)
    {
        size_t before = json_array_size(list);
        json_array_foreach(json_object_get(a, "table"), j, row)
            compare_row(a, b, json_string_value(json_object_get(stack, "name")), row, out, list);
        if (json_array_size(list) > before)
            dz_table_rule(out);
    }
    int code = DZ_EXIT_OK;
    bool to_stdout = o->json && strcmp(o->json, "-") == 0;
    if (json_array_size(list) == 0)
        code = dz_fail(DZ_EXIT_USAGE, TOOL, "the two runs have no stack in common");
    else if (!to_stdout && dz_table_print(out, stdout) < 0)
        code = DZ_EXIT_TARGET;
    if (code == DZ_EXIT_OK && o->json) {
        json_t *document = json_pack("{s:O}", "comparison", list);
        int rc = document ? dz_lab_result_save(document, o->json) : DZ_E_NOMEM;
        json_decref(document);
        if (rc < 0)
            code = dz_fail(DZ_EXIT_TARGET, TOOL, "can't write %s: %s", o->json, dz_strerror(rc));
    }
    dz_table_free(out);
    json_decref(list);
    return code;
}

int dz_lab_command_compare(int argc, char **argv)
{
    options o = {0};
    dz_operands operands = {0};
    int code = dz_options_parse(&spec, &o, argc, argv, &operands);
    if (code != DZ_OPTIONS_OK)
        return code;
    if (operands.args.count != 2) {
        dz_strings_free(&operands.args);
        return dz_usage(TOOL, "needs two results of 'donmaz lab run --json'");
    }
    json_t *a = dz_lab_result_load(operands.args.items[0]);
    json_t *b = a ? dz_lab_result_load(operands.args.items[1]) : NULL;
    code = DZ_EXIT_USAGE;
    if (a && b) {
        const char *one = json_string_value(json_object_get(a, "experiment"));
        const char *other = json_string_value(json_object_get(b, "experiment"));
        if (strcmp(one, other) != 0)
            code = dz_usage(TOOL, "A is a run of '%s', B of '%s'", one, other);
        else if (!json_equal(json_object_get(a, "phases"), json_object_get(b, "phases")))
            code = dz_usage(TOOL, "the runs had different phases (was one --quick?)");
        else
            code = compare(a, b, &o);
    }
    json_decref(a);
    json_decref(b);
    dz_strings_free(&operands.args);
    return code;
}
