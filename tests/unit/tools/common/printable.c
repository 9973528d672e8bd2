#include "../../check.h"

#include "common/printable.h"
#include "common/table.h"

#include <stdio.h>

static void check_clean(const char *text, const char *wanted)
{
    char *copy = strdup(text), *put = NULL, *printed = NULL;
    size_t put_len, printed_len;
    FILE *out = open_memstream(&put, &put_len);
    dz_put_clean(out, text, strlen(text));
    fclose(out);
    out = open_memstream(&printed, &printed_len);
    dz_print_clean(out, "%s\n", text);
    fclose(out);
    assert_string_equal(dz_text_clean(copy), wanted);
    assert_string_equal(put, wanted);
    assert_memory_equal(printed, wanted, strlen(wanted));
    assert_int_equal(printed_len, strlen(wanted) + 1);
    free(copy);
    free(put);
    free(printed);
}

static void what_shows_stays(void **state)
{
    (void)state;
    check_clean("", "");
    check_clean("GET /größe 5 µs ─ 漢字 \xF0\x9F\x98\x80 ~",
                "GET /größe 5 µs ─ 漢字 \xF0\x9F\x98\x80 ~");
}

static void no_escape_sequence_gets_through(void **state)
{
    (void)state;
    check_clean("\x1b[2Jgone", "?[2Jgone");
    check_clean("\x1b]0;title\a", "?]0;title?");
    check_clean("a\bb\x7f", "a?b?");
    check_clean("\xC2\x9B"
                "31m",
                "??31m"); /* CSI as a C1 character */
    check_clean("\x9B"
                "31m",
                "?31m"); /* and as a bare byte */
}

static void lines_cant_be_forged(void **state)
{
    (void)state;
    check_clean("one\r\ntwo\tthree", "one  two three");
    check_clean("a\xE2\x80\xA8z", "a???z"); /* U+2028, line separator */
}

static void direction_cant_be_turned(void **state)
{
    (void)state;
    check_clean("\xE2\x80\xAEtxt.exe", "???txt.exe");
    check_clean("\xE2\x81\xA6x\xE2\x81\xA9", "???x???");
}

static void what_is_not_utf8_is_replaced_byte_by_byte(void **state)
{
    (void)state;
    check_clean("\xC0\xAF", "??");           /* overlong '/' */
    check_clean("\xC1\x9B", "??");           /* overlong '[' */
    check_clean("\xE0\x82\x9B", "???");      /* overlong U+009B */
    check_clean("\xED\xA0\x80", "???");      /* a surrogate */
    check_clean("\xF4\x90\x80\x80", "????"); /* above U+10FFFF */
    check_clean("caf\xC3", "caf?");          /* cut off */
    check_clean("\xE2\x1b[m", "??[m");       /* an escape where a continuation belongs */
    check_clean("\xFF\xFE\x80\xC3\xA9", "???\xC3\xA9");
}

static void tables_clean_their_cells_and_heads(void **state)
{
    (void)state;
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    dz_table *t = dz_table_new(1);
    dz_table_head(t, "he\x1b[1mad", DZ_LEFT);
    dz_table_cell(t, "%s", "ce\x1b[1m\nll");
    assert_int_equal(dz_table_print(t, out), 0);
    fclose(out);
    dz_table_free(t);
    assert_null(strchr(text, '\x1b'));
    assert_non_null(strstr(text, "│ he?[1mad  │\n"));
    assert_non_null(strstr(text, "│ ce?[1m ll │\n"));
    free(text);
}

static void no_text_is_no_text(void **state)
{
    (void)state;
    assert_null(dz_text_clean(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_shows_stays),
        cmocka_unit_test(no_escape_sequence_gets_through),
        cmocka_unit_test(lines_cant_be_forged),
        cmocka_unit_test(direction_cant_be_turned),
        cmocka_unit_test(what_is_not_utf8_is_replaced_byte_by_byte),
        cmocka_unit_test(tables_clean_their_cells_and_heads),
        cmocka_unit_test(no_text_is_no_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
