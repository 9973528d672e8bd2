#include "app/setting.h"

#include <stdio.h>
#include <string.h>

/* What is said of the settings: --help, and what was wrong. */

static void print_option(const char *name, const char *value_name, const char *help)
{
    char left[64];
    snprintf(left, sizeof left, "--%s%s%s", name, value_name ? " " : "",
             value_name ? value_name : "");
    printf("  %-24s ", left);
    for (const char *at = help; *at; at++) {
        putchar(*at);
        if (*at == '\n')
            printf("  %-24s ", "");
    }
    putchar('\n');
}

static void print_user_options(const dz_user_option *it)
{
    if (!it)
        return;
    print_user_options(it->next); /* in the order they were added */
    print_option(it->name, it->value_name, it->help);
}

void dz_settings_help(const dz_core *core, const char *program)
{
    printf("usage: %s [options]\n\n", program);
    if (core->user_options) {
        printf("options of this program:\n");
        print_user_options(core->user_options);
        putchar('\n');
    }
    printf("options of every donmaz service:\n");
    for (size_t i = 0; i < dz_setting_count; i++)
        print_option(dz_setting_table[i].name, dz_setting_table[i].value_name,
                     dz_setting_table[i].help);
    print_option("help", NULL, "print this and exit");
    printf(
        "\nTIME is a number with ms, s, m or h (seconds without a unit); BYTES takes k, M or G.\n"
        "Each option can also be set by an environment variable, such as DONMAZ_RESCUE_AFTER for\n"
        "--rescue-after; the command line goes before it.\n");
}

/* How many letters must change to turn a into b (Levenshtein), for short names. */
static size_t distance(const char *a, size_t a_len, const char *b)
{
    enum { LONGEST = 32 };
    size_t b_len = strlen(b), row[LONGEST + 1];
    if (a_len > LONGEST || b_len > LONGEST)
        return LONGEST;
    for (size_t j = 0; j <= b_len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[b_len];
}

/* `other`, if it is nearer than the nearest so far, and half of its letters are right. */
static const char *nearer(const char *nearest, size_t *least, const char *name, size_t len,
                          const char *other)
{
    size_t d = distance(name, len, other), other_len = strlen(other);
    if (d >= *least || 2 * d > (len > other_len ? len : other_len))
        return nearest;
    *least = d;
    return other;
}

void dz_settings_complain_unknown(const dz_core *core, const char *program, const char *name,
                                  size_t len)
{
    const char *nearest = NULL;
    size_t least = 4;
    for (size_t i = 0; i < dz_setting_count; i++)
        nearest = nearer(nearest, &least, name, len, dz_setting_table[i].name);
    for (const dz_user_option *it = core->user_options; it; it = it->next)
        nearest = nearer(nearest, &least, name, len, it->name);
    fprintf(stderr, "%s: unknown option --%.*s", program, (int)len, name);
    if (nearest)
        fprintf(stderr, "; did you mean --%s?\n", nearest);
    else
        fprintf(stderr, "; --help lists the options\n");
}

int dz_settings_complain_value(const char *program, const char *what, const char *value)
{
    fprintf(stderr, "%s: %s can't be '%s'; --help tells what it takes\n", program, what, value);
    return 2;
}
