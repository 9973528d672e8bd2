/* digits.h: decimal digits eight at a time, as the bytes of a 64-bit number (SWAR). The first digit
 * is the lowest byte, on machines of either byte order. */
#ifndef BOOKSTORE_DIGITS_H
#define BOOKSTORE_DIGITS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t digits_load(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* Whether all eight bytes are '0' to '9': their high half is 3, also after adding 6. */
static inline bool digits_all(uint64_t word)
{
    const uint64_t high = UINT64_C(0xf0f0f0f0f0f0f0f0), six = UINT64_C(0x0606060606060606);
    return ((word & high) | ((word + six) & high) >> 4) == UINT64_C(0x3333333333333333);
}

/* The number that eight digits make: pairs, then fours, then all. */
static inline uint32_t digits_value(uint64_t word)
{
    word &= UINT64_C(0x0f0f0f0f0f0f0f0f);
    word = (word * 10 + (word >> 8)) & UINT64_C(0x00ff00ff00ff00ff);
    word = (word * 100 + (word >> 16)) & UINT64_C(0x0000ffff0000ffff);
    return (uint32_t)(word * 10000 + (word >> 32));
}

/* The 1 to 8 bytes before `end`, with zeros put before them to make eight. The eight bytes before
 * `end` must be readable: copying exactly `len` would cost more than all the rest. */
static inline uint64_t digits_ending(const char *end, size_t len)
{
    uint64_t kept = UINT64_MAX << (64 - 8 * len);
    return (digits_load(end - 8) & kept) | (UINT64_C(0x3030303030303030) & ~kept);
}

#endif
