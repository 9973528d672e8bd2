#include "../check.h"

#include <donmaz/json.h>

#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>

static dz_buf out;
static dz_json json;

static void start(unsigned options)
{
    dz_buf_release(&out);
    dz_json_init(&json, &out, options);
}

#define assert_written(text)                                                                       \
    do {                                                                                           \
        assert_int_equal(dz_json_finish(&json), 0);                                                \
        assert_slice(dz_buf_slice(&out), text);                                                    \
    } while (0)

static void commas_colons_and_nesting_are_kept_right(void **state)
{
    (void)state;
    start(0);
    dz_json_object_open(&json);
    dz_json_key(&json, "empty");
    dz_json_array_open(&json);
    dz_json_array_close(&json);
    dz_json_key(&json, "list");
    dz_json_array_open(&json);
    dz_json_int(&json, -1);
    dz_json_bool(&json, true);
    dz_json_null(&json);
    dz_json_object_open(&json);
    dz_json_object_close(&json);
    dz_json_object_open(&json);
    dz_json_key_slice(&json, DZ_LIT("a\"b"));
    dz_json_raw(&json, DZ_LIT("[1]"));
    dz_json_object_close(&json);
    dz_json_array_close(&json);
    dz_json_key(&json, "last");
    dz_json_bool(&json, false);
    dz_json_object_close(&json);
    assert_written("{\"empty\":[],\"list\":[-1,true,null,{},{\"a\\\"b\":[1]}],\"last\":false}");
}

static void strings_are_escaped_wherever_the_special_byte_stands(void **state)
{
    (void)state;
    char text[64], expected[80];
    for (size_t len = 1; len < 50; len++)
        for (size_t at = 0; at < len; at++) {
            memset(text, 'x', len);
            text[at] = '\n';
            start(0);
            dz_json_string(&json, dz_slice_make(text, len));
            int n = snprintf(expected, sizeof expected, "\"%.*s\\n%.*s\"", (int)at, text,
                             (int)(len - at - 1), text + at + 1);
            assert_int_equal(dz_json_finish(&json), 0);
            assert_int_equal(out.len, n);
            assert_memory_equal(out.data, expected, out.len);
        }
    start(0);
    dz_json_string(&json, dz_slice_make("\0\x1f\"\\/\b\f\n\r\t\x7f", 11));
    assert_written("\"\\u0000\\u001f\\\"\\\\/\\b\\f\\n\\r\\t\x7f\"");
    start(0);
    dz_json_string(&json, (dz_slice){NULL, 0});
    assert_written("\"\"");
}

typedef struct utf8_case {
    const char *bytes, *replaced;
} utf8_case;

#define FFFD "\xef\xbf\xbd"

