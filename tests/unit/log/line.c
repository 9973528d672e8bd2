#include "../check.h"

#include "log/line.h"

#include <donmaz/error.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>

static dz_redact none;

static json_t *parse(dz_slice line)
{
    json_error_t error;
    assert_true(line.len > 0 && line.ptr[line.len - 1] == '\n');
    assert_null(memchr(line.ptr, '\n', line.len - 1));
    json_t *json =
        json_loadb(line.ptr, line.len - 1, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!json)
        fail_msg("%s in %.*s", error.text, (int)line.len, line.ptr);
    return json;
}

/* The line that `fields` make, in memory of `size` bytes. */
static dz_slice line_of(size_t size, const dz_redact *redact, const char *msg,
                        const dz_field *fields, size_t count)
{
    static char memory[20000];
    memset(memory, '#', sizeof memory);
    dz_line line;
    dz_line_init(&line, memory, size, msg, redact);
    dz_line_raw(&line, DZ_LIT("{\"level\":30"));
    for (size_t i = 0; i < count; i++)
        dz_line_field(&line, &fields[i]);
    dz_slice text = dz_line_finish(&line, msg);
    assert_true(text.len <= size);
    assert_int_equal(memory[size], '#');
    return text;
}

#define LINE(msg, ...)                                                                             \
    line_of(4096, &none, msg, (const dz_field[]){__VA_ARGS__},                                     \
            sizeof((const dz_field[]){__VA_ARGS__}) / sizeof(dz_field))

static void every_type_of_field(void **state)
{
    (void)state;
    assert_slice(
        LINE("hi", dz_field_str("s", "a"), dz_field_str("none", NULL), dz_field_int("i", -7),
             dz_field_int("min", INT64_MIN), dz_field_uint("u", UINT64_MAX),
             dz_field_double("d", 0.1), dz_field_double("nan", NAN), dz_field_bool("yes", true),
             dz_field_ms("ms", 1050000), dz_field_ms("whole", 3000000), dz_field_ms("ns", 1),
             dz_field_json("j", DZ_LIT("[1]")), dz_field_slice("sl", DZ_LIT("xy"))),
        "{\"level\":30,\"s\":\"a\",\"none\":null,\"i\":-7,\"min\":-9223372036854775808,"
        "\"u\":18446744073709551615,\"d\":0.1,\"nan\":null,\"yes\":true,\"ms\":1.05,\"whole\":3,"
        "\"ns\":0.000001,\"j\":[1],\"sl\":\"xy\",\"msg\":\"hi\"}\n");
    assert_slice(LINE(NULL, dz_field_error(DZ_E_TIMEOUT)),
                 "{\"level\":30,\"err\":{\"type\":\"DZ_E_TIMEOUT\",\"message\":\"timed out\","
                 "\"code\":-5007}}\n");
}

static void groups_nest_and_are_closed_at_the_end(void **state)
{
    (void)state;
    assert_slice(LINE("m", dz_field_group("a"), dz_field_int("x", 1), dz_field_group("b"),
                      dz_field_end(), dz_field_end(), dz_field_end(), dz_field_int("y", 2),
                      dz_field_group("open"), dz_field_int("z", 3)),
                 "{\"level\":30,\"a\":{\"x\":1,\"b\":{}},\"y\":2,\"open\":{\"z\":3},"
                 "\"msg\":\"m\"}\n");
    dz_field deep[12];
    for (size_t i = 0; i < 12; i++)
        deep[i] = dz_field_group("g");
    json_t *json = parse(line_of(4096, &none, "m", deep, 12));
    assert_true(json_is_true(json_object_get(json, "truncated")));
    json_decref(json);
}

static void any_bytes_come_out_as_valid_json(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 256; c++) {
        for (size_t at = 0; at < 20; at++) { /* in every place of the eight-byte steps */
            char text[20], expected[64];
            memset(text, 'x', sizeof text);
            text[at] = (char)c;
            json_t *json = parse(LINE("m", dz_field_slice("s", dz_slice_make(text, sizeof text))));
            const char *got = json_string_value(json_object_get(json, "s"));
            size_t len = json_string_length(json_object_get(json, "s"));
            snprintf(expected, sizeof expected, "%.*s", (int)at, "xxxxxxxxxxxxxxxxxxxx");
            if (c < 0x80) {
                assert_int_equal(len, sizeof text);
                assert_memory_equal(got, text, sizeof text);
            } else {
                assert_int_equal(len, sizeof text + 2);
                assert_memory_equal(got + at, "\xef\xbf\xbd", 3);
            }
            json_decref(json);
        }
    }
    assert_slice(LINE(NULL, dz_field_str("s", "\b\f\n\r\t\"\\\x01\x1f\x7f"
                                              "\xe2\x82\xac\xf0\x9f\x98\x80\xed\xa0\x80")),
                 "{\"level\":30,\"s\":\"\\b\\f\\n\\r\\t\\\"\\\\\\u0001\\u001f\x7f"
                 "\xe2\x82\xac\xf0\x9f\x98\x80\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"}\n");
}

