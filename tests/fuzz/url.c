/* Everything decoded from a target or a field value: what comes out lies inside the input, is no
 * longer than it, and keeps its promises. */
#include "fuzz.h"

#include "http/cookie.h"
#include "http/date.h"
#include "http/negotiate.h"
#include "http/scan.h"
#include "http/target.h"
#include "http/url.h"

static void check_decode(dz_slice text)
{
    char *out = malloc(text.len + 1);
    HOLDS(out);
    int len = dz_percent_decode(out, text, false);
    HOLDS(len == DZ_E_FORMAT || (len >= 0 && (size_t)len <= text.len));
    if (!dz_percent_needed(text, false))
        HOLDS(len >= 0 && dz_slice_equal(dz_slice_make(out, (size_t)len), text));
    len = dz_path_clean(out, text);
    if (len >= 0) {
        HOLDS(len > 0 && (size_t)len <= text.len && out[0] == '/');
        out[len] = '\0';
        HOLDS(strlen(out) == (size_t)len && !strstr(out, "//") && !strchr(out, '\\'));
        HOLDS(!strstr(out, "/../") && !strstr(out, "/./"));
        HOLDS(len < 3 || strcmp(out + len - 3, "/..") != 0);
    }
    free(out);
}

static void check_query(dz_slice text)
{
    dz_slice rest = text, key, value, found;
    while (dz_query_next(&rest, &key, &value)) {
        HOLDS(fuzz_within(key, text.ptr, text.len) && fuzz_within(value, text.ptr, text.len));
        HOLDS(!key.len || (!memchr(key.ptr, '&', key.len) && !memchr(key.ptr, '=', key.len)));
        HOLDS(!value.len || !memchr(value.ptr, '&', value.len));
        if (!dz_percent_needed(key, true) && key.len)
            HOLDS(dz_query_find(text, key, &found) && fuzz_within(found, text.ptr, text.len));
    }
}

static void check_cookies(dz_slice text)
{
    dz_slice rest = text, name, value, found;
    while (dz_cookie_next(&rest, &name, &value)) {
        HOLDS(name.len > 0 && fuzz_within(name, text.ptr, text.len));
        HOLDS(fuzz_within(value, text.ptr, text.len));
        HOLDS(!value.len || !memchr(value.ptr, ';', value.len));
        for (size_t i = 0; i < value.len; i++)
            HOLDS(!dz_scan_is_control(value.ptr[i]));
        HOLDS(dz_cookie_find(text, name, &found));
    }
}

static void check_date(dz_slice text)
{
    int64_t seconds, again;
    if (!dz_date_parse(text, INT64_C(1785542400), &seconds))
        return;
    char out[DZ_DATE_LEN];
    dz_date_format(out, seconds);
    HOLDS(dz_date_parse(dz_slice_make(out, sizeof out), 0, &again));
    HOLDS(again == seconds || seconds == INT64_C(253402300800)); /* a leap second after 9999 */
}

static void check_negotiation(dz_slice text)
{
    static const char *const codings[] = {"gzip", "br", "identity", "*"};
    for (size_t i = 0; i < 4; i++) {
        int weight = dz_accept_encoding(text, dz_slice_of(codings[i]));
        HOLDS(weight >= 0 && weight <= 1000);
    }
    bool strong = dz_etag_match(text, DZ_LIT("\"a\""), false);
    HOLDS(!strong || dz_etag_match(text, DZ_LIT("W/\"a\""), true));
    (void)dz_etag_match(DZ_LIT("\"a\", W/\"b\""), text, true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *bytes = fuzz_copy(data, size);
    dz_slice text = {bytes, size};
    check_decode(text);
    check_query(text);
    check_cookies(text);
    check_date(text);
    check_negotiation(text);
    (void)dz_host_valid(text, false);
    free(bytes);
    return 0;
}