/* The replacements are those of the Unicode Standard's "substitution of maximal subparts". */
static void malformed_utf8_is_replaced_or_refused(void **state)
{
    (void)state;
    static const utf8_case cases[] = {
        {"\x80", FFFD},
        {"a\xc0\xaf", "a" FFFD FFFD},
        {"\xe0\x80\xaf.", FFFD FFFD FFFD "."},
        {"\xed\xa0\x80", FFFD FFFD FFFD},
        {"\xf0\x90\x80", FFFD},
        {"\xf0\x8f\xbf\xbf", FFFD FFFD FFFD FFFD},
        {"\xf4\x90\x80\x80", FFFD FFFD FFFD FFFD},
        {"\xf5\xff", FFFD FFFD},
        {"\xe2\x82", FFFD},
        {"\xe2\x82"
         "a",
         FFFD "a"},
        {"\xc3\xbc\xe2\x82\xc3\xbc", "\xc3\xbc" FFFD "\xc3\xbc"},
        {"0123456789abcdef\xf1\x80\x80\xe1\x80\xc2"
         "b",
         "0123456789abcdef" FFFD FFFD FFFD "b"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char expected[80];
        snprintf(expected, sizeof expected, "\"%s\"", cases[i].replaced);
        start(0);
        dz_json_string(&json, dz_slice_of(cases[i].bytes));
        assert_written(expected);
        start(DZ_JSON_STRICT_UTF8);
        dz_json_string(&json, dz_slice_of(cases[i].bytes));
        assert_int_equal(dz_json_finish(&json), DZ_E_FORMAT);
    }
}

static void well_formed_utf8_is_kept(void **state)
{
    (void)state;
    start(DZ_JSON_STRICT_UTF8);
    dz_json_string(
        &json,
        DZ_LIT("\xc2\x80\u07ff\u0800\xed\x9f\xbf\xee\x80\x80\uffff\U00010000\U0010ffff \u015f"));
    assert_written(
        "\"\xc2\x80\u07ff\u0800\xed\x9f\xbf\xee\x80\x80\uffff\U00010000\U0010ffff \u015f\"");
}

static void integers_reach_both_ends(void **state)
{
    (void)state;
    start(0);
    dz_json_array_open(&json);
    dz_json_int(&json, INT64_MIN);
    dz_json_int(&json, INT64_MAX);
    dz_json_int(&json, 0);
    dz_json_uint(&json, UINT64_MAX);
    dz_json_array_close(&json);
    assert_written("[-9223372036854775808,9223372036854775807,0,18446744073709551615]");
}

static const char *double_text(double value)
{
    start(0);
    dz_json_double(&json, value);
    assert_int_equal(dz_json_finish(&json), 0);
    assert_int_equal(dz_buf_append(&out, dz_slice_make("", 1)), 0);
    return out.data;
}

/* Expected texts are those of JavaScript's JSON.stringify. */
static void doubles_are_written_as_javascript_does(void **state)
{
    (void)state;
    assert_string_equal(double_text(0), "0");
    assert_string_equal(double_text(-0.0), "-0"); /* the one exception */
    assert_string_equal(double_text(1), "1");
    assert_string_equal(double_text(-12.34), "-12.34");
    assert_string_equal(double_text(0.1), "0.1");
    assert_string_equal(double_text(0.1 + 0.2), "0.30000000000000004");
    assert_string_equal(double_text(1.0 / 3), "0.3333333333333333");
    assert_string_equal(double_text(100), "100");
    assert_string_equal(double_text(1e20), "100000000000000000000");
    assert_string_equal(double_text(1e21), "1e+21");
    assert_string_equal(double_text(1.5e300), "1.5e+300");
    assert_string_equal(double_text(1e-6), "0.000001");
    assert_string_equal(double_text(1e-7), "1e-7");
    assert_string_equal(double_text(123456789012345680.0), "123456789012345680");
    assert_string_equal(double_text(9007199254740993.0), "9007199254740992");
    assert_string_equal(double_text(DBL_MAX), "1.7976931348623157e+308");
    assert_string_equal(double_text(DBL_MIN), "2.2250738585072014e-308");
    assert_string_equal(double_text(5e-324), "5e-324");
    assert_string_equal(double_text(0x1p-44), "5.684341886080802e-14");
    assert_string_equal(double_text(0x1p89), "6.189700196426902e+26");
    assert_string_equal(double_text(NAN), "null");
    assert_string_equal(double_text(-INFINITY), "null");
}

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    return *seed ^= *seed << 17;
}

static void any_double_reads_back_the_same(void **state)
{
    (void)state;
    uint64_t seed = 20261130;
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = next_random(&seed);
        double value;
        if (i % 3 == 0)
            value = (double)(int64_t)(bits % 2000000000) / 10000;
        else if (i % 3 == 1)
            value = ldexp(1, (int)(bits % 2098) - 1074);
        else
            memcpy(&value, &bits, sizeof value);
        const char *text = double_text(value);
        if (isfinite(value))
            assert_true(strtod(text, NULL) == value);
        else
            assert_string_equal(text, "null");
    }
}

