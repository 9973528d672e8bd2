#include "../check.h"

#include "http/url.h"

static void decode(const char *text, bool plus, const char *want)
{
    char out[64];
    int len = dz_percent_decode(out, dz_slice_of(text), plus);
    if (!want) {
        assert_int_equal(len, DZ_E_FORMAT);
        return;
    }
    assert_true(len >= 0);
    assert_slice(dz_slice_make(out, (size_t)len), want);
}

static void escapes_decode_or_are_refused(void **state)
{
    (void)state;
    decode("", false, "");
    decode("a%20b%2Fc%c3%A4", false, "a b/c\xc3\xa4");
    decode("a+b%2B", true, "a b+");
    decode("a+b", false, "a+b");
    decode("%2500", false, "%00"); /* decoded once only */
    static const char *const bad[] = {"%",   "%4",  "a%",  "%zz", "%0g",
                                      "%g0", "%00", "%+1", "% 1", "%%41"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        decode(bad[i], true, NULL);
    char in_place[] = "a%20b";
    assert_int_equal(dz_percent_decode(in_place, dz_slice_make(in_place, 5), false), 3);
    assert_memory_equal(in_place, "a b", 3);
    assert_false(dz_percent_needed(DZ_LIT("a+b"), false));
    assert_true(dz_percent_needed(DZ_LIT("a+b"), true));
    assert_true(dz_percent_needed(DZ_LIT("a%"), false));
    assert_false(dz_percent_needed((dz_slice){0}, true));
}

static void clean(const char *path, const char *want)
{
    size_t len = strlen(path);
    char *out = malloc(len + 1);
    assert_non_null(out);
    int rc = dz_path_clean(out, dz_slice_make(path, len));
    if (!want) {
        if (rc != DZ_E_FORMAT)
            print_error("not refused: %s\n", path);
        assert_int_equal(rc, DZ_E_FORMAT);
    } else {
        assert_true(rc > 0);
        assert_slice(dz_slice_make(out, (size_t)rc), want);
    }
    free(out);
}

static void paths_of_files_stay_below_the_root(void **state)
{
    (void)state;
    clean("/", "/");
    clean("/a/b", "/a/b");
    clean("/a/b/", "/a/b/");
    clean("/a//b///c", "/a/b/c");
    clean("/a/./b/.", "/a/b/");
    clean("/a/b/../c", "/a/c");
    clean("/a/b/..", "/a/");
    clean("/a/..", "/");
    clean("/a/%2e%2E/b", "/b");
    clean("/...", "/...");
    clean("/%20x", "/ x");
    static const char *const bad[] = {
        "",       "a",      "/..",       "/../a",         "/a/../..", "/%2e%2e/etc",
        "/a%2Fb", "/a%5cb", "/a\\..\\b", "/%00",          "/a%",      "/%2e%2e%2fetc",
        "*",      "/./..",  "//..",      "/a/%2e./../..",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        clean(bad[i], NULL);
}

static void queries_give_their_pairs(void **state)
{
    (void)state;
    dz_slice query = DZ_LIT("a=1&&b&c=&=d&e=f=g&"), key, value;
    static const char *const want[][2] = {
        {"a", "1"}, {"b", NULL}, {"c", ""}, {"", "d"}, {"e", "f=g"}};
    for (size_t i = 0; i < 5; i++) {
        assert_true(dz_query_next(&query, &key, &value));
        assert_slice(key, want[i][0]);
        if (want[i][1])
            assert_slice(value, want[i][1]);
        else
            assert_null(value.ptr);
    }
    assert_false(dz_query_next(&query, &key, &value));
    assert_false(dz_query_next(&query, &key, &value));
}

static void keys_are_found_decoded_and_the_first_wins(void **state)
{
    (void)state;
    dz_slice query = DZ_LIT("%=0&x%zz=1&a%20b=2&a+b=3&c%3Dd=4&e=5&e=6&ab=7"), value;
    assert_true(dz_query_find(query, DZ_LIT("a b"), &value));
    assert_slice(value, "2");
    assert_true(dz_query_find(query, DZ_LIT("c=d"), &value));
    assert_slice(value, "4");
    assert_true(dz_query_find(query, DZ_LIT("e"), &value));
    assert_slice(value, "5");
    assert_false(dz_query_find(query, DZ_LIT("a"), &value));
    assert_false(dz_query_find(query, DZ_LIT("abc"), &value));
    assert_false(dz_query_find(query, DZ_LIT("xzz"), &value));
    assert_null(value.ptr);
    assert_false(dz_query_find((dz_slice){0}, DZ_LIT("a"), &value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes_decode_or_are_refused),
        cmocka_unit_test(paths_of_files_stay_below_the_root),
        cmocka_unit_test(queries_give_their_pairs),
        cmocka_unit_test(keys_are_found_decoded_and_the_first_wins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
