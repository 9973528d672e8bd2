#include "lab/words.h"

#include "../check.h"

#include <stdio.h>

static const dz_lab_names names = {"127.0.0.1", "4321", "/b", "2"};

static void check(const char *text, const char *const *expected, size_t count)
{
    char **words = dz_lab_words(text);
    assert_non_null(words);
    for (size_t i = 0; i < count; i++) {
        assert_non_null(words[i]);
        assert_string_equal(words[i], expected[i]);
    }
    assert_null(words[count]);
    dz_lab_words_free(words);
}

#define CHECK(text, ...)                                                                           \
    do {                                                                                           \
        const char *const expected_[] = {__VA_ARGS__};                                             \
        check(text, expected_, sizeof expected_ / sizeof expected_[0]);                            \
    } while (0)

static void words_are_split_at_blanks(void **state)
{
    (void)state;
    CHECK("a bc\td\n e ", "a", "bc", "d", "e");
    CHECK("a", "a");
    check("", NULL, 0);
    check("  ", NULL, 0);
}

static void quotes_keep_blanks(void **state)
{
    (void)state;
    CHECK("a 'b c' \"d e\"", "a", "b c", "d e");
    CHECK("x='1 2'3", "x=1 23");
    CHECK("''", "");
    CHECK("a '' b", "a", "", "b");
}

static void a_backslash_takes_the_next_character_as_it_is(void **state)
{
    (void)state;
    CHECK("a\\ b \\'c \"d\\\"e\" 'f\\'", "a b", "'c", "d\"e", "f\\");
    CHECK("end\\", "end\\");
}

static void an_open_quote_is_an_error(void **state)
{
    (void)state;
    assert_null(dz_lab_words("a 'b"));
    assert_null(dz_lab_words("\""));
}

static void names_are_filled_in(void **state)
{
    (void)state;
    char *text = dz_lab_fill("{{build}}/x --host={{host}} -p{{port}} {{cores}}{{", &names, NULL);
    assert_string_equal(text, "/b/x --host=127.0.0.1 -p4321 2{{");
    free(text);
}

static void an_unknown_name_is_told(void **state)
{
    (void)state;
    const char *unknown;
    assert_null(dz_lab_fill("a {{prot}} b", &names, &unknown));
    assert_string_equal(unknown, "prot");
    assert_null(dz_lab_fill("{{}}", &names, &unknown));
    assert_string_equal(unknown, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_split_at_blanks),
        cmocka_unit_test(quotes_keep_blanks),
        cmocka_unit_test(a_backslash_takes_the_next_character_as_it_is),
        cmocka_unit_test(an_open_quote_is_an_error),
        cmocka_unit_test(names_are_filled_in),
        cmocka_unit_test(an_unknown_name_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
