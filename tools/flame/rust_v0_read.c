/* Letters, numbers and identifiers of Rust's v0 names. */
#include "rust_v0.h"

#include <ctype.h>

char dz_v0_peek(const dz_v0 *p)
{
    return (char)(p->at < p->len ? p->name[p->at] : 0);
}

bool dz_v0_eat(dz_v0 *p, char c)
{
    if (dz_v0_peek(p) != c)
        return false;
    p->at++;
    return true;
}

char dz_v0_next(dz_v0 *p)
{
    if (p->at >= p->len) {
        p->bad = true;
        return 0;
    }
    return p->name[p->at++];
}

uint64_t dz_v0_base62(dz_v0 *p)
{
    uint64_t n = 0;
    if (dz_v0_eat(p, '_'))
        return 0;
    while (!p->bad) {
        char c = dz_v0_next(p);
        if (c == '_')
            break;
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'z' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'Z' ? (unsigned)(c - 'A') + 36
                                                : 99;
        if (digit == 99 || n > (UINT64_MAX - digit) / 62)
            p->bad = true;
        n = n * 62 + digit;
    }
    if (n == UINT64_MAX)
        p->bad = true;
    return n + 1;
}

uint64_t dz_v0_optional(dz_v0 *p, char tag)
{
    return dz_v0_eat(p, tag) ? dz_v0_base62(p) + 1 : 0;
}

dz_v0_ident dz_v0_read_ident(dz_v0 *p)
{
    dz_v0_ident i = {.punycode = dz_v0_eat(p, 'u')};
    size_t len = 0;
    if (!isdigit((unsigned char)dz_v0_peek(p)))
        p->bad = true;
    else if (!dz_v0_eat(p, '0'))
        while (isdigit((unsigned char)dz_v0_peek(p)) && len < 100000)
            len = len * 10 + (size_t)(dz_v0_next(p) - '0');
    dz_v0_eat(p, '_');
    if (p->bad || len > p->len - p->at) {
        p->bad = true;
        return (dz_v0_ident){.text = ""};
    }
    i.text = p->name + p->at;
    i.len = len;
    p->at += len;
    return i;
}

/* Hexadecimal digits up to "_"; small numbers are shown in decimal. */
void dz_v0_hex(dz_v0 *p, uint64_t *small, dz_v0_ident *hex)
{
    *hex = (dz_v0_ident){.text = p->name + p->at};
    *small = 0;
    while (!p->bad && !dz_v0_eat(p, '_')) {
        char c = dz_v0_next(p);
        if (!isdigit((unsigned char)c) && !(c >= 'a' && c <= 'f')) {
            p->bad = true;
            return;
        }
        *small = *small * 16 + (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
        hex->len++;
    }
}
