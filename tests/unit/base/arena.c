#include "../check.h"

#include "base/arena.h"

static void serves_from_the_given_block_first(void **state)
{
    (void)state;
    _Alignas(16) char first[256];
    dz_arena arena;
    dz_arena_init(&arena, first, sizeof first);
    char *a = dz_arena_alloc(&arena, 100);
    assert_true(a >= first && a < first + sizeof first);
    char *b = dz_arena_alloc(&arena, 1000);
    assert_false(b >= first && b < first + sizeof first);
    memset(b, 1, 1000);
    dz_arena_reset(&arena);
    assert_ptr_equal(dz_arena_alloc(&arena, 1), first);
    dz_arena_reset(&arena);
}

static void aligns_every_piece(void **state)
{
    (void)state;
    char first[129];
    dz_arena arena;
    dz_arena_init(&arena, first + 1, 128);
    for (size_t size = 0; size < 40; size++)
        assert_int_equal((uintptr_t)dz_arena_alloc(&arena, size) % _Alignof(max_align_t), 0);
    dz_arena_reset(&arena);
}

static void refuses_impossible_sizes(void **state)
{
    (void)state;
    dz_arena arena;
    dz_arena_init(&arena, NULL, 0);
    assert_null(dz_arena_alloc(&arena, SIZE_MAX));
    assert_null(dz_arena_alloc(&arena, SIZE_MAX - 20));
    dz_arena_reset(&arena);
}

static dz_slice format(dz_arena *arena, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static dz_slice format(dz_arena *arena, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    dz_slice out = dz_arena_vprintf(arena, fmt, args);
    va_end(args);
    return out;
}

static void formats_text_of_any_length(void **state)
{
    (void)state;
    char first[32];
    dz_arena arena;
    dz_arena_init(&arena, first, sizeof first);
    assert_slice(format(&arena, "%d-%s", 7, "x"), "7-x");
    dz_slice text = format(&arena, "%0500d", 1);
    assert_int_equal(text.len, 500);
    assert_int_equal(text.ptr[499], '1');
    assert_int_equal(text.ptr[500], '\0');
    dz_arena_reset(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(serves_from_the_given_block_first),
        cmocka_unit_test(aligns_every_piece),
        cmocka_unit_test(refuses_impossible_sizes),
        cmocka_unit_test(formats_text_of_any_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
