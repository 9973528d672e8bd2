/* isbn.h: ISBN-13 numbers, and a set of them. */
#ifndef BOOKSTORE_ISBN_H
#define BOOKSTORE_ISBN_H

#include "digits.h"

#include <donmaz/slice.h>

#include <stdint.h>

/* What distinguishes two valid ISBNs in 32 bits: the nine digits between prefix and check digit,
 * plus 10^9 when the prefix is 979, plus 1 so that 0 stands for none. */
typedef uint32_t isbn_key;

/* The sum of the bytes at even places, plus three times those at odd places. */
static inline unsigned isbn_weighted_sum(uint64_t digits)
{
    const uint64_t even = UINT64_C(0x00ff00ff00ff00ff);
    uint64_t sums = (digits & even) + 3 * (digits >> 8 & even);
    return (unsigned)((sums * UINT64_C(0x0001000100010001)) >> 48);
}

/* Reads 13 digits. Returns NULL and sets the key and the number itself, such as 9780441172719; or
 * returns why it is no ISBN. */
static inline const char *isbn_parse(dz_slice text, isbn_key *key, uint64_t *number)
{
    if (text.len != 13)
        return "isbn has not 13 digits";
    uint64_t first = digits_load(text.ptr), last = digits_load(text.ptr + 5);
    if (!digits_all(first) || !digits_all(last))
        return "isbn has not 13 digits";
    const uint64_t low_half = UINT64_C(0x0f0f0f0f0f0f0f0f);
    /* Three digits are in both; shifted out, the place of the next one is even as it should be. */
    if ((isbn_weighted_sum(first & low_half) + isbn_weighted_sum((last & low_half) >> 24)) % 10 !=
        0)
        return "isbn has a wrong check digit";
    uint32_t head = digits_value(first); /* prefix and five digits */
    uint32_t tail = digits_value(last) % 100000;
    uint32_t prefix = head / 100000;
    if (prefix != 978 && prefix != 979)
        return "isbn starts with neither 978 nor 979";
    *key = (head % 100000) * 10000 + tail / 10 + (prefix == 979 ? 1000000000 : 0) + 1;
    *number = head * UINT64_C(100000) + tail;
    return NULL;
}

/* A hash set of ISBNs. Which slot a number gets depends on a secret, so no input can be made that
 * puts them all into one place. */
typedef struct isbn_set {
    isbn_key *slots; /* 0: free */
    size_t count, capacity;
    unsigned shift;
    uint64_t multiplier;
} isbn_set;

/* `expected`: how many will come, roughly. False out of memory. */
bool isbn_set_init(isbn_set *set, size_t expected);
void isbn_set_close(isbn_set *set);

/* Where a key belongs. */
static inline size_t isbn_set_slot(const isbn_set *set, isbn_key key)
{
    return (size_t)(key * set->multiplier >> set->shift);
}

/* Has the memory a key lives in fetched, so that adding it soon does not wait for it. */
static inline void isbn_set_prefetch(const isbn_set *set, isbn_key key)
{
    __builtin_prefetch(&set->slots[isbn_set_slot(set, key)], 1);
}

/* 1 added, 0 there already, -1 out of memory. */
int isbn_set_add(isbn_set *set, isbn_key key);

#endif