static void calls_out_of_order_stick_as_an_error(void **state)
{
    (void)state;
    start(0);
    assert_int_equal(dz_json_finish(&json), DZ_E_STATE);
    start(0);
    dz_json_int(&json, 1);
    dz_json_int(&json, 2);
    assert_int_equal(dz_json_finish(&json), DZ_E_STATE);
    start(0);
    dz_json_object_open(&json);
    dz_json_int(&json, 2);
    assert_int_equal(dz_json_finish(&json), DZ_E_STATE);
    start(0);
    dz_json_array_open(&json);
    dz_json_key(&json, "a");
    assert_int_equal(dz_json_finish(&json), DZ_E_STATE);
    start(0);
    dz_json_array_open(&json);
    dz_json_object_close(&json);
    dz_json_array_close(&json);
    assert_int_equal(dz_json_finish(&json), DZ_E_STATE);
    start(0);
    dz_json_object_open(&json);
    dz_json_key(&json, "a");
    dz_json_key(&json, "b");
    assert_int_equal(dz_json_finish(&json), DZ_E_STATE);
    start(0);
    dz_json_object_open(&json);
    dz_json_key(&json, "a");
    dz_json_object_close(&json);
    assert_int_equal(dz_json_finish(&json), DZ_E_STATE);
    start(0);
    dz_json_array_close(&json);
    assert_int_equal(dz_json_finish(&json), DZ_E_STATE);
    start(0);
    dz_json_array_open(&json);
    assert_int_equal(dz_json_finish(&json), DZ_E_STATE);
}

static void depth_is_limited(void **state)
{
    (void)state;
    start(0);
    for (int i = 0; i < DZ_JSON_DEPTH; i++)
        dz_json_array_open(&json);
    for (int i = 0; i < DZ_JSON_DEPTH; i++)
        dz_json_array_close(&json);
    assert_int_equal(dz_json_finish(&json), 0);
    assert_int_equal(out.len, 2 * DZ_JSON_DEPTH);
    start(0);
    for (int i = 0; i <= DZ_JSON_DEPTH; i++)
        dz_json_array_open(&json);
    assert_int_equal(dz_json_finish(&json), DZ_E_TOO_LARGE);
}

static int grow_to_64(dz_buf *buf, size_t cap, void *context)
{
    (void)buf;
    *(int *)context += 1;
    return cap <= 64 ? 0 : DZ_E_NOMEM;
}

static void memory_of_the_callers_kind_is_used_and_its_end_reported(void **state)
{
    (void)state;
    char memory[64];
    int calls = 0;
    dz_buf fixed = {.data = memory, .cap = sizeof memory};
    dz_json_init_grow(&json, &fixed, 0, grow_to_64, &calls);
    dz_json_array_open(&json);
    for (int i = 0; i < 30; i++)
        dz_json_string(&json, DZ_LIT("0123456789"));
    dz_json_array_close(&json);
    assert_int_equal(dz_json_finish(&json), DZ_E_NOMEM);
    assert_int_equal(calls, 1); /* after an error nothing more is tried */
    assert_true(fixed.len <= 64);
}

static void a_borrowed_buffer_is_refused(void **state)
{
    (void)state;
    dz_buf borrowed = dz_buf_borrow(DZ_LIT("text"));
    dz_json_init(&json, &borrowed, 0);
    dz_json_int(&json, 1);
    assert_int_equal(dz_json_finish(&json), DZ_E_NOT_OWNED);
}

static void bytes_may_be_taken_out_between_calls(void **state)
{
    (void)state;
    start(0);
    dz_json_array_open(&json);
    char all[4096];
    size_t len = 0;
    for (int i = 0; i < 100; i++) {
        dz_json_int(&json, i);
        memcpy(all + len, out.data, out.len);
        len += out.len;
        out.len = 0;
    }
    dz_json_array_close(&json);
    assert_int_equal(dz_json_finish(&json), 0);
    all[len++] = ']';
    json_t *parsed = json_loadb(all, len, 0, NULL);
    assert_int_equal(json_array_size(parsed), 100);
    assert_int_equal(json_integer_value(json_array_get(parsed, 99)), 99);
    json_decref(parsed);
}

