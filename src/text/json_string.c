/* Escapes strings (RFC 8259, 7) and keeps them well-formed UTF-8 (8.1). */
#include "text/json_write.h"

#include <donmaz/utf8.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

#if defined(__SSE2__)
/* Bit i: byte i needs a closer look. As signed numbers, controls and non-ASCII bytes are < 0x20. */
static unsigned special_bits(const char *at)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
    __m128i special = _mm_cmplt_epi8(bytes, _mm_set1_epi8(0x20));
    special = _mm_or_si128(special, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')));
    special = _mm_or_si128(special, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
    return (unsigned)_mm_movemask_epi8(special);
}

static size_t plain_prefix(const char *at, size_t len)
{
    size_t i = 0;
    for (; i + 16 <= len; i += 16) {
        unsigned bits = special_bits(at + i);
        if (bits)
            return i + (size_t)__builtin_ctz(bits);
    }
    while (i < len && is_plain((unsigned char)at[i]))
        i++;
    return i;
}
#elif defined(__aarch64__)
static size_t plain_prefix(const char *at, size_t len)
{
    size_t i = 0;
    for (; i + 16 <= len; i += 16) {
        int8x16_t bytes = vld1q_s8((const int8_t *)at + i);
        uint8x16_t special = vcltq_s8(bytes, vdupq_n_s8(0x20));
        special = vorrq_u8(special, vceqq_s8(bytes, vdupq_n_s8('"')));
        special = vorrq_u8(special, vceqq_s8(bytes, vdupq_n_s8('\\')));
        if (vmaxvq_u8(special))
            break;
    }
    while (i < len && is_plain((unsigned char)at[i]))
        i++;
    return i;
}
#else
static size_t plain_prefix(const char *at, size_t len)
{
    size_t i = 0;
    while (i < len && is_plain((unsigned char)at[i]))
        i++;
    return i;
}
#endif

static void escape_ascii(dz_json *json, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    static const char shorts[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (size_t i = 0; i < sizeof shorts - 1; i += 2) {
        if ((unsigned char)shorts[i] != c)
            continue;
        char pair[2] = {'\\', shorts[i + 1]};
        dz_json_append(json, dz_slice_make(pair, 2));
        return;
    }
    char code[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
    dz_json_append(json, dz_slice_make(code, sizeof code));
}

/* The bytes from `at` that are not ASCII. Returns how many were taken. */
static size_t copy_non_ascii(dz_json *json, const char *at, size_t len)
{
    size_t good = 0;
    while (good < len && (unsigned char)at[good] >= 0x80) {
        int length = dz_utf8_sequence(at + good, len - good);
        if (length > 0) {
            good += (size_t)length;
            continue;
        }
        if (json->options & DZ_JSON_STRICT_UTF8) {
            dz_json_fail(json, DZ_E_FORMAT);
            return len;
        }
        dz_json_append(json, dz_slice_make(at, good));
        dz_json_append(json, DZ_LIT("\xef\xbf\xbd"));
        return good + (size_t)-length;
    }
    dz_json_append(json, dz_slice_make(at, good));
    return good;
}

void dz_json_escape(dz_json *json, dz_slice text)
{
    size_t i = 0;
    while (i < text.len && json->error == 0) {
        const char *at = text.ptr + i;
        size_t plain = plain_prefix(at, text.len - i);
        dz_json_append(json, dz_slice_make(at, plain));
        i += plain;
        if (i == text.len)
            break;
        if ((unsigned char)text.ptr[i] < 0x80)
            escape_ascii(json, (unsigned char)text.ptr[i++]);
        else
            i += copy_non_ascii(json, text.ptr + i, text.len - i);
    }
}
