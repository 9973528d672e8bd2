#include "../check.h"

#include "base/list.h"

typedef struct item {
    int value;
    dz_list link;
} item;

static int shift_value(dz_list *list)
{
    dz_list *link = dz_list_shift(list);
    return link ? DZ_CONTAINER(link, item, link)->value : -1;
}

static void keeps_order_and_removes_from_anywhere(void **state)
{
    (void)state;
    dz_list list;
    dz_list_init(&list);
    item items[4];
    for (int i = 0; i < 4; i++) {
        items[i].value = i;
        dz_list_push(&list, &items[i].link);
    }
    dz_list_remove(&items[2].link);
    dz_list_remove(&items[2].link); /* again: harmless */
    assert_int_equal(shift_value(&list), 0);
    assert_int_equal(shift_value(&list), 1);
    assert_int_equal(shift_value(&list), 3);
    assert_int_equal(shift_value(&list), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(keeps_order_and_removes_from_anywhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
