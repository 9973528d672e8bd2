#include "../check.h"

#include "content/encoding.h"
#include "content/types.h"

static void assert_type(const char *name, const char *type)
{
    dz_slice found = dz_type_of_name(dz_slice_of(name));
    if (!dz_slice_equal(found, dz_slice_of(type)))
        fail_msg("%s: %.*s", name, (int)found.len, found.ptr);
}

static void names_have_types(void **state)
{
    (void)state;
    assert_type("index.html", "text/html; charset=utf-8");
    assert_type("INDEX.HTML", "text/html; charset=utf-8");
    assert_type("a/b.c/x.tar.gz", "application/gzip");
    assert_type("app.mjs", "text/javascript; charset=utf-8");
    assert_type("7.7z", "application/x-7z-compressed");
    assert_type("x.zst", "application/zstd");
    assert_type("font.woff2", "font/woff2");
    static const char *const unknown[] = {
        "", ".", "x.", "Makefile", "x.unheardof", "html", "x.htmlhtmlhtmlhtmlhtml", "x.html "};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        assert_type(unknown[i], "application/octet-stream");
}

static void text_gains_by_compression_and_images_do_not(void **state)
{
    (void)state;
    static const char *const yes[] = {
        "text/plain",    "TEXT/HTML; charset=utf-8", "application/json", "application/json ; x",
        "image/svg+xml", "application/problem+json", "application/wasm", "application/xml"};
    static const char *const no[] = {"",
                                     "image/png",
                                     "application/octet-stream",
                                     "video/mp4",
                                     "application/zip",
                                     "text/event-stream; x",
                                     "font/woff2",
                                     "text",
                                     "application/jsonx"};
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
        assert_true(dz_type_compressible(dz_slice_of(yes[i])));
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        assert_false(dz_type_compressible(dz_slice_of(no[i])));
    assert_false(dz_type_compressible((dz_slice){0}));
}

static void the_best_liked_coding_is_chosen(void **state)
{
    (void)state;
    enum { GZIP = 1 << DZ_CODING_GZIP, BR = 1 << DZ_CODING_BR };
    static const struct {
        const char *field;
        unsigned available;
        dz_coding chosen;
    } rows[] = {
        {NULL, GZIP | BR, DZ_CODING_IDENTITY},
        {"", GZIP | BR, DZ_CODING_IDENTITY},
        {"gzip", GZIP | BR, DZ_CODING_GZIP},
        {"gzip", BR, DZ_CODING_IDENTITY},
        {"gzip, br", GZIP | BR, DZ_CODING_BR},
        {"gzip, br", GZIP, DZ_CODING_GZIP},
        {"gzip;q=0.9, br;q=0.8", GZIP | BR, DZ_CODING_GZIP},
        {"identity, gzip;q=0.9", GZIP, DZ_CODING_IDENTITY},
        {"identity;q=0.9, gzip;q=0.9", GZIP, DZ_CODING_GZIP},
        {"*;q=0", GZIP | BR, DZ_CODING_IDENTITY},
        {"identity;q=0, *;q=0", GZIP | BR, DZ_CODING_IDENTITY},
        {"x-gzip;q=0.5", GZIP, DZ_CODING_GZIP},
        {"gzip;q=0, x-gzip", GZIP, DZ_CODING_IDENTITY},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (dz_coding_choose(dz_slice_of(rows[i].field), rows[i].available) != rows[i].chosen)
            fail_msg("%s", rows[i].field);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_have_types),
        cmocka_unit_test(text_gains_by_compression_and_images_do_not),
        cmocka_unit_test(the_best_liked_coding_is_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
