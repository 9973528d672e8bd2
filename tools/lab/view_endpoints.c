/* One line an endpoint: what of a phase's load went where, and how it fared there. */
#include "view.h"

#include "metric.h"

#include "common/printable.h"
#include "common/table.h"
#include "common/terminal.h"

#include <donmaz/error.h>

#include <string.h>

static const char *const columns[] = {"rps",    "share_percent", "p50_ms",
                                      "p99_ms", "errors",        "non2xx"};

enum { COLUMNS = sizeof columns / sizeof columns[0] };

static void add_heads(dz_table *table)
{
    dz_table_head(table, "stack", DZ_LEFT);
    dz_table_head(table, "endpoint", DZ_LEFT);
    for (size_t i = 0; i < COLUMNS; i++) {
        const dz_lab_metric *metric = dz_lab_metric_find(columns[i]);
        bool named = metric->unit[0] == '\0' || strcmp(metric->label, metric->unit) == 0;
        char head[64];
        snprintf(head, sizeof head, "%s%s%s", metric->label, named ? "" : " ",
                 named ? "" : metric->unit);
        dz_table_head(table, head, DZ_RIGHT);
    }
}

static void add_rows(dz_table *table, json_t *stack, const char *phase, json_t *endpoints,
                     bool repeat_name)
{
    size_t i;
    json_t *endpoint;
    json_array_foreach(endpoints, i, endpoint)
    {
        const char *path = json_string_value(json_object_get(endpoint, "path"));
        const char *name = json_string_value(json_object_get(stack, "name"));
        dz_table_cell(table, "%s", i == 0 || repeat_name ? name : "");
        dz_table_cell(table, "%s", path);
        for (size_t c = 0; c < COLUMNS; c++) {
            json_t *row =
                json_pack("{s:s, s:s, s:s}", "metric", columns[c], "phase", phase, "path", path);
            dz_table_cell(table, "%s", dz_lab_row_figure(row, stack, 1).text);
            json_decref(row);
        }
    }
}

static int print_phase(json_t *document, json_t *phase, FILE *out, bool markdown)
{
    json_t *endpoints = json_object_get(phase, "endpoints"), *stack;
    const char *name = json_string_value(json_object_get(phase, "name"));
    dz_table *table = dz_table_new(COLUMNS + 2);
    size_t i, rows = 0;
    add_heads(table);
    json_array_foreach(json_object_get(document, "stacks"), i, stack)
    {
        if (json_array_size(json_object_get(stack, "phases")) == 0)
            continue;
        if (rows++ > 0 && !markdown)
            dz_table_rule(table);
        add_rows(table, stack, name, endpoints, markdown);
    }
    int rc = table ? 0 : DZ_E_NOMEM;
    if (rc == 0 && rows > 0) {
        bool colour = !markdown && dz_wants_colour(out);
        fprintf(out, "%s%sEach endpoint, ", markdown ? "\n## " : "",
                colour ? dz_style_code(DZ_STYLE_BOLD) : "");
        dz_put_clean(out, name, strlen(name));
        fprintf(out, "%s\n%s", colour ? dz_style_code(DZ_STYLE_NONE) : "", markdown ? "\n" : "");
        rc = markdown ? dz_table_print_markdown(table, out) : dz_table_print(table, out);
    }
    dz_table_free(table);
    return rc;
}

int dz_lab_print_endpoints(json_t *document, FILE *out, bool markdown)
{
    size_t i;
    json_t *phase;
    int rc = 0;
    json_array_foreach(json_object_get(document, "phases"), i, phase)
    {
        if (rc == 0 && json_array_size(json_object_get(phase, "endpoints")) > 1)
            rc = print_phase(document, phase, out, markdown);
    }
    return rc;
}