static void what_does_not_fit_is_cut_and_the_line_stays_valid(void **state)
{
    (void)state;
    static char big[30000];
    for (size_t fill = 0; fill < 256; fill += 3) {
        memset(big, (int)fill, sizeof big);
        for (size_t len = 0; len < sizeof big; len = len * 3 / 2 + 1) {
            char msg[2000];
            memset(msg, '"', sizeof msg - 1);
            msg[len < sizeof msg ? len : sizeof msg - 1] = '\0';
            const dz_field fields[] = {dz_field_group("g"),
                                       dz_field_slice("a", dz_slice_make(big, len)),
                                       dz_field_group("h"),
                                       dz_field_int("n", 1),
                                       dz_field_end(),
                                       dz_field_slice("b", dz_slice_make(big, len)),
                                       dz_field_end(),
                                       dz_field_uint("after", 12345678),
                                       dz_field_json("j", DZ_LIT("{\"k\":[1,2,3]}"))};
            json_t *json = parse(line_of(DZ_LINE_MIN, &none, msg, fields, 9));
            assert_non_null(json_object_get(json, "msg"));
            bool fits = len < 30;
            if (fits)
                assert_non_null(json_object_get(json, "after"));
            if (len > DZ_LINE_MIN)
                assert_true(json_is_true(json_object_get(json, "truncated")));
            json_decref(json);
        }
    }
}

static void a_cut_text_ends_between_characters(void **state)
{
    (void)state;
    for (size_t room = 2; room < 40; room++) {
        char out[64];
        bool cut = false;
        char *end =
            dz_escape(out, room, DZ_LIT("\xe2\x82\xac\xe2\x82\xac\n\n\xf0\x9f\x98\x80"), &cut);
        assert_true((size_t)(end - out) <= room);
        json_t *json = json_loadb(out, (size_t)(end - out), JSON_DECODE_ANY, NULL);
        assert_non_null(json);
        json_decref(json);
        assert_int_equal(cut, room < 16);
    }
}

static void listed_fields_are_redacted(void **state)
{
    (void)state;
    const char *const rules[] = {"password", "req.headers.cookie", "*.token"};
    dz_redact redact;
    assert_int_equal(dz_redact_init(&redact, rules, 3), 0);
    const dz_field fields[] = {dz_field_str("password", "p1"), dz_field_int("token", 5),
                               dz_field_group("req"),          dz_field_str("password", "kept"),
                               dz_field_group("headers"),      dz_field_str("cookie", "c"),
                               dz_field_str("token", "t"),     dz_field_end(),
                               dz_field_str("cookie", "kept"), dz_field_end()};
    assert_slice(line_of(4096, &redact, NULL, fields, 10),
                 "{\"level\":30,\"password\":\"[Redacted]\",\"token\":\"[Redacted]\","
                 "\"req\":{\"password\":\"kept\",\"headers\":{\"cookie\":\"[Redacted]\","
                 "\"token\":\"[Redacted]\"},\"cookie\":\"kept\"}}\n");
    dz_redact_close(&redact);
}

static void listed_query_parameters_are_redacted(void **state)
{
    (void)state;
    const char *const rules[] = {"?token", "?key"};
    dz_redact redact;
    assert_int_equal(dz_redact_init(&redact, rules, 2), 0);
    static const struct {
        const char *url, *shown;
    } cases[] = {{"/a?token=1&b=2", "/a?token=[Redacted]&b=2"},
                 {"/a?b=2&key=&token=x", "/a?b=2&key=[Redacted]&token=[Redacted]"},
                 {"/token=1", "/token=1"},
                 {"/a?tokens=1&x&token", "/a?tokens=1&x&token"},
                 {"/a?x=token=1", "/a?x=token=1"},
                 {"/a&key=1?key=2", "/a&key=1?key=[Redacted]"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char memory[4096];
        dz_line line;
        dz_line_init(&line, memory, sizeof memory, NULL, &redact);
        dz_line_raw(&line, DZ_LIT("{\"level\":30"));
        dz_line_url(&line, "url", dz_slice_of(cases[i].url));
        json_t *json = parse(dz_line_finish(&line, NULL));
        assert_string_equal(json_string_value(json_object_get(json, "url")), cases[i].shown);
        json_decref(json);
    }
    static char huge[9000];
    memset(huge, 'a', sizeof huge);
    dz_slice url = dz_slice_make(huge, sizeof huge);
    char memory[16000];
    dz_line line;
    dz_line_init(&line, memory, sizeof memory, NULL, &redact);
    dz_line_raw(&line, DZ_LIT("{\"level\":30"));
    dz_line_url(&line, "url", url);
    json_decref(parse(dz_line_finish(&line, NULL)));
    dz_redact_close(&redact);
}

static void digits_of_any_number(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 2000000; n += n / 97 + 1) {
        char got[24], expected[24];
        *dz_digits(got, n) = '\0';
        snprintf(expected, sizeof expected, "%llu", (unsigned long long)n);
        assert_string_equal(got, expected);
    }
    char got[24];
    *dz_digits(got, UINT64_MAX) = '\0';
    assert_string_equal(got, "18446744073709551615");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_of_field),
        cmocka_unit_test(groups_nest_and_are_closed_at_the_end),
        cmocka_unit_test(any_bytes_come_out_as_valid_json),
        cmocka_unit_test(what_does_not_fit_is_cut_and_the_line_stays_valid),
        cmocka_unit_test(a_cut_text_ends_between_characters),
        cmocka_unit_test(listed_fields_are_redacted),
        cmocka_unit_test(listed_query_parameters_are_redacted),
        cmocka_unit_test(digits_of_any_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
