/* Prints --help from an option table. */
#include "common/options.h"

#include <donmaz/slice.h>

#include <stdio.h>

enum { HELP_COLUMN = 30 };

/* Text that may hold several lines, each indented; the first follows what stands on its line. */
static void print_indented(FILE *out, const char *text)
{
    for (bool first = true; text; first = false) {
        const char *newline = strchr(text, '\n');
        int len = newline ? (int)(newline - text) : (int)strlen(text);
        fprintf(out, "%*s%.*s\n", first ? 0 : HELP_COLUMN, "", len, text);
        text = newline ? newline + 1 : NULL;
    }
}

/* "  -c, --connections NUM": returns its width. */
static int print_names(FILE *out, const dz_option *option)
{
    int width = option->letter ? fprintf(out, "  -%c", option->letter) : fprintf(out, "    ");
    if (option->name)
        width += fprintf(out, "%s--%.*s", option->letter ? ", " : "  ",
                         (int)strcspn(option->name, "|"), option->name);
    if (option->value && option->kind == DZ_OPT_OUTPUT)
        width += fprintf(out, " [%s]", option->value);
    else if (option->value)
        width += fprintf(out, " %s", option->value);
    return width;
}

void dz_options_help(const dz_option_spec *spec, void *file)
{
    FILE *out = file;
    fprintf(out, "usage: %s %s\n", spec->tool, spec->usage);
    if (spec->about)
        fprintf(out, "\n%s\n", spec->about);
    if (spec->count == 0 || spec->options[0].kind != DZ_OPT_HEADING)
        fputs("\noptions:\n", out);
    for (size_t i = 0; i < spec->count; i++) {
        const dz_option *option = &spec->options[i];
        if (option->kind == DZ_OPT_HEADING) {
            fprintf(out, "\n%s:\n", option->name);
            continue;
        }
        int width = print_names(out, option);
        if (width >= HELP_COLUMN) {
            fputc('\n', out);
            width = 0;
        }
        fprintf(out, "%*s", HELP_COLUMN - width, "");
        print_indented(out, option->help);
    }
    fprintf(out, "      --help%*sprint this help\n", HELP_COLUMN - 12, "");
    if (spec->notes)
        fprintf(out, "\n%s\n", spec->notes);
}
