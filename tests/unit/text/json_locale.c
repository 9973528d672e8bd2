/* Numbers in a locale with a decimal comma. Test machines have no such locale installed, so the
 * linker puts a comma into what printf writes and strtod expects. */
#include "../check.h"

#include <donmaz/json.h>

#include <stdio.h>

int __wrap_snprintf(char *text, size_t size, const char *format, ...) DZ_PRINTF(3, 4);
double __wrap_strtod(const char *text, char **end);
double __real_strtod(const char *text, char **end);

static void swap(char *text, char from, char to)
{
    for (; *text; text++)
        if (*text == from)
            *text = to;
}

static unsigned commas;

int __wrap_snprintf(char *text, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, size, format, args);
    va_end(args);
    swap(text, '.', ',');
    commas += strchr(text, ',') != NULL;
    return len;
}

double __wrap_strtod(const char *text, char **end)
{
    static char copy[64];
    assert_true(strlen(text) < sizeof copy);
    memcpy(copy, text, strlen(text) + 1);
    swap(copy, '.', ';');
    swap(copy, ',', '.');
    return __real_strtod(copy, end);
}

static void a_decimal_comma_does_not_reach_the_text(void **state)
{
    (void)state;
    dz_buf out = {0};
    dz_json json;
    dz_json_init(&json, &out, 0);
    dz_json_array_open(&json);
    dz_json_double(&json, 0.1 + 0.2);
    dz_json_double(&json, 0x1p-44);
    dz_json_format(&json, "%.2f", 1.25);
    dz_json_array_close(&json);
    assert_int_equal(dz_json_finish(&json), 0);
    assert_slice(dz_buf_slice(&out), "[0.30000000000000004,5.684341886080802e-14,1.25]");
    assert_true(commas >= 3); /* the commas were there to be replaced */
    dz_buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_decimal_comma_does_not_reach_the_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
