#include "../check.h"

#include "http/chunked.h"

#include <stdio.h>

enum { BODY_MAX = 64 * 1024 };

/* Decodes text given in steps of at most `step` bytes. The result of the last call; the payload in
 * body[0..*len), the bytes used in *used. */
static int decode(dz_slice text, size_t first, size_t step, char *body, size_t *len, size_t *used)
{
    dz_chunked decoder;
    dz_chunked_init(&decoder);
    size_t at = 0, given = first;
    *len = 0;
    for (;;) {
        size_t end = given < text.len ? given : text.len, took;
        char *copy = malloc(end - at + 1);
        assert_non_null(copy);
        memcpy(copy, text.ptr + at, end - at);
        dz_slice payload;
        int rc = dz_chunked_next(&decoder, copy, end - at, &took, &payload);
        assert_true(took <= end - at);
        if (payload.len > 0) {
            assert_true(*len + payload.len <= BODY_MAX);
            memcpy(body + *len, payload.ptr, payload.len);
            *len += payload.len;
        }
        free(copy);
        at += took;
        *used = at;
        if (rc == DZ_CHUNKED_DATA)
            continue;
        if (rc != DZ_CHUNKED_MORE || end == text.len)
            return rc;
        assert_int_equal(at, end); /* MORE: all was used */
        given = end + step;
    }
}

static int status_of(dz_slice text)
{
    static char body[BODY_MAX];
    size_t len, used;
    int whole = decode(text, text.len, 1, body, &len, &used);
    assert_int_equal(decode(text, 0, 1, body, &len, &used), whole);
    return whole;
}

static void the_body_is_the_same_cut_anywhere(void **state)
{
    (void)state;
    dz_slice text = DZ_LIT("5\r\nhello\r\n00000B;name=\"a;b\" ; x\r\n, the world\r\n1 ;y\r\n!\r\n"
                           "000\r\nX-Sum: 1\r\nY:\r\n\r\nGET");
    char body[64];
    for (size_t cut = 0; cut <= text.len; cut++)
        for (size_t step = 1; step <= 64; step += 9) {
            size_t len, used;
            assert_int_equal(decode(text, cut, step, body, &len, &used), DZ_CHUNKED_END);
            assert_slice(dz_slice_make(body, len), "hello, the world!");
            assert_int_equal(used, text.len - 3);
        }
}

static void malformed_chunks_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\r\n",
        "x\r\n",
        "5x\r\n",
        "-5\r\n",
        "+5\r\n",
        "0x5\r\n",
        " 5\r\nhello\r\n",
        "5 \r\nhello",
        "5\nhello\r\n",
        "5\rhello\r\n",
        "5\r\nhello!\r\n",
        "5\r\nhello\n",
        "5\r\nhello\rx",
        "5;a\nx\r\n",
        "5;a\rb\r\n",
        "5;\x01\r\n",
        ";a\r\n",
        "0\r\n: y\r\n",
        "0\r\nX\r\n",
        "0\r\nX : y\r\n",
        "0\r\n X: y\r\n",
        "0\r\nX: y\n\r\n",
        "0\r\n\n",
        "0\r\n\rx",
        "0\n\r\n",
        "0\r\nX: \x7f\r\n",
        "5\r\n\r\nhello",
        "1\r\na\r\n\r\n",
        "0\r\nX: y\r\n z\r\n\r\n",
        "FFFFFFFFFFFFFFFF\r\n",
        "8000000000000000\r\n",
        "10000000000000000\r\n",
        "00000000000000005\r\n",
        "5 \t x\r\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(status_of(dz_slice_of(bad[i])), -400);
    }
    assert_int_equal(status_of(DZ_LIT("7fffffffffffffff\r\n")), DZ_CHUNKED_MORE);
}

static void an_extension_that_brings_no_payload_is_cut(void **state)
{
    (void)state;
    char line[DZ_CHUNK_EXTENSION_MAX + 16];
    memset(line, 'x', sizeof line);
    memcpy(line, "2;", 2);
    assert_int_equal(status_of(dz_slice_make(line, DZ_CHUNK_EXTENSION_MAX + 2)), DZ_CHUNKED_MORE);
    assert_int_equal(status_of(dz_slice_make(line, DZ_CHUNK_EXTENSION_MAX + 3)), -400);
}

static void small_extensions_add_up_unless_payload_pays_for_them(void **state)
{
    (void)state;
    static char dear[200 * 1024], fair[200 * 1024], body[BODY_MAX];
    size_t dear_len = 0, fair_len = 0, len, used;
    for (int i = 0; i < 300; i++) {
        dear_len += (size_t)snprintf(dear + dear_len, 100, "1;signature=0123456789\r\nx\r\n");
        fair_len +=
            (size_t)snprintf(fair + fair_len, 100, "20;signature=0123456789\r\n%032d\r\n", i);
    }
    assert_int_equal(status_of(dz_slice_make(dear, dear_len)), -400);
    assert_int_equal(decode(dz_slice_make(fair, fair_len), fair_len, 1, body, &len, &used),
                     DZ_CHUNKED_MORE);
    assert_int_equal(len, 300 * 32);
}

static void trailers_are_bounded(void **state)
{
    (void)state;
    static char text[3 * DZ_CHUNK_TRAILER_MAX];
    memset(text, 'x', sizeof text);
    memcpy(text, "0\r\nX: ", 6);
    assert_int_equal(status_of(dz_slice_make(text, 3 + DZ_CHUNK_TRAILER_MAX)), DZ_CHUNKED_MORE);
    assert_int_equal(status_of(dz_slice_make(text, 4 + DZ_CHUNK_TRAILER_MAX)), -431);
    memcpy(text, "0\r\n", 3);
    for (size_t at = 3; at + 5 <= sizeof text; at += 5)
        memcpy(text + at, "X:y\r\n", 5);
    assert_int_equal(status_of(dz_slice_make(text, sizeof text - 5)), -431);
}

static void headers_of_chunks_read_back(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1, 15, 16, 255, 256, 4096, 65535, 1 << 20, INT64_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char got[DZ_CHUNK_HEADER_MAX], want[32];
        size_t len = dz_chunk_header(got, sizes[i]);
        snprintf(want, sizeof want, "%llx\r\n", (unsigned long long)sizes[i]);
        assert_slice(dz_slice_make(got, len), want);
    }
    char most[DZ_CHUNK_HEADER_MAX];
    assert_int_equal(dz_chunk_header(most, UINT64_MAX), DZ_CHUNK_HEADER_MAX);
    assert_int_equal(status_of(DZ_LIT(DZ_CHUNK_LAST)), DZ_CHUNKED_END);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_body_is_the_same_cut_anywhere),
        cmocka_unit_test(malformed_chunks_are_refused),
        cmocka_unit_test(an_extension_that_brings_no_payload_is_cut),
        cmocka_unit_test(small_extensions_add_up_unless_payload_pays_for_them),
        cmocka_unit_test(trailers_are_bounded),
        cmocka_unit_test(headers_of_chunks_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
