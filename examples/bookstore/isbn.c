#include "isbn.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>

/* Zeroed memory. Slots are used in random order, and with small pages finding the page takes longer
 * than the use itself. */
static isbn_key *alloc_slots(size_t size)
{
    enum { HUGE_PAGE = 2 << 20 };
    if (size < HUGE_PAGE)
        return calloc(1, size);
    void *slots = aligned_alloc(HUGE_PAGE, size);
    if (!slots)
        return NULL;
    madvise(slots, size, MADV_HUGEPAGE); /* only advice: without, it is slower */
    return memset(slots, 0, size);
}

/* Capacities are powers of two; at most half the slots are used. */
static bool set_capacity(isbn_set *set, unsigned bits)
{
    set->capacity = (size_t)1 << bits;
    set->slots = alloc_slots(set->capacity * sizeof(isbn_key));
    set->shift = 64 - bits;
    return set->slots != NULL;
}

bool isbn_set_init(isbn_set *set, size_t expected)
{
    *set = (isbn_set){0};
    if (getrandom(&set->multiplier, sizeof set->multiplier, GRND_NONBLOCK) < 0)
        set->multiplier = (uint64_t)(uintptr_t)set; /* early at boot; still unlike the last run */
    set->multiplier = (set->multiplier ^ UINT64_C(0x9e3779b97f4a7c15)) | 1;
    unsigned bits = 10;
    while (bits < 32 && ((size_t)1 << bits) / 2 < expected)
        bits++;
    return set_capacity(set, bits);
}

void isbn_set_close(isbn_set *set)
{
    free(set->slots);
    *set = (isbn_set){0};
}

/* The key's slot, or the free one where it belongs. */
static isbn_key *find_slot(const isbn_set *set, isbn_key key)
{
    size_t i = isbn_set_slot(set, key);
    while (set->slots[i] != 0 && set->slots[i] != key)
        i = (i + 1) & (set->capacity - 1);
    return &set->slots[i];
}

static bool grow(isbn_set *set)
{
    isbn_set old = *set;
    if (old.shift <= 32 || !set_capacity(set, 65 - old.shift)) {
        *set = old;
        return false;
    }
    for (size_t i = 0; i < old.capacity; i++)
        if (old.slots[i] != 0)
            *find_slot(set, old.slots[i]) = old.slots[i];
    free(old.slots);
    return true;
}

int isbn_set_add(isbn_set *set, isbn_key key)
{
    if (set->count * 2 >= set->capacity && !grow(set))
        return -1;
    isbn_key *slot = find_slot(set, key);
    if (*slot != 0)
        return 0;
    *slot = key;
    set->count++;
    return 1;
}
