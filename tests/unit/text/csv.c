#include "../check.h"

#include "csv_reference.h"
#include "loop/sanitizer.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static dz_csv csv;
static dz_csv_field fields[8];
static dz_csv_row row;

static void start(const char *text, dz_csv_options options)
{
    row = (dz_csv_row){.fields = fields, .cap = 8};
    assert_int_equal(dz_csv_init(&csv, dz_slice_of(text), &options), 0);
}

/* The next row as text: fields joined by '|', quoted ones in brackets. */
static const char *next(void)
{
    static char text[256];
    int rc = dz_csv_next(&csv, &row);
    if (rc <= 0)
        return rc == 0 ? "(end)" : "(malformed)";
    size_t len = 0;
    text[0] = '\0';
    for (size_t i = 0; i < row.count; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%s%.*s%s", i ? "|" : "",
                                fields[i].quoted ? "[" : "", (int)fields[i].text.len,
                                fields[i].text.ptr, fields[i].quoted ? "]" : "");
    return text;
}

static void rows_end_with_any_line_end_or_none(void **state)
{
    (void)state;
    start("a,b\r\nc,d\ne,f\rg,h", (dz_csv_options){0});
    assert_string_equal(next(), "a|b");
    assert_string_equal(next(), "c|d");
    assert_string_equal(next(), "e|f");
    assert_string_equal(next(), "g|h");
    assert_string_equal(next(), "(end)");
    assert_string_equal(next(), "(end)");
    start("", (dz_csv_options){0});
    assert_string_equal(next(), "(end)");
}

static void quotes_hold_separators_line_ends_and_doubled_quotes(void **state)
{
    (void)state;
    start("\"a;b\";\"line 1\r\nline 2\";\"say \"\"hi\"\"\"\r\n\"\";;\"\"\"\"",
          (dz_csv_options){.separator = ';'});
    assert_string_equal(next(), "[a;b]|[line 1\r\nline 2]|[say \"\"hi\"\"]");
    assert_false(dz_csv_needs_unescape(&fields[0]));
    assert_true(dz_csv_needs_unescape(&fields[2]));
    char value[32];
    assert_slice(dz_slice_make(value, dz_csv_unescape(&fields[2], value)), "say \"hi\"");
    assert_string_equal(next(), "[]||[\"\"]");
    assert_slice(dz_slice_make(value, dz_csv_unescape(&fields[2], value)), "\"");
    assert_int_equal(dz_csv_unescape(&fields[1], value), 0);
    assert_string_equal(next(), "(end)");
}

static void rows_of_ascii_are_known_to_be(void **state)
{
    (void)state;
    static char text[100000];
    memset(text, 'x', sizeof text);
    for (size_t i = 50; i < sizeof text; i += 50)
        text[i] = '\n';
    text[sizeof text / 2 + 10] = '\xc4';
    assert_int_equal(dz_csv_init(&csv, dz_slice_make(text, sizeof text), NULL), 0);
    size_t known = 0;
    while (dz_csv_next(&csv, &row) > 0) {
        known += row.ascii;
        assert_false(row.ascii && row.start <= sizeof text / 2 + 10 && row.end > sizeof text / 2);
    }
    assert_in_range(known, 500, 1999); /* most are; none near the other one */
}

static void empty_fields_and_blank_lines_are_told_apart(void **state)
{
    (void)state;
    start(",\n\n\"\"\n,", (dz_csv_options){.ragged = true});
    assert_string_equal(next(), "|");
    assert_string_equal(next(), "");
    assert_int_equal(row.count, 0);
    assert_string_equal(next(), "[]");
    assert_int_equal(row.count, 1);
    assert_string_equal(next(), "|");
    assert_string_equal(next(), "(end)");
}

static void a_byte_order_mark_is_no_part_of_the_first_field(void **state)
{
    (void)state;
    start("\xef\xbb\xbf\"a\",b\n", (dz_csv_options){0});
    assert_string_equal(next(), "[a]|b");
    assert_int_equal(dz_csv_where(&csv, row.start).column, 1);
    start("\xef\xbb\xbf", (dz_csv_options){0});
    assert_string_equal(next(), "(end)");
}

static void assert_problem(dz_csv_problem problem, uint64_t line, uint64_t column)
{
    assert_int_equal(row.problem, problem);
    dz_csv_place place = dz_csv_where(&csv, row.problem_at);
    assert_int_equal(place.line, line);
    assert_int_equal(place.column, column);
}

