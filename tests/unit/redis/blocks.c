#include "../check.h"

#include "base/block.h"
#include "loop/sanitizer.h"
#include "redis/blocks.h"

#include <pthread.h>
#include <xxhash.h>

static void a_block_of_about_that_size_is_used_again(void **state)
{
    (void)state;
    dz_buf first, second;
    assert_int_equal(dz_blocks_alloc(&first, 102400), 0);
    assert_int_equal(first.cap, 102400);
    dz_buf_release(&first);
    assert_int_equal(dz_blocks_alloc(&second, 100000), 0);
#ifdef DZ_ASAN
    assert_int_equal(second.cap, 100000); /* never used again there */
#else
    assert_int_equal(second.cap, 102400);
#endif
    memset(second.data, 'x', second.cap);
    dz_buf_release(&second);
    assert_int_equal(dz_blocks_alloc(&second, 50000), 0); /* much smaller: a block of its own */
    assert_int_equal(second.cap, 50000);
    dz_buf_release(&second);
}

static void a_block_lives_until_its_last_reference_goes(void **state)
{
    (void)state;
    dz_buf value, part, other;
    assert_int_equal(dz_blocks_alloc(&value, 20000), 0);
    memset(value.data, 'v', 20000);
    value.len = 20000;
    assert_int_equal(dz_buf_share(&part, &value, 10, 5), 0);
    dz_buf_release(&value);
    assert_int_equal(dz_blocks_alloc(&other, 20000), 0); /* not the one still shown by part */
    memset(other.data, 'o', 20000);
    assert_slice(dz_buf_slice(&part), "vvvvv");
    dz_buf_release(&part);
    dz_buf_release(&other);
}

static void small_and_huge_ones_are_plain_buffers_that_grow(void **state)
{
    (void)state;
    const size_t sizes[] = {1, 1000, DZ_BLOCKS_SMALLEST, DZ_BLOCKS_LARGEST + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        dz_buf buf;
        assert_int_equal(dz_blocks_alloc(&buf, sizes[i]), 0);
        assert_true(buf.cap >= sizes[i]);
        for (size_t n = 0; n < sizes[i] + 10; n += 1000)
            assert_int_equal(dz_buf_append(&buf, DZ_LIT("more")), 0);
        dz_buf_release(&buf);
    }
}

static void *use_many(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    dz_buf held[8] = {0};
    for (int i = 0; i < 3000; i++) {
        seed = seed * 1103515245 + 12345;
        dz_buf *buf = &held[(seed >> 20) % 8];
        dz_buf_release(buf);
        size_t size = DZ_BLOCKS_SMALLEST + (seed >> 16) % 20000;
        assert_int_equal(dz_blocks_alloc(buf, size), 0);
        memset(buf->data, (int)seed, 64);
    }
    for (size_t i = 0; i < 8; i++)
        dz_buf_release(&held[i]);
    return NULL;
}

static void threads_share_them(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_many, (void *)i), 0);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

static void a_blocks_hash_is_computed_once_by_all_who_share_it(void **state)
{
    (void)state;
    const size_t sizes[] = {5, 20000, DZ_BLOCKS_LARGEST + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        dz_buf value, other;
        bool computed;
        assert_int_equal(dz_blocks_alloc(&value, sizes[i]), 0);
        memset(value.data, 'v', sizes[i]);
        value.len = sizes[i];
        assert_int_equal(dz_buf_share(&other, &value, 0, value.len), 0);
        uint64_t hash = XXH3_64bits(value.data, value.len);
        assert_true(dz_blocks_hash(&value, &computed) == hash && computed);
        assert_true(dz_blocks_hash(&other, &computed) == hash && !computed);
        dz_buf_release(&value);
        assert_true(dz_blocks_hash(&other, &computed) == hash && !computed);
        dz_buf_release(&other);
        assert_int_equal(dz_blocks_alloc(&value, sizes[i]), 0); /* it may be the same memory */
        memset(value.data, 'w', sizes[i]);
        value.len = sizes[i];
        assert_true(dz_blocks_hash(&value, &computed) == XXH3_64bits(value.data, value.len));
        assert_true(computed);
        dz_buf_release(&value);
    }
}

static void a_block_that_grows_stays_one_that_remembers(void **state)
{
    (void)state;
    dz_buf value;
    bool computed;
    assert_int_equal(dz_blocks_alloc(&value, 4), 0);
    for (unsigned n = 0; n < 5000; n++) {
        assert_int_equal(dz_blocks_reserve(&value, value.len + 10), 0);
        memcpy(value.data + value.len, "0123456789", 10);
        value.len += 10;
    }
    uint64_t hash = dz_blocks_hash(&value, &computed);
    assert_true(computed && hash == XXH3_64bits(value.data, 50000));
    assert_true(dz_blocks_hash(&value, &computed) == hash && !computed);
    dz_buf_release(&value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_of_about_that_size_is_used_again),
        cmocka_unit_test(a_block_lives_until_its_last_reference_goes),
        cmocka_unit_test(small_and_huge_ones_are_plain_buffers_that_grow),
        cmocka_unit_test(threads_share_them),
        cmocka_unit_test(a_blocks_hash_is_computed_once_by_all_who_share_it),
        cmocka_unit_test(a_block_that_grows_stays_one_that_remembers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