static void format_writes_numbers_and_whole_strings(void **state)
{
    (void)state;
    const char *volatile none = NULL;
    start(0);
    dz_json_format(&json, "{\"v\":%llu,\"n\":%s,\"none\":%s,\"d\":%f,\"p\":%.2f,\"pc\":\"%d%%\"}",
                   18446744073709551615ull, "a\"b", none, 0.1, 2.0 / 3, 50);
    assert_written(
        "{\"v\":18446744073709551615,\"n\":\"a\\\"b\",\"none\":null,\"d\":0.1,\"p\":0.67,"
        "\"pc\":\"50%\"}");
    start(0);
    dz_json_format(&json, "[%hhd,%hu,%ld,%zu,%zd,%jd,%td,%i,%c,%.*s,%.1s,%g,%.3e]", (signed char)-1,
                   (unsigned short)65535, -5L, (size_t)7, (ssize_t)-7, (intmax_t)8, (ptrdiff_t)-9,
                   10, 'c', 3, "abcdef", "xyz", (double)NAN, 12345.678);
    assert_written("[-1,65535,-5,7,-7,8,-9,10,\"c\",\"abc\",\"x\",null,1.235e+04]");
}

/* Whatever a string holds, it can't end the string it is put into. */
static void format_keeps_arguments_in_their_place(void **state)
{
    (void)state;
    start(0);
    dz_json_array_open(&json);
    dz_json_format(&json, "{\"link\":\"/users/%s?q=\\\"%s\\\"\"}", "1\",\"admin\":\"1", "\\");
    dz_json_format(&json, "%s", "\"]");
    dz_json_array_close(&json);
    assert_written("[{\"link\":\"/users/1\\\",\\\"admin\\\":\\\"1?q=\\\"\\\\\\\"\"},\"\\\"]\"]");
    json_t *parsed = json_loadb(out.data, out.len, 0, NULL);
    assert_non_null(parsed);
    json_decref(parsed);
}

/* The compiler refuses these in literals, and so does the writer at run time. */
static void format_refuses_what_it_cannot_write_safely(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "%x",   "%n",  "%p",   "%5d",   "%-d",  "%+d", "%05d", "%ls",  "%Lf", "%lld%",
        "%hhs", "%lc", "%.2d", "%llld", "%hld", "%b",  "\"a",  "\"%s", "%",   "%.99999999999s"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        start(0);
        const char *volatile format = bad[i];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
        dz_json_format(&json, format, "", "");
#pragma GCC diagnostic pop
        assert_int_equal(dz_json_finish(&json), DZ_E_INVALID);
    }
}

static int release(void **state)
{
    (void)state;
    dz_buf_release(&out);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_colons_and_nesting_are_kept_right),
        cmocka_unit_test(strings_are_escaped_wherever_the_special_byte_stands),
        cmocka_unit_test(malformed_utf8_is_replaced_or_refused),
        cmocka_unit_test(well_formed_utf8_is_kept),
        cmocka_unit_test(integers_reach_both_ends),
        cmocka_unit_test(doubles_are_written_as_javascript_does),
        cmocka_unit_test(any_double_reads_back_the_same),
        cmocka_unit_test(calls_out_of_order_stick_as_an_error),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(memory_of_the_callers_kind_is_used_and_its_end_reported),
        cmocka_unit_test(a_borrowed_buffer_is_refused),
        cmocka_unit_test(bytes_may_be_taken_out_between_calls),
        cmocka_unit_test(format_writes_numbers_and_whole_strings),
        cmocka_unit_test(format_keeps_arguments_in_their_place),
        cmocka_unit_test(format_refuses_what_it_cannot_write_safely),
    };
    return cmocka_run_group_tests(tests, NULL, release);
}
