#include "../check.h"

#include "http/cookie.h"

static void pairs_come_in_order(void **state)
{
    (void)state;
    dz_slice field = DZ_LIT("a=1; b=\"two\";c=; d = x=y ;e=a b,\xc3\xa4"), name, value;
    static const char *const want[][2] = {
        {"a", "1"}, {"b", "two"}, {"c", ""}, {"d", "x=y"}, {"e", "a b,\xc3\xa4"}};
    for (size_t i = 0; i < 5; i++) {
        assert_true(dz_cookie_next(&field, &name, &value));
        assert_slice(name, want[i][0]);
        assert_slice(value, want[i][1]);
    }
    assert_false(dz_cookie_next(&field, &name, &value));
}

static void a_bad_cookie_does_not_cost_the_others(void **state)
{
    (void)state;
    dz_slice field = DZ_LIT("bad; =x; a b=1; q=a\"b; r=\\; s=\"; ok=1;;"), name, value;
    assert_true(dz_cookie_next(&field, &name, &value));
    assert_slice(name, "ok");
    assert_slice(value, "1");
    assert_false(dz_cookie_next(&field, &name, &value));
}

static void the_first_of_a_name_is_found(void **state)
{
    (void)state;
    dz_slice value;
    assert_true(dz_cookie_find(DZ_LIT("A=0; a=1; a=2"), DZ_LIT("a"), &value));
    assert_slice(value, "1");
    assert_false(dz_cookie_find(DZ_LIT("ab=1"), DZ_LIT("a"), &value));
    assert_null(value.ptr);
    assert_false(dz_cookie_find((dz_slice){0}, DZ_LIT("a"), &value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_come_in_order),
        cmocka_unit_test(a_bad_cookie_does_not_cost_the_others),
        cmocka_unit_test(the_first_of_a_name_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
