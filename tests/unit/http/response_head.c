#include "../check.h"

#include "http/response_head.h"

#include <stdio.h>

static void write_to(char *out, size_t cap, const dz_response_head *head, const char *want)
{
    int len = dz_response_head_write(out, cap, head);
    assert_true(len > 0);
    assert_slice(dz_slice_make(out, (size_t)len), want);
    assert_true((size_t)len <= dz_response_head_bound(head));
}

static void writes_the_whole_head(void **state)
{
    (void)state;
    char out[512];
    dz_header headers[] = {{DZ_LIT("ETag"), DZ_LIT("\"a\tb\"")}, {DZ_LIT("X-Empty"), DZ_LIT("")}};
    dz_response_head head = {.status = 200,
                             .body = DZ_BODY_LENGTH,
                             .content_length = 11,
                             .date = DZ_LIT("Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"),
                             .content_type = DZ_LIT("text/plain"),
                             .headers = headers,
                             .header_count = 2};
    write_to(
        out, sizeof out, &head,
        "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Type: text/plain\r\n"
        "ETag: \"a\tb\"\r\nX-Empty: \r\nContent-Length: 11\r\n\r\n");
    head = (dz_response_head){.status = 404, .body = DZ_BODY_CHUNKED, .persist = DZ_PERSIST_CLOSE};
    write_to(out, sizeof out, &head,
             "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
    head = (dz_response_head){.status = 299, .persist = DZ_PERSIST_KEEP_ALIVE};
    write_to(out, sizeof out, &head, "HTTP/1.1 299 \r\nConnection: keep-alive\r\n\r\n");
}

static void bodiless_statuses_carry_no_length(void **state)
{
    (void)state;
    char out[512];
    dz_response_head head = {.status = 204, .body = DZ_BODY_LENGTH};
    write_to(out, sizeof out, &head, "HTTP/1.1 204 No Content\r\n\r\n");
    head.body = DZ_BODY_CHUNKED;
    write_to(out, sizeof out, &head, "HTTP/1.1 204 No Content\r\n\r\n");
    head.status = 100;
    write_to(out, sizeof out, &head, "HTTP/1.1 100 Continue\r\n\r\n");
    head.status = 304;
    write_to(out, sizeof out, &head, "HTTP/1.1 304 Not Modified\r\n\r\n");
    head.body = DZ_BODY_LENGTH;
    head.content_length = 5; /* what a 200 would have had (RFC 9110 8.6) */
    write_to(out, sizeof out, &head, "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n");
}

static int write_field(dz_slice name, dz_slice value)
{
    char out[512];
    dz_header header = {name, value};
    dz_response_head head = {.status = 200, .headers = &header, .header_count = 1};
    return dz_response_head_write(out, sizeof out, &head);
}

static void text_that_would_split_the_response_is_refused(void **state)
{
    (void)state;
    static const char controls[] = {'\r', '\n', '\0', '\v', 0x7f, 0x1b};
    for (size_t i = 0; i < sizeof controls; i++) {
        char value[] = "some value that is longer than a vector";
        for (size_t at = 0; at < sizeof value - 1; at++) {
            char kept = value[at];
            value[at] = controls[i];
            assert_int_equal(write_field(DZ_LIT("X"), dz_slice_make(value, sizeof value - 1)),
                             DZ_E_INVALID);
            value[at] = kept;
        }
        char name[] = {'X', controls[i], 'Y'};
        assert_int_equal(write_field(dz_slice_make(name, 3), DZ_LIT("a")), DZ_E_INVALID);
        char out[256];
        dz_response_head head = {.status = 200, .content_type = {&controls[i], 1}};
        assert_int_equal(dz_response_head_write(out, sizeof out, &head), DZ_E_INVALID);
    }
    assert_int_equal(write_field(DZ_LIT(""), DZ_LIT("a")), DZ_E_INVALID);
    assert_int_equal(write_field(DZ_LIT("X Y"), DZ_LIT("a")), DZ_E_INVALID);
    assert_int_equal(write_field(DZ_LIT("X:"), DZ_LIT("a")), DZ_E_INVALID);
    assert_true(write_field(DZ_LIT("X"), DZ_LIT("\xc3\xa4")) > 0);
}

static void framing_fields_are_not_the_callers(void **state)
{
    (void)state;
    assert_int_equal(write_field(DZ_LIT("content-LENGTH"), DZ_LIT("5")), DZ_E_INVALID);
    assert_int_equal(write_field(DZ_LIT("Transfer-Encoding"), DZ_LIT("chunked")), DZ_E_INVALID);
    assert_int_equal(write_field(DZ_LIT("Connection"), DZ_LIT("close")), DZ_E_INVALID);
}

static void no_byte_is_written_beyond_the_room(void **state)
{
    (void)state;
    dz_header header = {DZ_LIT("X-Some-Name"), DZ_LIT("some value")};
    dz_response_head head = {.status = 431,
                             .body = DZ_BODY_LENGTH,
                             .persist = DZ_PERSIST_KEEP_ALIVE,
                             .content_length = UINT64_MAX,
                             .content_type = DZ_LIT("application/json"),
                             .headers = &header,
                             .header_count = 1};
    size_t bound = dz_response_head_bound(&head);
    for (size_t cap = 0; cap <= bound; cap++) {
        char *out = malloc(cap ? cap : 1); /* the address sanitizer watches its end */
        assert_non_null(out);
        int rc = dz_response_head_write(out, cap, &head);
        assert_true(cap < bound ? rc == DZ_E_TOO_LARGE : rc > 0);
        free(out);
    }
    header.value.len = SIZE_MAX - 3; /* only added up, never read */
    char out[64];
    assert_int_equal(dz_response_head_write(out, sizeof out, &head), DZ_E_TOO_LARGE);
}

static void every_reason_fits_and_unknown_codes_have_none(void **state)
{
    (void)state;
    for (int status = 100; status <= 999; status++) {
        char *out = NULL, want[128];
        dz_response_head head = {.status = status};
        size_t bound = dz_response_head_bound(&head);
        out = malloc(bound);
        assert_non_null(out);
        snprintf(want, sizeof want, "HTTP/1.1 %d %s\r\n\r\n", status, dz_status_reason(status));
        write_to(out, bound, &head, want);
        free(out);
    }
    assert_string_equal(dz_status_reason(404), "Not Found");
    assert_string_equal(dz_status_reason(299), "");
    char out[256];
    dz_response_head head = {.status = 99};
    assert_int_equal(dz_response_head_write(out, sizeof out, &head), DZ_E_INVALID);
    head.status = 1000;
    assert_int_equal(dz_response_head_write(out, sizeof out, &head), DZ_E_INVALID);
}

static void decimals_are_written_whole(void **state)
{
    (void)state;
    uint64_t n = 0;
    for (int i = 0; i < 64; i++, n = n * 2 + (i % 3 == 0)) {
        char got[DZ_DECIMAL_MAX], want[32];
        size_t len = dz_decimal_write(got, n);
        snprintf(want, sizeof want, "%llu", (unsigned long long)n);
        assert_slice(dz_slice_make(got, len), want);
    }
    char most[DZ_DECIMAL_MAX];
    assert_int_equal(dz_decimal_write(most, UINT64_MAX), 20);
    assert_slice(dz_slice_make(most, 20), "18446744073709551615");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_the_whole_head),
        cmocka_unit_test(bodiless_statuses_carry_no_length),
        cmocka_unit_test(text_that_would_split_the_response_is_refused),
        cmocka_unit_test(framing_fields_are_not_the_callers),
        cmocka_unit_test(no_byte_is_written_beyond_the_room),
        cmocka_unit_test(every_reason_fits_and_unknown_codes_have_none),
        cmocka_unit_test(decimals_are_written_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
