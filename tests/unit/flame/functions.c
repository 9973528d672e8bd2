#include "../check.h"

#include <flame/functions.h>

#include <stdio.h>

static void finds(const dz_functions *f, uint64_t address, const char *want)
{
    const char *name = dz_functions_find(f, address);
    if (want)
        assert_string_equal(name ? name : "(none)", want);
    else
        assert_null(name);
}

static void an_address_belongs_to_the_innermost_function_around_it(void **state)
{
    (void)state;
    dz_function symbols[] = {
        {.start = 200, .end = 300, .name = "outer"},
        {.start = 240, .end = 260, .name = "inner"},
        {.start = 250, .end = 250, .limit = 999, .name = "label", .rank = 6},
        {.start = 100, .end = 150, .name = "first"},
    };
    dz_functions f;
    assert_true(dz_functions_make(&f, symbols, 4));
    finds(&f, 99, NULL);
    finds(&f, 100, "first");
    finds(&f, 149, "first");
    finds(&f, 150, NULL);
    finds(&f, 239, "outer");
    finds(&f, 255, "inner");
    finds(&f, 260, "outer");
    finds(&f, 300, NULL);
    finds(&f, UINT64_MAX, NULL);
    dz_functions_close(&f);
}

static void of_several_names_the_most_public_one_is_meant(void **state)
{
    (void)state;
    dz_function symbols[] = {
        {.start = 10, .end = 20, .name = "local", .rank = 2},
        {.start = 10, .end = 20, .name = "global", .rank = 0},
        {.start = 10, .end = 10, .limit = 90, .name = "label", .rank = 4},
        {.start = 10, .end = 20, .name = "weak", .rank = 1},
    };
    dz_functions f;
    assert_true(dz_functions_make(&f, symbols, 4));
    finds(&f, 15, "global");
    finds(&f, 20, NULL);
    dz_functions_close(&f);
}

static void what_has_no_size_reaches_to_the_next_or_to_the_end_of_its_section(void **state)
{
    (void)state;
    dz_function symbols[] = {
        {.start = 10, .end = 10, .limit = 100, .name = "a"},
        {.start = 30, .end = 40, .limit = 100, .name = "b"},
        {.start = 50, .end = 50, .limit = 100, .name = "c"},
    };
    dz_functions f;
    assert_true(dz_functions_make(&f, symbols, 3));
    finds(&f, 29, "a");
    finds(&f, 39, "b");
    finds(&f, 45, NULL);
    finds(&f, 99, "c");
    finds(&f, 100, NULL);
    dz_functions_close(&f);
    assert_true(dz_functions_make(&f, NULL, 0));
    finds(&f, 0, NULL);
    dz_functions_close(&f);
}

/* Symbols that lie over each other in every way, against a search through all of them. */
enum { SYMBOLS = 24, SPACE = 80 };

static const dz_function *slow_find(const dz_function *all, uint64_t address)
{
    const dz_function *best = NULL;
    for (const dz_function *f = all; f < all + SYMBOLS; f++) {
        if (address < f->start || address >= f->end)
            continue;
        if (!best || f->start > best->start || (f->start == best->start && f->end < best->end) ||
            (f->start == best->start && f->end == best->end && f->rank < best->rank))
            best = f;
    }
    return best;
}

static void any_symbols_are_found_as_by_looking_at_each(void **state)
{
    (void)state;
    static const char *const names[SYMBOLS] = {"0",  "1",  "2",  "3",  "4",  "5",  "6",  "7",
                                               "8",  "9",  "10", "11", "12", "13", "14", "15",
                                               "16", "17", "18", "19", "20", "21", "22", "23"};
    uint64_t seed = 1;
    for (int round = 0; round < 2000; round++) {
        dz_function all[SYMBOLS], sorted[SYMBOLS];
        for (size_t i = 0; i < SYMBOLS; i++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407U;
            uint64_t start = (seed >> 33) % SPACE, size = 1 + (seed >> 48) % 20;
            all[i] = (dz_function){
                .start = start, .end = start + size, .name = names[i], .rank = (uint8_t)i};
        }
        memcpy(sorted, all, sizeof all);
        dz_functions f;
        assert_true(dz_functions_make(&f, sorted, SYMBOLS));
        for (uint64_t at = 0; at < SPACE + 30; at++) {
            const dz_function *want = slow_find(all, at);
            finds(&f, at, want ? want->name : NULL);
        }
        for (size_t i = 1; i < f.count; i++)
            assert_true(f.pieces[i - 1].end <= f.pieces[i].start);
        dz_functions_close(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_belongs_to_the_innermost_function_around_it),
        cmocka_unit_test(of_several_names_the_most_public_one_is_meant),
        cmocka_unit_test(what_has_no_size_reaches_to_the_next_or_to_the_end_of_its_section),
        cmocka_unit_test(any_symbols_are_found_as_by_looking_at_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
