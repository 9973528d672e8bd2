#include "view.h"

#include "metric.h"

#include "common/printable.h"
#include "common/table.h"
#include "common/terminal.h"

#include <donmaz/error.h>

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { STACKS_ABREAST = 6 }; /* columns of a Markdown table */
enum { WARNINGS = 4 }; /* as many are printed below the table; a document may hold one a stack */

static const char *text_of(json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

dz_lab_cell dz_lab_figure(double value)
{
    dz_lab_cell cell;
    double size = fabs(value);
    int decimals = size >= 100 || size < 1e-9 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
    if (isnan(value))
        snprintf(cell.text, sizeof cell.text, "-");
    else
        snprintf(cell.text, sizeof cell.text, "%.*f", decimals, value);
    return cell;
}

dz_lab_cell dz_lab_row_label(json_t *row)
{
    dz_lab_cell cell;
    const char *label = text_of(row, "label"), *phase = text_of(row, "phase");
    const char *path = text_of(row, "path");
    const dz_lab_metric *metric = dz_lab_metric_find(text_of(row, "metric"));
    if (label || !metric) {
        snprintf(cell.text, sizeof cell.text, "%s", label ? label : "?");
        return cell;
    }
    const char *name = strcmp(metric->label, metric->unit) == 0 ? "throughput" : metric->label;
    snprintf(cell.text, sizeof cell.text, "%s%s%s%s%s%s%s%s", path ? path : "", path ? " " : "",
             name, metric->unit[0] ? " (" : "", metric->unit, metric->unit[0] ? ")" : "",
             phase ? ", " : "", phase ? phase : "");
    return cell;
}

dz_lab_cell dz_lab_row_figure(json_t *row, json_t *stack, int spread)
{
    const dz_lab_metric *metric = dz_lab_metric_find(text_of(row, "metric"));
    const char *phase = text_of(row, "phase"), *path = text_of(row, "path");
    double low, high;
    if (!metric)
        return dz_lab_figure(NAN);
    double value = dz_lab_metric_value(stack, metric, phase, path);
    dz_lab_cell cell = dz_lab_figure(value / metric->scale);
    if (spread && value > 0 && dz_lab_metric_interval(stack, metric, phase, path, &low, &high)) {
        size_t len = strlen(cell.text);
        snprintf(cell.text + len, sizeof cell.text - len, " ±%.0f%%", 50 * (high - low) / value);
    }
    return cell;
}

static bool measured(json_t *stack)
{
    return json_array_size(json_object_get(stack, "phases")) > 0;
}

static size_t first_word(const char *name)
{
    return strcspn(name, " ");
}

/* One table's worth of the measured stacks: which they are, and whether all begin with one word. */
typedef struct group {
    json_t *stacks[64];
    size_t count;
    size_t shared; /* bytes of the first word and the blank that the headings leave out */
} group;

static size_t shared_word(const group *g)
{
    const char *first = text_of(g->stacks[0], "name");
    size_t len = first_word(first);
    if (!first[len])
        return 0;
    for (size_t i = 1; i < g->count; i++) {
        const char *name = text_of(g->stacks[i], "name");
        if (strncmp(name, first, len + 1) != 0)
            return 0;
    }
    return g->count > 1 ? len + 1 : 0;
}

/* How wide the group's table would be: headings and figures with three columns for the frame. */
static size_t width_of(json_t *document, const group *g)
{
    size_t i, width = 1, labels = 0, shared = shared_word(g);
    json_t *row;
    json_array_foreach(json_object_get(document, "table"), i, row)
    {
        size_t len = dz_text_width(dz_lab_row_label(row).text);
        labels = len > labels ? len : labels;
    }
    width += labels + 3;
    for (size_t s = 0; s < g->count; s++) {
        size_t column = dz_text_width(text_of(g->stacks[s], "name") + shared);
        json_array_foreach(json_object_get(document, "table"), i, row)
        {
            size_t len = dz_text_width(dz_lab_row_figure(row, g->stacks[s], 1).text);
            column = len > column ? len : column;
        }
        width += column + 3;
    }
    return width;
}

static void print_shared(const group *g, FILE *out, bool markdown)
{
    bool colour = dz_wants_colour(out);
    fputs(colour ? dz_style_code(DZ_STYLE_BOLD) : "", out);
    dz_put_clean(out, text_of(g->stacks[0], "name"), g->shared - 1);
    fprintf(out, "%s\n%s", colour ? dz_style_code(DZ_STYLE_NONE) : "", markdown ? "\n" : "");
}

static int print_group(json_t *document, const group *g, FILE *out, bool markdown)
{
    size_t i;
    json_t *row;
    dz_table *table = dz_table_new(g->count + 1);
    if (g->shared)
        print_shared(g, out, markdown);
    dz_table_head(table, "", DZ_LEFT);
    for (size_t s = 0; s < g->count; s++)
        dz_table_head(table, text_of(g->stacks[s], "name") + g->shared, DZ_RIGHT);
    json_array_foreach(json_object_get(document, "table"), i, row)
    {
        dz_table_cell(table, "%s", dz_lab_row_label(row).text);
        for (size_t s = 0; s < g->count; s++)
            dz_table_cell(table, "%s", dz_lab_row_figure(row, g->stacks[s], 1).text);
    }
    int rc = table ? (markdown ? dz_table_print_markdown(table, out) : dz_table_print(table, out))
                   : DZ_E_NOMEM;
    dz_table_free(table);
    return rc;
}

/* Markdown has no width to keep to, but a column for each of many stacks can't be read: a line. */
static int print_by_stack(json_t *document, const group *g, FILE *out)
{
    size_t i;
    json_t *row, *rows = json_object_get(document, "table");
    dz_table *table = dz_table_new(json_array_size(rows) + 1);
    dz_table_head(table, "stack", DZ_LEFT);
    json_array_foreach(rows, i, row) dz_table_head(table, dz_lab_row_label(row).text, DZ_RIGHT);
    for (size_t s = 0; s < g->count; s++) {
        dz_table_cell(table, "%s", text_of(g->stacks[s], "name"));
        json_array_foreach(rows, i, row)
            dz_table_cell(table, "%s", dz_lab_row_figure(row, g->stacks[s], 1).text);
    }
    int rc = table ? dz_table_print_markdown(table, out) : DZ_E_NOMEM;
    dz_table_free(table);
    return rc;
}

/* Prints the stacks in as few tables as fit, preferring to break where the first word changes. */
static int print_groups(json_t *document, FILE *out, size_t width)
{
    json_t *stacks = json_object_get(document, "stacks"), *stack;
    group g = {0};
    size_t i;
    int rc = 0;
    json_array_foreach(stacks, i, stack)
    {
        if (!measured(stack))
            continue;
        if (g.count > 0) {
            const char *last = text_of(g.stacks[g.count - 1], "name"),
                       *name = text_of(stack, "name");
            bool same =
                first_word(last) == first_word(name) && strncmp(last, name, first_word(name)) == 0;
            g.stacks[g.count++] = stack;
            bool fits = g.count < 64 && width_of(document, &g) <= width;
            g.count--;
            if (!fits || (!same && shared_word(&g) > 0)) {
                g.shared = shared_word(&g);
                if (rc == 0)
                    rc = print_group(document, &g, out, false);
                g.count = 0;
            }
        }
        g.stacks[g.count++] = stack;
    }
    if (g.count > 0 && rc == 0) {
        g.shared = shared_word(&g);
        rc = print_group(document, &g, out, false);
    }
    return rc;
}

static void print_remarks(json_t *document, FILE *out, const char *bullet)
{
    size_t i;
    json_t *item;
    double repeats = json_number_value(json_object_get(document, "repeats"));
    if (repeats >= 3)
        fprintf(out, "%smedians of %.0f repeats, ± half of the 95%% confidence interval\n", bullet,
                repeats);
    else if (repeats > 1)
        fprintf(out, "%smedians of %.0f repeats; three or more give confidence intervals\n", bullet,
                repeats);
    else
        fprintf(out, "%sone repeat: --repeat 5 shows how far the figures can be trusted\n", bullet);
    if (json_is_true(json_object_get(document, "quick")))
        fprintf(out, "%squick: the phases were short, so p99 rests on few requests\n", bullet);
    if (!json_is_true(json_object_get(document, "complete")))
        fprintf(out, "%snot complete: some of it was not measured\n", bullet);
    json_array_foreach(json_object_get(document, "stacks"), i, item)
    {
        const char *name = text_of(item, "name");
        if (text_of(item, "skipped"))
            dz_print_clean(out, "%sskipped: %s: %s\n", bullet, name, text_of(item, "skipped"));
        if (text_of(item, "failed"))
            dz_print_clean(out, "%sfailed: %s: %s\n", bullet, name, text_of(item, "failed"));
    }
    size_t warnings = json_array_size(json_object_get(document, "warnings"));
    json_array_foreach(json_object_get(document, "warnings"), i, item) if (i < WARNINGS)
        dz_print_clean(out, "%swarning: %s\n", bullet, json_string_value(item));
    if (warnings > WARNINGS)
        fprintf(out, "%s%zu more warnings: see --json or --html\n", bullet, warnings - WARNINGS);
}

static void print_machine(json_t *document, FILE *out)
{
    json_t *machine = json_object_get(document, "machine");
    const char *cpu = text_of(machine, "cpu"), *os = text_of(machine, "os");
    dz_print_clean(out, "%s, %lld core%s, %s, donmaz %s\n", cpu ? cpu : "unknown CPU",
                   json_integer_value(json_object_get(machine, "usable_cores")),
                   json_integer_value(json_object_get(machine, "usable_cores")) == 1 ? "" : "s",
                   os ? os : "unknown system", text_of(machine, "donmaz"));
}

int dz_lab_print_tables(json_t *document, FILE *out, size_t width)
{
    dz_print_clean(out, "%s\n", text_of(document, "title"));
    print_machine(document, out);
    int rc = print_groups(document, out, width);
    if (rc == 0)
        rc = dz_lab_print_endpoints(document, out, false);
    print_remarks(document, out, "  ");
    return rc < 0 ? rc : ferror(out) ? -EIO : 0;
}

int dz_lab_print_markdown(json_t *document, FILE *out)
{
    group g = {0};
    size_t i;
    json_t *stack;
    dz_print_clean(out, "# %s\n\n", text_of(document, "title"));
    print_machine(document, out);
    fputc('\n', out);
    json_array_foreach(json_object_get(document, "stacks"), i,
                       stack) if (measured(stack) && g.count < 64) g.stacks[g.count++] = stack;
    int rc = g.count > STACKS_ABREAST ? print_by_stack(document, &g, out)
             : g.count > 0            ? print_group(document, &g, out, true)
                                      : 0;
    if (rc == 0)
        rc = dz_lab_print_endpoints(document, out, true);
    fputc('\n', out);
    print_remarks(document, out, "- ");
    fputc('\n', out);
    json_array_foreach(json_object_get(document, "stacks"), i, stack)
    {
        const char *command = text_of(stack, "command");
        if (command)
            dz_print_clean(out, "- %s: `%s`\n", text_of(stack, "name"), command);
    }
    return rc < 0 ? rc : ferror(out) ? -EIO : 0;
}
