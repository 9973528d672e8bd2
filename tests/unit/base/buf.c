#include "../check.h"

#include <donmaz/buf.h>

static void transfer_empties_the_sender(void **state)
{
    (void)state;
    dz_buf a, b;
    assert_int_equal(dz_buf_copy(&a, DZ_LIT("catalogue")), 0);
    const char *memory = a.data;
    assert_int_equal(dz_buf_transfer(&b, &a), 0);
    assert_int_equal(a.len, 0);
    assert_null(a.data);
    assert_ptr_equal(b.data, memory);
    assert_slice(dz_buf_slice(&b), "catalogue");
    dz_buf_release(&b);
    dz_buf_release(&b); /* empty: harmless */
}

static void a_part_of_a_shared_block_is_refused(void **state)
{
    (void)state;
    dz_buf whole, part, to = {0};
    assert_int_equal(dz_buf_copy(&whole, DZ_LIT("0123456789")), 0);
    assert_int_equal(dz_buf_share(&part, &whole, 2, 3), 0);
    assert_slice(dz_buf_slice(&part), "234");
    assert_int_equal(dz_buf_transfer(&to, &part), DZ_E_NOT_OWNED);
    assert_int_equal(dz_buf_transfer(&to, &whole), DZ_E_NOT_OWNED);
    assert_int_equal(dz_buf_append(&whole, DZ_LIT("x")), DZ_E_NOT_OWNED);
    assert_int_equal(dz_buf_share(&to, &whole, 8, 3), DZ_E_INVALID);
    dz_buf_release(&part);
    assert_int_equal(dz_buf_transfer(&to, &whole), 0);
    dz_buf_release(&to);
}

static void the_last_reference_frees(void **state)
{
    (void)state;
    dz_buf whole, part;
    assert_int_equal(dz_buf_copy(&whole, DZ_LIT("0123456789")), 0);
    assert_int_equal(dz_buf_share(&part, &whole, 5, 5), 0);
    dz_buf_release(&whole);
    assert_slice(dz_buf_slice(&part), "56789"); /* the address sanitizer watches */
    dz_buf_release(&part);
}

static void borrowed_memory_is_never_transferred(void **state)
{
    (void)state;
    dz_buf borrowed = dz_buf_borrow(DZ_LIT("text")), to, copy;
    assert_int_equal(dz_buf_transfer(&to, &borrowed), DZ_E_NOT_OWNED);
    assert_int_equal(dz_buf_share(&to, &borrowed, 0, 1), DZ_E_NOT_OWNED);
    assert_int_equal(dz_buf_reserve(&borrowed, 10), DZ_E_NOT_OWNED);
    assert_int_equal(dz_buf_copy(&copy, dz_buf_slice(&borrowed)), 0);
    assert_int_equal(dz_buf_transfer(&to, &copy), 0);
    dz_buf_release(&to);
}

static void appending_grows_and_keeps_the_bytes(void **state)
{
    (void)state;
    dz_buf buf = {0};
    for (int i = 0; i < 1000; i++)
        assert_int_equal(dz_buf_append(&buf, DZ_LIT("0123456789")), 0);
    assert_int_equal(buf.len, 10000);
    for (size_t i = 0; i < buf.len; i++)
        assert_int_equal(buf.data[i], '0' + (int)(i % 10));
    assert_int_equal(dz_buf_reserve(&buf, SIZE_MAX), DZ_E_NOMEM);
    assert_int_equal(buf.len, 10000);
    dz_buf_release(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transfer_empties_the_sender),
        cmocka_unit_test(a_part_of_a_shared_block_is_refused),
        cmocka_unit_test(the_last_reference_frees),
        cmocka_unit_test(borrowed_memory_is_never_transferred),
        cmocka_unit_test(appending_grows_and_keeps_the_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
