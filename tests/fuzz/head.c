/* A request head gives the same whole or in pieces, in any spelling of white space; what it shows
 * lies inside it; and what it calls valid holds no byte that another parser could end a line at. */
#include "fuzz.h"

#include "http/chars.h"
#include "http/head.h"
#include "http/scan.h"

enum { HEADERS_MAX = 12 };

static const dz_head_limits limits = {
    .line_max = 256, .head_max = 1024, .headers_max = HEADERS_MAX};

typedef struct result {
    dz_head head;
    dz_header headers[HEADERS_MAX];
    char *bytes;
    size_t len;
    int rc;
} result;

static void parse_whole(result *r, const void *bytes, size_t len)
{
    size_t scanned = 0;
    r->bytes = fuzz_copy(bytes, len);
    r->len = len;
    r->head.headers = r->headers;
    r->rc = dz_head_parse(&r->head, r->bytes, len, &scanned, &limits);
    HOLDS(scanned <= len && (r->rc <= 0 || scanned == 0));
}

/* Gives the bytes in pieces of 1 to 16, moved to other memory each time. */
static void parse_pieces(result *r, const uint8_t *bytes, size_t len, unsigned seed)
{
    size_t scanned = 0, given = 0;
    r->bytes = NULL;
    r->rc = DZ_HEAD_MORE;
    while (given < len && r->rc == DZ_HEAD_MORE) {
        seed = seed * 1103515245 + 12345;
        size_t step = 1 + (seed >> 16) % 16, before = scanned;
        given = step < len - given ? given + step : len;
        free(r->bytes);
        r->bytes = fuzz_copy(bytes, given);
        r->len = given;
        r->head.headers = r->headers;
        r->rc = dz_head_parse(&r->head, r->bytes, given, &scanned, &limits);
        HOLDS(r->rc > 0 ? scanned == 0 : scanned >= before && scanned <= given);
    }
}

static void check_fields(const result *r)
{
    const dz_head *head = &r->head;
    for (size_t i = 0; i < head->header_count; i++) {
        dz_slice name = head->headers[i].name, value = head->headers[i].value;
        HOLDS(name.len > 0 && fuzz_within(name, r->bytes, r->len));
        HOLDS(fuzz_within(value, r->bytes, r->len));
        for (size_t at = 0; at < name.len; at++)
            HOLDS(dz_char_is(name.ptr[at], DZ_CHAR_TOKEN));
        for (size_t at = 0; at < value.len; at++)
            HOLDS(!dz_scan_is_control(value.ptr[at]));
        HOLDS(value.len == 0 || !dz_char_blank(value.ptr[0]));
        HOLDS(value.len == 0 || !dz_char_blank(value.ptr[value.len - 1]));
    }
}

static void check_valid(const result *r)
{
    const dz_head *head = &r->head;
    HOLDS((size_t)r->rc <= r->len && (size_t)r->rc <= limits.head_max);
    HOLDS(memcmp(r->bytes + r->rc - 4, "\r\n\r\n", 4) == 0);
    HOLDS(head->header_count <= HEADERS_MAX && head->minor <= 1 && head->method <= DZ_OTHER);
    HOLDS(!(head->chunked && (head->has_length || head->minor == 0)));
    HOLDS(head->content_length <= INT64_MAX && (head->has_length || !head->content_length));
    HOLDS(head->minor == 0 || head->host.len > 0);
    HOLDS(fuzz_within(head->target, r->bytes, r->len) && head->target.len > 0);
    HOLDS(fuzz_within(head->host, r->bytes, r->len));
    HOLDS(fuzz_within(head->authority, r->bytes, r->len));
    HOLDS(fuzz_within(head->query, r->bytes, r->len));
    bool root = dz_slice_equal(head->path, DZ_LIT("/")); /* may be a literal */
    HOLDS(root || fuzz_within(head->path, r->bytes, r->len));
    HOLDS(head->path.len > 0 ? head->path.ptr[0] == '/' || head->method == DZ_OPTIONS
                             : head->method == DZ_CONNECT);
    check_fields(r);
}

static void check_equal(const dz_head *a, const dz_head *b)
{
    HOLDS(a->method == b->method && a->minor == b->minor && a->keep_alive == b->keep_alive);
    HOLDS(a->chunked == b->chunked && a->has_length == b->has_length);
    HOLDS(a->expect_continue == b->expect_continue && a->upgrade == b->upgrade);
    HOLDS(a->content_length == b->content_length && a->header_count == b->header_count);
    HOLDS(dz_slice_equal(a->method_text, b->method_text) && dz_slice_equal(a->host, b->host));
    HOLDS(dz_slice_equal(a->target, b->target) && dz_slice_equal(a->path, b->path));
    HOLDS(dz_slice_equal(a->authority, b->authority) && dz_slice_equal(a->query, b->query));
    for (size_t i = 0; i < a->header_count; i++) {
        HOLDS(dz_slice_equal(a->headers[i].name, b->headers[i].name));
        HOLDS(dz_slice_equal(a->headers[i].value, b->headers[i].value));
    }
}

/* Written again in the plainest form, a valid head means the same. */
static void check_rewritten(const dz_head *head)
{
    char text[4096];
    int len = snprintf(text, sizeof text, "%.*s %.*s HTTP/1.%d\r\n", (int)head->method_text.len,
                       head->method_text.ptr, (int)head->target.len, head->target.ptr, head->minor);
    for (size_t i = 0; i < head->header_count; i++) {
        const dz_header *h = &head->headers[i];
        len += snprintf(text + len, sizeof text - (size_t)len, "%.*s:%.*s\r\n", (int)h->name.len,
                        h->name.ptr, (int)h->value.len, h->value.len ? h->value.ptr : "");
    }
    len += snprintf(text + len, sizeof text - (size_t)len, "\r\n");
    result again = {0};
    parse_whole(&again, text, (size_t)len);
    HOLDS(again.rc == len);
    check_equal(head, &again.head);
    free(again.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    for (size_t at = 0; at < size && at < 64; at++)
        HOLDS(dz_scan_control(text, text + at, text + size) ==
              dz_scan_control_scalar(text + at, text + size));

    result whole = {0}, pieces = {0};
    parse_whole(&whole, data, size);
    HOLDS(whole.rc >= 0 || (whole.rc <= -400 && whole.rc > -600));
    if (whole.rc > 0) {
        check_valid(&whole);
        check_rewritten(&whole.head);
    }
    parse_pieces(&pieces, data, size, (unsigned)size);
    /* Which fault is named first may differ: the end of a line is looked at before its meaning. */
    HOLDS((whole.rc > 0) == (pieces.rc > 0));
    HOLDS(whole.rc != DZ_HEAD_MORE || pieces.rc == DZ_HEAD_MORE);
    if (whole.rc > 0) {
        HOLDS(whole.rc == pieces.rc);
        check_equal(&whole.head, &pieces.head);
    }
    free(whole.bytes);
    free(pieces.bytes);
    return 0;
}
