#include "common/printable.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Length of the UTF-8 character at `s` and its code point; 0 where there is none (RFC 3629 4). */
static size_t read_char(const unsigned char *s, size_t len, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t size = s[0] < 0x80              ? 1
                  : (s[0] & 0xE0U) == 0xC0 ? 2
                  : (s[0] & 0xF0U) == 0xE0 ? 3
                  : (s[0] & 0xF8U) == 0xF0 ? 4
                                           : 0;
    if (size == 0 || size > len)
        return 0;
    uint32_t c = size == 1 ? s[0] : s[0] & (0x7FU >> size);
    for (size_t i = 1; i < size; i++) {
        if ((s[i] & 0xC0U) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3FU);
    }
    if (c < least[size] || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
        return 0;
    *code = c;
    return size;
}

static bool shows(uint32_t c)
{
    if (c < 0x20 || (c >= 0x7F && c <= 0x9F))
        return false;
    bool turns = c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) ||
                 (c >= 0x2066 && c <= 0x2069);
    return !turns && c != 0x2028 && c != 0x2029; /* line and paragraph separator */
}

/* How many bytes at `s` go together, and what stands for each: '\0' where they stay. */
static size_t judge(const char *s, size_t len, char *instead)
{
    uint32_t c;
    size_t size = read_char((const unsigned char *)s, len, &c);
    *instead = '\0';
    if (size == 0 || !shows(c))
        *instead = *s == '\n' || *s == '\r' || *s == '\t' ? ' ' : '?';
    return size ? size : 1;
}

static void clean(char *text, size_t len)
{
    char instead;
    for (size_t i = 0, n; i < len; i += n) {
        n = judge(text + i, len - i, &instead);
        if (instead)
            memset(text + i, instead, n);
    }
}

char *dz_text_clean(char *text)
{
    if (text)
        clean(text, strlen(text));
    return text;
}

void dz_put_clean(FILE *out, const char *text, size_t len)
{
    char instead;
    for (size_t i = 0, n; i < len; i += n) {
        n = judge(text + i, len - i, &instead);
        for (size_t k = 0; k < n; k++)
            putc(instead ? instead : text[i + k], out);
    }
}

void dz_print_clean(FILE *out, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int len = vasprintf(&text, format, args);
    va_end(args);
    if (len < 0)
        return;
    size_t body = (size_t)len;
    while (body > 0 && text[body - 1] == '\n')
        body--;
    clean(text, body);
    fwrite(text, 1, (size_t)len, out);
    free(text);
}
