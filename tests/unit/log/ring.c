#include "../check.h"

#include "log/ring.h"

#include <stdio.h>
#include <stdlib.h>

enum { SIZE = 4096, LONGEST = 600 };

static uint64_t seed = 7;

static unsigned draw(unsigned below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(seed >> 33) % below;
}

/* "17:xxxx...\n" of some length. */
static size_t make_line(char *to, unsigned n)
{
    size_t len = (size_t)snprintf(to, LONGEST, "%u:", n);
    memset(to + len, 'x', LONGEST - len);
    len += draw(LONGEST - 20);
    to[len++] = '\n';
    return len;
}

/* Adds a line one way or the other; false: no room. */
static bool add(dz_ring *ring, unsigned n)
{
    char line[LONGEST + 1];
    uint64_t before = seed;
    size_t len = make_line(line, n), used;
    char *place = draw(2) ? dz_ring_reserve(ring, len + draw(100)) : NULL;
    bool added = true;
    if (place) {
        memcpy(place, line, len);
        dz_ring_commit(ring, len, &used);
    } else {
        added = dz_ring_put(ring, dz_slice_make(line, len), &used);
    }
    assert_true(used <= SIZE);
    if (!added)
        seed = before; /* the same line again, later */
    return added;
}

/* Takes some lines one way or the other and counts them, in order. */
static unsigned take(dz_ring *ring, unsigned expected)
{
    char copy[SIZE];
    size_t room = LONGEST + draw(SIZE - LONGEST);
    dz_slice lines = draw(2) ? dz_ring_peek(ring, room) : (dz_slice){0};
    if (lines.len > 0) {
        memcpy(copy, lines.ptr, lines.len);
        dz_ring_skip(ring, lines.len);
    } else {
        lines.len = dz_ring_take(ring, copy, room);
    }
    assert_true(lines.len <= room);
    for (const char *at = copy, *end = copy + lines.len; at < end; expected++) {
        char number[16];
        size_t len = (size_t)snprintf(number, sizeof number, "%u:", expected);
        assert_memory_equal(at, number, len);
        at = memchr(at, '\n', (size_t)(end - at));
        assert_non_null(at++);
    }
    return expected;
}

static void lines_come_out_whole_and_in_order_whichever_way(void **state)
{
    (void)state;
    dz_ring *ring = dz_ring_new(SIZE, LONGEST);
    assert_non_null(ring);
    unsigned in = 0, out = 0;
    for (int round = 0; round < 20000; round++) {
        for (unsigned i = draw(12); i > 0 && add(ring, in); i--)
            in++;
        for (unsigned i = draw(4); i > 0; i--)
            out = take(ring, out);
        assert_true(out <= in);
        assert_int_equal(dz_ring_empty(ring), in == out);
    }
    while (!dz_ring_empty(ring))
        out = take(ring, out);
    assert_int_equal(out, in);
    assert_true(in > 20000);
    dz_ring_free(ring);
}

static void what_is_peeked_at_stays_until_it_is_skipped(void **state)
{
    (void)state;
    dz_ring *ring = dz_ring_new(SIZE, LONGEST);
    size_t used;
    assert_int_equal(dz_ring_peek(ring, SIZE).len, 0);
    assert_true(dz_ring_put(ring, DZ_LIT("first\n"), &used));
    assert_true(dz_ring_put(ring, DZ_LIT("second\n"), &used));
    assert_slice(dz_ring_peek(ring, SIZE), "first\nsecond\n");
    assert_slice(dz_ring_peek(ring, 8), "first\n"); /* whole lines */
    assert_int_equal(dz_ring_peek(ring, 3).len, 0);
    dz_ring_skip(ring, 6);
    assert_slice(dz_ring_peek(ring, SIZE), "second\n");
    dz_ring_skip(ring, 7);
    assert_true(dz_ring_empty(ring));
    dz_ring_free(ring);
}

static void there_is_no_room_in_one_piece_across_the_end(void **state)
{
    (void)state;
    static char line[SIZE];
    dz_ring *ring = dz_ring_new(SIZE, LONGEST);
    size_t used;
    memset(line, 'x', sizeof line);
    line[SIZE - 101] = '\n';
    assert_non_null(dz_ring_reserve(ring, SIZE));
    assert_null(dz_ring_reserve(ring, SIZE + 1));
    assert_true(dz_ring_put(ring, dz_slice_make(line, SIZE - 100), &used));
    assert_true(dz_ring_put(ring, DZ_LIT("kept\n"), &used));
    dz_ring_skip(ring, SIZE - 100);
    assert_null(dz_ring_reserve(ring, 200)); /* there is, in two */
    assert_true(dz_ring_has_room(ring, 200));
    assert_non_null(dz_ring_reserve(ring, 95));
    dz_ring_free(ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_out_whole_and_in_order_whichever_way),
        cmocka_unit_test(what_is_peeked_at_stays_until_it_is_skipped),
        cmocka_unit_test(there_is_no_room_in_one_piece_across_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
