#include "../../check.h"

#include "common/yaml.h"

#include <stdio.h>

static bool fits(const char *text)
{
    return dz_yaml_fits((dz_yaml_text){(char *)(uintptr_t)text, strlen(text)});
}

static void aliases_are_counted_as_what_they_stand_for(void **state)
{
    (void)state;
    assert_true(fits("a: &a [x, x]\nb: *a\nc: {d: *a, e: &e [*a]}\n"));
    char text[4096];
    int len = snprintf(text, sizeof text, "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 12; i++)
        len += snprintf(text + len, sizeof text - (size_t)len,
                        "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n",
                        i, i, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
    assert_false(fits(text));
}

static void bytes_are_counted_too(void **state)
{
    (void)state;
    enum { TEXT = 100000, ALIASES = 1000 };
    char *text = malloc(TEXT + ALIASES * 8);
    assert_non_null(text);
    size_t len = (size_t)snprintf(text, TEXT, "- &a '%*s'\n", TEXT - 100, "");
    for (int i = 0; i < ALIASES; i++)
        len += (size_t)snprintf(text + len, 8, "- *a\n");
    assert_false(fits(text));
    free(text);
}

static void depth_has_an_end(void **state)
{
    (void)state;
    char text[1001];
    memset(text, '[', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_false(fits(text));
}

static void what_is_no_yaml_is_left_to_the_reader(void **state)
{
    (void)state;
    assert_true(fits(""));
    assert_true(fits("a: [b"));
    assert_true(fits("&a *a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aliases_are_counted_as_what_they_stand_for),
        cmocka_unit_test(bytes_are_counted_too),
        cmocka_unit_test(depth_has_an_end),
        cmocka_unit_test(what_is_no_yaml_is_left_to_the_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