static void a_lenient_reader_gets_malformed_fields_as_they_stand(void **state)
{
    (void)state;
    start("a,b\nx,5\" pipe\n\"p\"q,r\n1,\"u\nv", (dz_csv_options){0});
    assert_string_equal(next(), "a|b");
    assert_int_equal(row.problem, DZ_CSV_OK);
    assert_string_equal(next(), "x|5\" pipe");
    assert_problem(DZ_CSV_STRAY_QUOTE, 2, 4);
    assert_string_equal(next(), "\"p\"q|r");
    assert_problem(DZ_CSV_AFTER_QUOTE, 3, 4);
    assert_string_equal(next(), "1|\"u\nv");
    assert_problem(DZ_CSV_UNCLOSED_QUOTE, 4, 3);
    assert_string_equal(next(), "(end)");
}

static void a_strict_reader_gets_an_error_and_may_go_on(void **state)
{
    (void)state;
    start("a,b\n1,2,3\n4\n5,6\n", (dz_csv_options){.strict = true});
    assert_string_equal(next(), "a|b");
    assert_int_equal(dz_csv_next(&csv, &row), DZ_E_FORMAT);
    assert_int_equal(row.count, 3);
    assert_problem(DZ_CSV_RAGGED, 2, 1);
    assert_int_equal(dz_csv_next(&csv, &row), DZ_E_FORMAT);
    assert_problem(DZ_CSV_RAGGED, 3, 1);
    assert_string_equal(next(), "5|6");
    assert_string_equal(next(), "(end)");
}

static void fields_beyond_the_room_are_counted_and_can_be_read_again(void **state)
{
    (void)state;
    start("h\n1,2,3,4,5,6,7,8,9,10\nx", (dz_csv_options){.ragged = true});
    next();
    assert_int_equal(dz_csv_next(&csv, &row), 1);
    assert_int_equal(row.count, 10);
    dz_csv_field more[10];
    row.fields = more;
    row.cap = 10;
    dz_csv_seek(&csv, row.start);
    assert_int_equal(dz_csv_next(&csv, &row), 1);
    assert_slice(more[9].text, "10");
    assert_int_equal(dz_csv_next(&csv, &row), 1);
    assert_slice(more[0].text, "x");
}

static void places_are_found_in_any_order(void **state)
{
    (void)state;
    const char *text = "ab\r\nc\rd\n\n\re\r\n";
    start(text, (dz_csv_options){0});
    size_t len = strlen(text);
    for (size_t i = 0; i < 3 * (len + 1); i++) {
        size_t at = i * 5 % (len + 1);
        dz_csv_place place = dz_csv_where(&csv, at), expected = reference_where(text, len, at);
        assert_int_equal(place.line, expected.line);
        assert_int_equal(place.column, expected.column);
    }
}

static void impossible_separators_are_refused(void **state)
{
    (void)state;
    assert_int_equal(dz_csv_init(&csv, DZ_LIT("a"), &(dz_csv_options){.separator = '"'}),
                     DZ_E_INVALID);
    assert_int_equal(dz_csv_init(&csv, DZ_LIT("a"), &(dz_csv_options){.separator = '\n'}),
                     DZ_E_INVALID);
    assert_int_equal(dz_csv_init(&csv, DZ_LIT("a"), &(dz_csv_options){.separator = '\r'}),
                     DZ_E_INVALID);
    assert_int_equal(dz_csv_init(&csv, DZ_LIT("a"), NULL), 0);
}

/* The thread sanitizer has nothing to find in one thread's work, and takes many times as long. */
#ifdef DZ_TSAN
enum { RANDOM_INPUTS = 600, LONG_INPUTS = 4 };
#else
enum { RANDOM_INPUTS = 3000, LONG_INPUTS = 20 };
#endif

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    return *seed ^= *seed << 17;
}

/* Mostly harmless bytes in some inputs, mostly dangerous ones in others. */
static void fill(char *data, size_t len, uint64_t *seed, unsigned plain)
{
    static const char special[] = ";\"\"\n\r\"";
    for (size_t i = 0; i < len; i++) {
        uint64_t r = next_random(seed) >> 20;
        data[i] =
            r % 100 < plain ? (r % 4096 ? 'a' : '\xc4') : special[r / 128 % (sizeof special - 1)];
    }
}

