/* The table of characters, against the grammars it comes from. */
#include "../check.h"

#include "http/chars.h"

#define DIGITS  "0123456789"
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

static void check_class(int class, const char *members)
{
    for (int c = 0; c < 256; c++) {
        bool wanted = c != 0 && strchr(members, c) != NULL;
        if (dz_char_is((char)c, class) != wanted)
            fail_msg("class %d, byte %d: %s", class, c, wanted ? "missing" : "too much");
    }
}

static void tokens_are_those_of_rfc_9110(void **state)
{
    (void)state;
    check_class(DZ_CHAR_TOKEN, DIGITS LETTERS "!#$%&'*+-.^_`|~");
}

static void targets_have_what_browsers_send_and_nothing_that_splits_a_line(void **state)
{
    (void)state;
    check_class(DZ_CHAR_QUERY, DIGITS LETTERS "!$%&'()*+,-./:;=?@[\\]^_`{|}~");
    check_class(DZ_CHAR_PATH, DIGITS LETTERS "!$%&'()*+,-./:;=@[]^_`{|}~");
}

static void hosts_have_no_comma_and_no_path(void **state)
{
    (void)state;
    check_class(DZ_CHAR_HOST, DIGITS LETTERS "-._~%!$&'()*+;=");
    check_class(DZ_CHAR_IP, DIGITS "abcdefABCDEF:.");
}

static void cookies_have_no_quote_comma_semicolon_or_backslash(void **state)
{
    (void)state;
    check_class(DZ_CHAR_COOKIE, DIGITS LETTERS "!#$%&'()*+-./:<=>?@[]^_`{|}~");
}

static void no_class_has_white_space_controls_or_bytes_above_ascii(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++)
        if (c <= ' ' || c >= 0x7f)
            assert_int_equal(dz_chars[c], 0);
}

static void several_classes_can_be_asked_for_at_once(void **state)
{
    (void)state;
    assert_true(dz_char_is('?', DZ_CHAR_PATH | DZ_CHAR_QUERY));
    assert_false(dz_char_is('#', DZ_CHAR_PATH | DZ_CHAR_QUERY));
}

static void hexadecimal_digits_have_their_values(void **state)
{
    (void)state;
    static const char digits[] = DIGITS "abcdef";
    for (int c = 0; c < 256; c++) {
        int wanted = -1;
        for (int i = 0; i < 16; i++)
            if (c == digits[i] || (i > 9 && c == digits[i] - 'a' + 'A'))
                wanted = i;
        assert_int_equal(dz_char_hex((char)c), wanted);
        assert_int_equal(dz_char_digit((char)c), c >= '0' && c <= '9');
        assert_int_equal(dz_char_blank((char)c), c == ' ' || c == '\t');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_those_of_rfc_9110),
        cmocka_unit_test(targets_have_what_browsers_send_and_nothing_that_splits_a_line),
        cmocka_unit_test(hosts_have_no_comma_and_no_path),
        cmocka_unit_test(cookies_have_no_quote_comma_semicolon_or_backslash),
        cmocka_unit_test(no_class_has_white_space_controls_or_bytes_above_ascii),
        cmocka_unit_test(several_classes_can_be_asked_for_at_once),
        cmocka_unit_test(hexadecimal_digits_have_their_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
