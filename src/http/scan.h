/* scan.h: the one loop over every byte of a message head: find the next control byte.
 *
 * A control byte is anything below 0x20 but HT, and DEL. In a valid head it can only be the CR of a
 * line end, so this one scan both splits lines and refuses NUL, bare CR and LF and the like. */
#ifndef DZ_HTTP_SCAN_H
#define DZ_HTTP_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#if defined __SSE2__
#include <emmintrin.h>
#endif

static inline bool dz_scan_is_control(char c)
{
    unsigned char byte = (unsigned char)c;
    return (byte < 0x20 && byte != '\t') || byte == 0x7f;
}

/* The first control byte in [at, end), or end. The plain form of dz_scan_control. */
static inline const char *dz_scan_control_scalar(const char *at, const char *end)
{
    while (at < end && !dz_scan_is_control(*at))
        at++;
    return at;
}

#if defined __SSE2__

/* One bit for each control byte among the sixteen at `at`. */
static inline unsigned dz_scan_mask16(const char *at)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
    __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
    __m128i tab = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\t'));
    __m128i del = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7f));
    return (unsigned)_mm_movemask_epi8(_mm_or_si128(_mm_andnot_si128(tab, low), del));
}

/* Skips bytes that are no control bytes, up to some point before `end`, with wider vectors where
 * the processor has them. Pays from a hundred bytes on. */
const char *dz_scan_skip(const char *at, const char *end);

/* The first control byte in [at, end), or end. `begin` <= at is the start of the readable memory:
 * a tail shorter than a vector is read as the last whole vector before end, where one fits. */
static inline const char *dz_scan_control(const char *begin, const char *at, const char *end)
{
    enum { SHORT = 128 }; /* most lines end within it */
    const char *start = at;
    while (end - at >= 16) {
        unsigned mask = dz_scan_mask16(at);
        if (mask)
            return at + __builtin_ctz(mask);
        at += 16;
        if (at - start == SHORT)
            at = dz_scan_skip(at, end);
    }
    if (end - begin < 16)
        return dz_scan_control_scalar(at, end);
    unsigned seen = 16 - (unsigned)(end - at);
    unsigned mask = dz_scan_mask16(end - 16) >> seen;
    return mask ? at + __builtin_ctz(mask) : end;
}

#else

static inline const char *dz_scan_control(const char *begin, const char *at, const char *end)
{
    (void)begin;
    return dz_scan_control_scalar(at, end);
}

#endif
#endif
