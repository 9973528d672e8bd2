#include "log/line.h"

#include <donmaz/utf8.h>

#include <stdint.h>

static bool is_plain(char c)
{
    return (signed char)c >= 0x20 && c != '"' && c != '\\';
}

static size_t escape_ascii(char *to, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    static const char shorts[] = "btn\0fr"; /* for 0x08 to 0x0d; 0x0b has none */
    to[0] = '\\';
    if (c == '"' || c == '\\') {
        to[1] = (char)c;
        return 2;
    }
    if (c >= 0x08 && c <= 0x0d && c != 0x0b) {
        to[1] = shorts[c - 0x08];
        return 2;
    }
    to[1] = 'u';
    to[2] = to[3] = '0';
    to[4] = hex[c >> 4];
    to[5] = hex[c & 15];
    return 6;
}

/* One character, escaped, in out[0..6): returns the bytes written and sets *taken. */
static size_t escape_one(char *out, const char *text, size_t len, size_t *taken)
{
    unsigned char c = (unsigned char)*text;
    *taken = 1;
    if (c < 0x20 || c == '"' || c == '\\')
        return escape_ascii(out, c);
    int sequence = dz_utf8_sequence(text, len);
    if (sequence < 0) {
        static const char replacement[] = {'\xef', '\xbf', '\xbd'};
        *taken = (size_t)-sequence;
        memcpy(out, replacement, sizeof replacement);
        *taken = (size_t)-sequence;
        return sizeof replacement;
    }
    *taken = (size_t)sequence;
    memcpy(out, text, *taken);
    return *taken;
}

char *dz_escape(char *to, size_t room, dz_slice text, bool *cut)
{
    char *end = to + room - 1; /* the closing quote's */
    const char *from = text.ptr;
    size_t left = text.len;
    *to++ = '"';
    while (left > 0) {
        while (left >= 8 && end - to >= 8) {
            uint64_t eight;
            memcpy(&eight, from, 8);
            if (dz_special_bytes(eight))
                break;
            memcpy(to, &eight, 8);
            to += 8;
            from += 8;
            left -= 8;
        }
        /* A special byte is among the next eight, or the end is near. */
        for (size_t n = 0; n < 8 && left > 0;) {
            char one[8];
            if (is_plain(*from) && to < end) {
                *to++ = *from++;
                left--;
                n++;
                continue;
            }
            size_t taken, len = escape_one(one, from, left, &taken);
            if ((size_t)(end - to) < len) {
                *cut = true;
                *to++ = '"';
                return to;
            }
            memcpy(to, one, len);
            to += len;
            from += taken;
            left -= taken;
            n += taken;
        }
    }
    *to++ = '"';
    return to;
}
