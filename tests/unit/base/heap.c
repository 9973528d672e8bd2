#include "../check.h"

#include "base/heap.h"

enum { COUNT = 2000 };

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

static void gives_the_keys_back_in_order_after_moves_and_removals(void **state)
{
    (void)state;
    static dz_heap_node nodes[COUNT];
    memset(nodes, 0, sizeof nodes);
    dz_heap heap;
    dz_heap_init(&heap);
    uint64_t seed = 42;
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(dz_heap_insert(&heap, &nodes[i], next_random(&seed) % 500), 0);
    for (size_t i = 0; i < COUNT; i += 3)
        dz_heap_move(&heap, &nodes[i], next_random(&seed) % 500);
    size_t removed = 0;
    for (size_t i = 1; i < COUNT; i += 5) {
        dz_heap_remove(&heap, &nodes[i]);
        dz_heap_remove(&heap, &nodes[i]); /* again: harmless */
        removed++;
    }
    uint64_t last = 0;
    size_t taken = 0;
    for (dz_heap_node *node; (node = dz_heap_min(&heap)); taken++) {
        assert_true(node->key >= last);
        last = node->key;
        dz_heap_remove(&heap, node);
        assert_false(dz_heap_has(node));
    }
    assert_int_equal(taken, COUNT - removed);
    dz_heap_close(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_keys_back_in_order_after_moves_and_removals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
