#include "common/table.h"

#include "common/printable.h"

#include <donmaz/error.h>

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct cell {
    char *text; /* owned */
    dz_style style;
} cell;

struct dz_table {
    size_t columns, heads;
    char **head;     /* columns texts, owned */
    dz_align *align; /* columns */
    size_t *width;   /* columns */
    cell *cells;     /* row after row */
    size_t count, cap;
    size_t *rules; /* a line before these rows, ascending */
    size_t rule_count;
    bool failed; /* memory ran out */
};

dz_table *dz_table_new(size_t columns)
{
    dz_table *table = columns > 0 ? calloc(1, sizeof *table) : NULL;
    if (!table)
        return NULL;
    table->columns = columns;
    table->head = calloc(columns, sizeof *table->head);
    table->align = calloc(columns, sizeof *table->align);
    table->width = calloc(columns, sizeof *table->width);
    if (!table->head || !table->align || !table->width) {
        dz_table_free(table);
        return NULL;
    }
    return table;
}

void dz_table_free(dz_table *table)
{
    if (!table)
        return;
    for (size_t i = 0; table->head && i < table->columns; i++)
        free(table->head[i]);
    for (size_t i = 0; i < table->count; i++)
        free(table->cells[i].text);
    free(table->head);
    free(table->align);
    free(table->width);
    free(table->cells);
    free(table->rules);
    free(table);
}

static void widen(dz_table *table, size_t column, const char *text)
{
    size_t width = dz_text_width(text);
    if (width > table->width[column])
        table->width[column] = width;
}

void dz_table_head(dz_table *table, const char *text, dz_align align)
{
    if (!table || table->heads >= table->columns)
        return;
    table->align[table->heads] = align;
    table->head[table->heads] = dz_text_clean(strdup(text));
    if (!table->head[table->heads])
        table->failed = true;
    widen(table, table->heads++, text);
}

static bool make_room(dz_table *table)
{
    if (table->count < table->cap)
        return true;
    size_t cap = table->cap ? table->cap * 2 : 64;
    cell *cells = realloc(table->cells, cap * sizeof *cells);
    if (!cells)
        return false;
    table->cells = cells;
    table->cap = cap;
    return true;
}

void dz_table_cell(dz_table *table, const char *format, ...)
{
    if (!table || table->failed)
        return;
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int len = vasprintf(&text, format, args);
    va_end(args);
    if (len < 0 || !make_room(table)) {
        if (len >= 0)
            free(text);
        table->failed = true;
        return;
    }
    dz_text_clean(text);
    widen(table, table->count % table->columns, text);
    table->cells[table->count++] = (cell){.text = text};
}

void dz_table_style(dz_table *table, dz_style style)
{
    if (table && table->count > 0)
        table->cells[table->count - 1].style = style;
}

static void fill_row(dz_table *table)
{
    while (!table->failed && table->count % table->columns != 0)
        dz_table_cell(table, "%s", "");
}

void dz_table_rule(dz_table *table)
{
    if (!table || table->failed)
        return;
    fill_row(table);
    size_t *rules = realloc(table->rules, (table->rule_count + 1) * sizeof *rules);
    if (!rules) {
        table->failed = true;
        return;
    }
    rules[table->rule_count++] = table->count / table->columns;
    table->rules = rules;
}

typedef struct printer {
    const dz_table *table;
    FILE *out;
    bool colour;
} printer;

static void print_line(const printer *p, const char *left, const char *middle, const char *right)
{
    fputs(left, p->out);
    for (size_t i = 0; i < p->table->columns; i++) {
        for (size_t n = 0; n < p->table->width[i] + 2; n++)
            fputs("─", p->out);
        fputs(i + 1 < p->table->columns ? middle : right, p->out);
    }
    fputc('\n', p->out);
}

static void print_cell(const printer *p, size_t column, const char *text, dz_style style)
{
    int pad = (int)(p->table->width[column] - dz_text_width(text));
    bool right = p->table->align[column] == DZ_RIGHT;
    bool colour = p->colour && style != DZ_STYLE_NONE;
    fprintf(p->out, "│ %*s%s%s%s%*s ", right ? pad : 0, "", colour ? dz_style_code(style) : "",
            text, colour ? dz_style_code(DZ_STYLE_NONE) : "", right ? 0 : pad, "");
}

int dz_table_print(dz_table *table, FILE *out)
{
    if (table)
        fill_row(table);
    if (!table || table->failed)
        return DZ_E_NOMEM;
    printer p = {.table = table, .out = out, .colour = dz_wants_colour(out)};
    print_line(&p, "┌", "┬", "┐");
    for (size_t i = 0; i < table->columns; i++)
        print_cell(&p, i, table->head[i] ? table->head[i] : "", DZ_STYLE_CYAN);
    fputs("│\n", out);
    print_line(&p, "├", "┼", "┤");
    size_t rows = table->count / table->columns;
    for (size_t row = 0, rule = 0; row < rows; row++) {
        for (; rule < table->rule_count && table->rules[rule] <= row; rule++)
            if (row > 0 && table->rules[rule] == row)
                print_line(&p, "├", "┼", "┤");
        for (size_t i = 0; i < table->columns; i++) {
            const cell *c = &table->cells[row * table->columns + i];
            print_cell(&p, i, c->text, c->style);
        }
        fputs("│\n", out);
    }
    print_line(&p, "└", "┴", "┘");
    return 0;
}

static void print_escaped(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            fputc('\\', out);
        fputc(*text == '\n' ? ' ' : *text, out);
    }
}

int dz_table_print_markdown(dz_table *table, FILE *out)
{
    if (table)
        fill_row(table);
    if (!table || table->failed)
        return DZ_E_NOMEM;
    for (size_t i = 0; i < table->columns; i++) {
        fputs("| ", out);
        print_escaped(out, table->head[i] ? table->head[i] : "");
        fputc(' ', out);
    }
    fputs("|\n", out);
    for (size_t i = 0; i < table->columns; i++)
        fputs(table->align[i] == DZ_RIGHT ? "|---:" : "|---", out);
    fputs("|\n", out);
    for (size_t i = 0, column = 0; i < table->count; i++) {
        fputs("| ", out);
        print_escaped(out, table->cells[i].text);
        column = column + 1 < table->columns ? column + 1 : 0;
        fputs(column == 0 ? " |\n" : " ", out);
    }
    return 0;
}
