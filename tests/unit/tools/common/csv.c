/* Fields of comma-separated values. */
#include "../../check.h"

#include "common/csv.h"

static void written(const char *text, const char *wanted)
{
    char got[64] = "";
    FILE *out = fmemopen(got, sizeof got, "w");
    assert_non_null(out);
    dz_csv_text(out, text);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(got, wanted);
}

static void a_field_is_quoted_only_when_it_must_be(void **state)
{
    (void)state;
    written("plain text", "plain text");
    written("", "");
    written(NULL, "");
    written("a,b", "\"a,b\"");
    written("two\nlines", "\"two\nlines\"");
    written("a\rb", "\"a\rb\"");
    written("say \"x\"", "\"say \"\"x\"\"\"");
    written("\"", "\"\"\"\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_field_is_quoted_only_when_it_must_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
