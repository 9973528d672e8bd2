/* Which coding an Accept-Encoding field gets. */
#include "../check.h"

#include "content/encoding.h"

enum { GZIP = 1U << DZ_CODING_GZIP, BR = 1U << DZ_CODING_BR, BOTH = GZIP | BR };

static void the_field_decides_and_ties_go_to_the_smaller_result(void **state)
{
    (void)state;
    static const struct {
        const char *field;
        unsigned available;
        dz_coding wanted;
    } rows[] = {
        {"gzip", BOTH, DZ_CODING_GZIP},
        {"br", BOTH, DZ_CODING_BR},
        {"gzip, br", BOTH, DZ_CODING_BR},
        {"br;q=0.5, gzip;q=0.5", BOTH, DZ_CODING_BR},
        {"br;q=0.4, gzip;q=0.5", BOTH, DZ_CODING_GZIP},
        {"gzip, br", GZIP, DZ_CODING_GZIP},
        {"br", GZIP, DZ_CODING_IDENTITY},
        {"gzip", 0, DZ_CODING_IDENTITY},
        {"*", BOTH, DZ_CODING_BR},
        {"*, br;q=0", BOTH, DZ_CODING_GZIP},
        {"gzip;q=0", BOTH, DZ_CODING_IDENTITY},
        {"gzip;q=0, *", BOTH, DZ_CODING_BR},
        {"identity", BOTH, DZ_CODING_IDENTITY},
        {"identity;q=0.5, gzip;q=0.2", BOTH, DZ_CODING_IDENTITY},
        {"identity;q=0.5, gzip;q=0.5", BOTH, DZ_CODING_GZIP},
        {"identity;q=0, gzip;q=0.001", BOTH, DZ_CODING_GZIP},
        {"identity;q=0", GZIP, DZ_CODING_IDENTITY}, /* better than 406 */
        {"GZip", BOTH, DZ_CODING_GZIP},
        {" gzip ; q=1 ", BOTH, DZ_CODING_GZIP},
        {"x-gzip", BOTH, DZ_CODING_GZIP},
        {"x-gzip;q=0, gzip", BOTH, DZ_CODING_GZIP}, /* the real name goes before the old one */
        {"gzip;q=0, x-gzip", BOTH, DZ_CODING_IDENTITY},
        {"deflate, zstd", BOTH, DZ_CODING_IDENTITY},
        {"gzip-2, brotli", BOTH, DZ_CODING_IDENTITY},
        {",,gzip,,", BOTH, DZ_CODING_GZIP},
        {",", BOTH, DZ_CODING_IDENTITY},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        dz_coding got = dz_coding_choose(dz_slice_of(rows[i].field), rows[i].available);
        if (got != rows[i].wanted)
            fail_msg("%s of %u: %d instead of %d", rows[i].field, rows[i].available, (int)got,
                     (int)rows[i].wanted);
    }
}

static void a_client_that_says_nothing_gets_it_plain(void **state)
{
    (void)state;
    assert_int_equal(dz_coding_choose((dz_slice){0}, BOTH), DZ_CODING_IDENTITY);
    assert_int_equal(dz_coding_choose(dz_slice_make("", 0), BOTH), DZ_CODING_IDENTITY);
}

static void names_are_those_of_the_registry(void **state)
{
    (void)state;
    assert_slice(dz_coding_name(DZ_CODING_GZIP), "gzip");
    assert_slice(dz_coding_name(DZ_CODING_BR), "br");
    assert_slice(dz_coding_name(DZ_CODING_IDENTITY), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_field_decides_and_ties_go_to_the_smaller_result),
        cmocka_unit_test(a_client_that_says_nothing_gets_it_plain),
        cmocka_unit_test(names_are_those_of_the_registry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
