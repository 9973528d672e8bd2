#include "../../check.h"

#include "load/response.h"

#include <stdio.h>

/* Feeds `text` in pieces of `step` bytes; *rest is how many bytes were not taken. */
static load_progress feed(load_response *r, const char *text, size_t step, size_t *rest)
{
    size_t len = strlen(text), at = 0;
    load_progress progress = LOAD_MORE;
    while (at < len && progress == LOAD_MORE) {
        size_t n = len - at < step ? len - at : step, used = 0;
        /* A copy of exact size, so that the sanitizers see any byte read beyond it. */
        char *piece = malloc(n);
        assert_non_null(piece);
        memcpy(piece, text + at, n);
        progress = load_response_feed(r, piece, n, &used);
        free(piece);
        assert_true(used <= n);
        at += used;
    }
    *rest = len - at;
    return progress;
}

static void any_cut_of_the_bytes_gives_the_same_response(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned status;
        bool close;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, false},
        {"HTTP/1.1 200 OK\r\ncontent-length:5\r\nConnection: foo, close\r\n\r\nhello", 200, true},
        {"HTTP/1.0 404 \r\nContent-Length: 0\r\n\r\n", 404, true},
        {"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n", 200, false},
        {"HTTP/1.1 204 No Content\r\n\r\n", 204, false},
        {"HTTP/1.1 304\r\nContent-Length: 77\r\n\r\n", 304, false},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\nx", 201,
         false},
        {"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", 200, false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
         "5\r\nhello\r\n00A;ext=\"1\"\r\n0123456789\r\n0\r\n\r\n",
         200, false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\nA: b\r\nC: d\r\n\r\n", 200,
         false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t step = 1; step <= strlen(cases[i].text); step++) {
            load_response r = {0};
            size_t rest;
            assert_int_equal(feed(&r, cases[i].text, step, &rest), LOAD_DONE);
            assert_int_equal(rest, 0);
            assert_int_equal(r.status, cases[i].status);
            assert_int_equal(r.close, cases[i].close);
            assert_int_equal(r.bytes, strlen(cases[i].text));
            load_response_free(&r);
        }
    }
}

static void leaves_the_next_response_alone(void **state)
{
    (void)state;
    static const char first[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    static const char second[] = "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n";
    char both[sizeof first + sizeof second];
    snprintf(both, sizeof both, "%s%s", first, second);
    for (size_t step = 1; step <= sizeof both; step++) {
        load_response r = {0};
        size_t rest;
        assert_int_equal(feed(&r, both, step, &rest), LOAD_DONE);
        assert_int_equal(rest, strlen(second));
        load_response_reset(&r);
        assert_int_equal(feed(&r, second, step, &rest), LOAD_DONE);
        assert_int_equal(r.status, 500);
        load_response_free(&r);
    }
}

static void a_head_response_ends_with_its_head(void **state)
{
    (void)state;
    load_response r = {.head_only = true};
    size_t rest;
    assert_int_equal(feed(&r, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", 64, &rest),
                     LOAD_DONE);
    load_response_free(&r);
}

static void a_body_without_a_length_ends_with_the_stream(void **state)
{
    (void)state;
    load_response r = {0};
    size_t rest;
    assert_int_equal(feed(&r, "HTTP/1.1 200 OK\r\n\r\nany bytes", 7, &rest), LOAD_MORE);
    assert_true(r.close);
    assert_int_equal(load_response_end(&r), LOAD_DONE);
    load_response_reset(&r);
    assert_int_equal(feed(&r, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart", 64, &rest),
                     LOAD_MORE);
    assert_int_equal(load_response_end(&r), LOAD_BAD);
    load_response_reset(&r);
    assert_int_equal(feed(&r, "HTTP/1.1 200", 64, &rest), LOAD_MORE);
    assert_int_equal(load_response_end(&r), LOAD_BAD);
    load_response_free(&r);
}

static void what_is_no_response_is_called_by_its_fault(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        load_fault fault;
    } cases[] = {
        {"SSH-2.0-OpenSSH", LOAD_FAULT_NOT_HTTP},
        {"\r\nHTTP/1.1 200 OK\r\n\r\n", LOAD_FAULT_NOT_HTTP},
        {"HTTP/2.0 200 OK\r\n\r\n", LOAD_FAULT_NOT_HTTP},
        {"HTTP/1.1 20 OK\r\n\r\n", LOAD_FAULT_NOT_HTTP},
        {"HTTP/1.1 2000 OK\r\n\r\n", LOAD_FAULT_NOT_HTTP},
        {"HTTP/1.1 099 OK\r\n\r\n", LOAD_FAULT_NOT_HTTP},
        {"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", LOAD_FAULT_FIELD},
        {"HTTP/1.1 200 OK\r\n: no name\r\n\r\n", LOAD_FAULT_FIELD},
        {"HTTP/1.1 200 OK\r\nA : b\r\n\r\n", LOAD_FAULT_FIELD},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", LOAD_FAULT_LENGTH},
        {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", LOAD_FAULT_LENGTH},
        {"HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n", LOAD_FAULT_LENGTH},
        {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", LOAD_FAULT_LENGTH},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
         LOAD_FAULT_LENGTH},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", LOAD_FAULT_ENCODING},
        {"HTTP/1.1 101 Switching\r\n\r\n", LOAD_FAULT_UPGRADE},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz", LOAD_FAULT_CHUNK},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n;a\r\n", LOAD_FAULT_CHUNK},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxy", LOAD_FAULT_CHUNK},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
         LOAD_FAULT_CHUNK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t step = 1; step <= strlen(cases[i].text); step++) {
            load_response r = {0};
            size_t rest;
            assert_int_equal(feed(&r, cases[i].text, step, &rest), LOAD_BAD);
            assert_int_equal(r.fault, cases[i].fault);
            assert_true(strlen(load_fault_text(r.fault)) > 3);
            load_response_free(&r);
        }
    }
}

static void an_endless_head_is_cut_off(void **state)
{
    (void)state;
    load_response r = {0};
    size_t used;
    static const char start[] = "HTTP/1.1 200 OK\r\n", field[] = "X-Filler: 0123456789\r\n";
    assert_int_equal(load_response_feed(&r, start, sizeof start - 1, &used), LOAD_MORE);
    load_progress progress = LOAD_MORE;
    for (size_t i = 0; i < 20000 && progress == LOAD_MORE; i++)
        progress = load_response_feed(&r, field, sizeof field - 1, &used);
    assert_int_equal(progress, LOAD_BAD);
    assert_int_equal(r.fault, LOAD_FAULT_TOO_LARGE);
    load_response_free(&r);
}

static void compares_bodies_across_cuts_and_chunks(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool mismatch;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhellO", true},
        {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhell", true},
        {"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello!", true},
        {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
         false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t step = 1; step <= strlen(cases[i].text); step++) {
            load_response r = {.expected = DZ_LIT("hello")};
            size_t rest;
            assert_int_equal(feed(&r, cases[i].text, step, &rest), LOAD_DONE);
            assert_int_equal(r.mismatch, cases[i].mismatch);
            load_response_free(&r);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_cut_of_the_bytes_gives_the_same_response),
        cmocka_unit_test(leaves_the_next_response_alone),
        cmocka_unit_test(a_head_response_ends_with_its_head),
        cmocka_unit_test(a_body_without_a_length_ends_with_the_stream),
        cmocka_unit_test(what_is_no_response_is_called_by_its_fault),
        cmocka_unit_test(an_endless_head_is_cut_off),
        cmocka_unit_test(compares_bodies_across_cuts_and_chunks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
