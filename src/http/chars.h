/* chars.h: which bytes may stand where in a message (RFC 9110 5.6, RFC 9112 3.2, RFC 3986). */
#ifndef DZ_HTTP_CHARS_H
#define DZ_HTTP_CHARS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    DZ_CHAR_TOKEN = 1,  /* tchar: methods, field names */
    DZ_CHAR_PATH = 2,   /* in a request target before the '?' */
    DZ_CHAR_QUERY = 4,  /* and after it */
    DZ_CHAR_HOST = 8,   /* a registered name or IPv4 address */
    DZ_CHAR_IP = 16,    /* between the brackets of an IPv6 address */
    DZ_CHAR_COOKIE = 32 /* cookie-octet (RFC 6265 4.1.1) */
};

extern const uint8_t dz_chars[256];

static inline bool dz_char_is(char c, int classes)
{
    return (dz_chars[(unsigned char)c] & classes) != 0;
}

static inline bool dz_char_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The value of a hexadecimal digit, -1 for any other byte. */
static inline int dz_char_hex(char c)
{
    if (dz_char_digit(c))
        return c - '0';
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* White space between tokens: OWS (RFC 9110 5.6.3). */
static inline bool dz_char_blank(char c)
{
    return c == ' ' || c == '\t';
}

#endif
