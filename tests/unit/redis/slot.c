#include "../check.h"

#include "redis/slot.h"

static void slots_are_those_of_the_specification(void **state)
{
    (void)state;
    /* CRC16("123456789") is 0x31c3; the others are what CLUSTER KEYSLOT answers. */
    static const struct {
        const char *key;
        unsigned slot;
    } cases[] = {{"123456789", 0x31c3}, {"foo", 12182}, {"", 0}, {"bar", 5061}, {"hello", 866}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(dz_slot_of(dz_slice_of(cases[i].key)), cases[i].slot);
}

static void only_the_hash_tag_counts(void **state)
{
    (void)state;
    assert_int_equal(dz_slot_of(DZ_LIT("{user1000}.following")), dz_slot_of(DZ_LIT("user1000")));
    assert_int_equal(dz_slot_of(DZ_LIT("foo{bar}{zap}")), dz_slot_of(DZ_LIT("bar")));
    assert_int_equal(dz_slot_of(DZ_LIT("foo{{bar}}zap")), 4015); /* the tag is "{bar" */
    assert_int_equal(dz_slot_of(DZ_LIT("{}bar")), 6479);         /* no tag: all of it */
    assert_int_equal(dz_slot_of(DZ_LIT("foo{bar")), 15278);
    assert_int_equal(dz_slot_of(DZ_LIT("foo}bar{")), 11073);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_those_of_the_specification),
        cmocka_unit_test(only_the_hash_tag_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
