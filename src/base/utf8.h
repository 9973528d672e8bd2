/* utf8.h: telling valid UTF-8 from anything else (RFC 3629: no overlong forms, no surrogates,
 * nothing above U+10FFFF). */
#ifndef DZ_BASE_UTF8_H
#define DZ_BASE_UTF8_H

#include <donmaz/slice.h>

/* The length of the valid sequence at the start of bytes[0..len), len > 0; 0 when there is none. */
static inline size_t dz_utf8_sequence(const char *bytes, size_t len)
{
    const unsigned char *b = (const unsigned char *)bytes;
    if (b[0] < 0x80)
        return 1;
    if (b[0] < 0xc2 || b[0] > 0xf4)
        return 0;
    size_t need = b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : 4;
    if (len < need)
        return 0;
    /* The second byte's range depends on the first (RFC 3629 4). */
    unsigned low = b[0] == 0xe0 ? 0xa0 : b[0] == 0xf0 ? 0x90 : 0x80;
    unsigned high = b[0] == 0xed ? 0x9f : b[0] == 0xf4 ? 0x8f : 0xbf;
    if (b[1] < low || b[1] > high)
        return 0;
    for (size_t i = 2; i < need; i++)
        if ((b[i] & 0xc0) != 0x80)
            return 0;
    return need;
}

static inline bool dz_utf8_valid(dz_slice text)
{
    for (size_t at = 0; at < text.len;) {
        size_t step = dz_utf8_sequence(text.ptr + at, text.len - at);
        if (step == 0)
            return false;
        at += step;
    }
    return true;
}

#endif