static void random_input_means_what_the_reference_says(void **state)
{
    (void)state;
    uint64_t seed = 7;
    static char data[20000];
    for (int i = 0; i < RANDOM_INPUTS; i++) {
        static const unsigned plain[] = {0, 30, 60, 80, 95, 99};
        size_t len = next_random(&seed) % (i % 100 == 0 ? sizeof data : 300);
        fill(data, len, &seed, plain[i % 6]);
        assert_true(reference_agrees(data, len, ';'));
        assert_true(reference_kernels_agree(data, len, ';'));
    }
}

/* Well-formed input, so that the index runs on for long, with quotes anywhere. */
static void well_formed_random_input_has_no_problems(void **state)
{
    (void)state;
    uint64_t seed = 11;
    static char data[60000];
    for (unsigned i = 0; i < LONG_INPUTS; i++) {
        size_t len = 0;
        while (len < sizeof data - 300) {
            for (int field = 0; field < 4; field++) {
                bool quoted = next_random(&seed) % 3 == 0;
                data[len] = '"';
                len += quoted;
                for (uint64_t n = (next_random(&seed) >> 30) % 40; n > 0; n--) {
                    static const char inside[] = "x;\n\ry";
                    data[len++] = quoted ? inside[n % 5] : 'z';
                    memcpy(data + len, "\"\"", 2);
                    len += quoted && n % 7 == 0 ? 2u : 0u;
                }
                data[len] = '"';
                len += quoted;
                data[len++] = field < 3 ? ';' : '\r';
            }
            data[len] = '\n';
            len += i % 2;
        }
        assert_true(reference_agrees(data, len, ';'));
        assert_true(reference_kernels_agree(data, len, ';'));
        start("", (dz_csv_options){0});
        assert_int_equal(dz_csv_init(&csv, dz_slice_make(data, len),
                                     &(dz_csv_options){.separator = ';', .strict = true}),
                         0);
        int rc;
        while ((rc = dz_csv_next(&csv, &row)) == 1)
            assert_int_equal(row.count, 4);
        assert_int_equal(rc, 0);
    }
}

/* The page behind the input can't be read, so reading past its end ends the test. */
static void nothing_behind_the_input_is_read(void **state)
{
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    assert_int_equal(mprotect(memory + page, page, PROT_NONE), 0);
    uint64_t seed = 3;
    for (size_t len = 0; len < 200; len++) {
        char *data = memory + page - len;
        fill(data, len, &seed, 70);
        assert_true(reference_agrees(data, len, ';'));
        assert_true(reference_kernels_agree(data, len, ';'));
    }
    munmap(memory, 2 * page);
}

/* Malformed fields are read by hand one at a time; that must not start over from the beginning. */
static void malformed_input_takes_linear_time(void **state)
{
    (void)state;
    static const char *const patterns[] = {"\"a\"b;", "a\"b;", "\"", "\"\"a", "\"a\n"};
    enum { LEN = 1 << 20 };
    char *data = malloc(LEN);
    assert_non_null(data);
    for (size_t p = 0; p < sizeof patterns / sizeof patterns[0]; p++) {
        size_t n = strlen(patterns[p]), seen = 0;
        for (size_t i = 0; i < LEN; i++)
            data[i] = patterns[p][i % n];
        row = (dz_csv_row){.fields = fields, .cap = 8};
        dz_csv_init(&csv, dz_slice_make(data, LEN), &(dz_csv_options){.separator = ';'});
        while (dz_csv_next(&csv, &row) == 1)
            seen++;
        assert_true(seen > 0);
    }
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_end_with_any_line_end_or_none),
        cmocka_unit_test(quotes_hold_separators_line_ends_and_doubled_quotes),
        cmocka_unit_test(rows_of_ascii_are_known_to_be),
        cmocka_unit_test(empty_fields_and_blank_lines_are_told_apart),
        cmocka_unit_test(a_byte_order_mark_is_no_part_of_the_first_field),
        cmocka_unit_test(a_lenient_reader_gets_malformed_fields_as_they_stand),
        cmocka_unit_test(a_strict_reader_gets_an_error_and_may_go_on),
        cmocka_unit_test(fields_beyond_the_room_are_counted_and_can_be_read_again),
        cmocka_unit_test(places_are_found_in_any_order),
        cmocka_unit_test(impossible_separators_are_refused),
        cmocka_unit_test(random_input_means_what_the_reference_says),
        cmocka_unit_test(well_formed_random_input_has_no_problems),
        cmocka_unit_test(nothing_behind_the_input_is_read),
        cmocka_unit_test(malformed_input_takes_linear_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
