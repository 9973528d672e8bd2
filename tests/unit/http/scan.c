#include "../check.h"

#include "http/scan.h"

static void the_vector_form_equals_the_plain_one(void **state)
{
    (void)state;
    char *bytes = malloc(80);
    assert_non_null(bytes);
    for (int byte = 0; byte < 256; byte++)
        for (size_t len = 0; len < 80; len++)
            for (size_t at = 0; at <= len; at += len < 40 ? 1 : 7) {
                memset(bytes, 'x', 80);
                if (len > 0) /* the block ends where the range does */
                    bytes[80 - 1 - (len - 1) / 3] = (char)byte;
                const char *begin = bytes + 80 - len, *end = bytes + 80;
                assert_ptr_equal(dz_scan_control(begin, begin + at, end),
                                 dz_scan_control_scalar(begin + at, end));
            }
    free(bytes);
}

static void a_control_byte_is_found_anywhere_in_a_long_line(void **state)
{
    (void)state;
    enum { SIZE = 300 };
    static const char bytes_tried[] = {0,   '\t', '\n',       '\r',      0x1f,
                                       ' ', 0x7f, (char)0x80, (char)0xff};
    char *bytes = malloc(SIZE);
    assert_non_null(bytes);
    for (size_t len = 60; len <= SIZE; len += 3)
        for (size_t at = 0; at < len; at++) {
            memset(bytes, 'x', SIZE);
            bytes[SIZE - len + at] = bytes_tried[(at + len) % sizeof bytes_tried];
            const char *begin = bytes + SIZE - len, *end = bytes + SIZE;
            assert_ptr_equal(dz_scan_control(begin, begin, end),
                             dz_scan_control_scalar(begin, end));
        }
    free(bytes);
}

static void control_bytes_are_all_but_tab(void **state)
{
    (void)state;
    int count = 0;
    for (int byte = 0; byte < 256; byte++)
        count += dz_scan_is_control((char)byte);
    assert_int_equal(count, 32);
    assert_false(dz_scan_is_control('\t'));
    assert_true(dz_scan_is_control(0x7f));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vector_form_equals_the_plain_one),
        cmocka_unit_test(a_control_byte_is_found_anywhere_in_a_long_line),
        cmocka_unit_test(control_bytes_are_all_but_tab),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
