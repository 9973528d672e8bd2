#include "../../check.h"

#include "common/table.h"

#include <stdio.h>

static dz_table *example(void)
{
    dz_table *t = dz_table_new(2);
    dz_table_head(t, "stack", DZ_LEFT);
    dz_table_head(t, "req/s", DZ_RIGHT);
    dz_table_cell(t, "%s", "plain");
    dz_table_cell(t, "%.1f", 9.5);
    dz_table_rule(t);
    dz_table_cell(t, "é|µs");
    dz_table_style(t, DZ_STYLE_BOLD);
    dz_table_cell(t, "%d", 123456);
    dz_table_cell(t, "cut short");
    return t;
}

static void check_output(int (*print)(dz_table *, FILE *), const char *wanted)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    dz_table *t = example();
    assert_int_equal(print(t, out), 0);
    fclose(out);
    assert_string_equal(text, wanted);
    free(text);
    dz_table_free(t);
}

static void aligns_columns_by_what_is_seen_without_colours_off_a_terminal(void **state)
{
    (void)state;
    check_output(dz_table_print, "┌───────────┬────────┐\n"
                                 "│ stack     │  req/s │\n"
                                 "├───────────┼────────┤\n"
                                 "│ plain     │    9.5 │\n"
                                 "├───────────┼────────┤\n"
                                 "│ é|µs      │ 123456 │\n"
                                 "│ cut short │        │\n"
                                 "└───────────┴────────┘\n");
}

static void markdown_escapes_bars(void **state)
{
    (void)state;
    check_output(dz_table_print_markdown, "| stack | req/s |\n"
                                          "|---|---:|\n"
                                          "| plain | 9.5 |\n"
                                          "| é\\|µs | 123456 |\n"
                                          "| cut short |  |\n");
}

static void colours_honour_no_color(void **state)
{
    (void)state;
    setenv("NO_COLOR", "1", 1);
    assert_false(dz_wants_colour(stdout));
    unsetenv("NO_COLOR");
    FILE *file = tmpfile();
    assert_false(dz_wants_colour(file));
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aligns_columns_by_what_is_seen_without_colours_off_a_terminal),
        cmocka_unit_test(markdown_escapes_bars), cmocka_unit_test(colours_honour_no_color)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
