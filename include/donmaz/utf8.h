/* utf8.h: telling well-formed UTF-8 from anything else (RFC 3629; Unicode 15, table 3-7): no
 * overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef DONMAZ_UTF8_H
#define DONMAZ_UTF8_H

#include <donmaz/slice.h>

/* The length of the well-formed sequence at `at` (1 to 4), or minus the number of bytes (1 to 3)
 * that one replacement character stands for: the longest start of a well-formed sequence, or one
 * byte. `len` is at least 1. */
static inline int dz_utf8_sequence(const char *at, size_t len)
{
    const unsigned char *s = (const unsigned char *)at;
    unsigned char low = 0x80, high = 0xbf; /* range of the second byte */
    int want;
    if (s[0] < 0x80)
        return 1;
    if (s[0] >= 0xc2 && s[0] <= 0xdf) {
        want = 2;
    } else if (s[0] >= 0xe0 && s[0] <= 0xef) {
        want = 3;
        low = s[0] == 0xe0 ? 0xa0 : low;   /* not shorter than it must be */
        high = s[0] == 0xed ? 0x9f : high; /* no surrogates */
    } else if (s[0] >= 0xf0 && s[0] <= 0xf4) {
        want = 4;
        low = s[0] == 0xf0 ? 0x90 : low;
        high = s[0] == 0xf4 ? 0x8f : high; /* at most U+10FFFF */
    } else {
        return -1;
    }
    for (int i = 1; i < want; i++) {
        if ((size_t)i == len || s[i] < low || s[i] > high)
            return -i;
        low = 0x80;
        high = 0xbf;
    }
    return want;
}

/* Whether all of it is well-formed. */
static inline bool dz_utf8_valid(dz_slice text)
{
    for (size_t at = 0; at < text.len;) {
        int step = dz_utf8_sequence(text.ptr + at, text.len - at);
        if (step < 0)
            return false;
        at += (size_t)step;
    }
    return true;
}

#endif
