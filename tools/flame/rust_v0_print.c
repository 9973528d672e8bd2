/* What is printed of Rust's v0 names. */
#include "rust_v0.h"

enum { MAX_IDENT = 256 };

void dz_v0_text(dz_v0 *p, const char *s)
{
    if (!p->silent && !p->bad)
        dz_sink_put(p->out, s, strlen(s));
}

void dz_v0_number(dz_v0 *p, uint64_t n)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    dz_v0_text(p, digits);
}

static size_t utf8(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    out[0] = (char)(first[n] | c);
    return n;
}

/* RFC 3492, with the delimiter that Rust puts in place of the hyphen. */
static bool decode(const dz_v0_ident *i, uint32_t *out, size_t *count)
{
    size_t at = 0, split = i->len;
    uint32_t c = 128, delta = 0, bias = 72;
    *count = 0;
    while (split > 0 && i->text[split - 1] != '_')
        split--;
    for (; split > 1 && at < split - 1 && *count < MAX_IDENT; at++)
        out[(*count)++] = (unsigned char)i->text[at];
    at = split;
    for (bool first = true; at < i->len; first = false) {
        uint32_t from = delta, weight = 1;
        for (uint32_t k = 36;; k += 36) {
            if (at == i->len)
                return false;
            char d = i->text[at++];
            uint32_t digit = d >= 'a' && d <= 'z'   ? (uint32_t)(d - 'a')
                             : d >= '0' && d <= '9' ? (uint32_t)(d - '0') + 26
                                                    : 99;
            uint32_t least = k <= bias ? 1 : k >= bias + 26 ? 26 : k - bias;
            if (digit == 99 || __builtin_mul_overflow(digit, weight, &digit) ||
                __builtin_add_overflow(delta, digit, &delta))
                return false;
            if ((digit / weight) < least)
                break;
            if (__builtin_mul_overflow(weight, 36 - least, &weight))
                return false;
        }
        uint32_t size = (uint32_t)*count + 1, part = (delta - from) / (first ? 700 : 2);
        bias = 0;
        for (part += part / size; part > 455; part /= 35)
            bias += 36;
        bias += 36 * part / (part + 38);
        c += delta / size;
        delta %= size;
        if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000) || *count == MAX_IDENT)
            return false;
        memmove(out + delta + 1, out + delta, (*count - delta) * sizeof *out);
        out[delta++] = c;
        (*count)++;
    }
    return true;
}

void dz_v0_ident_text(dz_v0 *p, const dz_v0_ident *i)
{
    uint32_t points[MAX_IDENT + 1];
    size_t count;
    if (p->silent || p->bad)
        return;
    if (!i->punycode) {
        dz_sink_put(p->out, i->text, i->len);
    } else if (decode(i, points, &count)) {
        for (size_t k = 0; k < count; k++) {
            char bytes[4] = {0};
            dz_sink_put(p->out, bytes, utf8(points[k], bytes));
        }
    } else {
        dz_v0_text(p, "punycode{");
        dz_sink_put(p->out, i->text, i->len);
        dz_v0_text(p, "}");
    }
}

/* 0 is "_", the others count from the innermost binder outwards. */
void dz_v0_lifetime(dz_v0 *p, uint64_t index)
{
    dz_v0_text(p, "'");
    if (index == 0) {
        dz_v0_text(p, "_");
        return;
    }
    if (index > p->bound) {
        p->bad = true;
        return;
    }
    uint64_t depth = p->bound - index;
    if (depth < 26) {
        char letter[2] = {(char)('a' + depth), 0};
        dz_v0_text(p, letter);
    } else {
        dz_v0_text(p, "_");
        dz_v0_number(p, depth);
    }
}

void dz_v0_quoted(dz_v0 *p, uint32_t c, char quote)
{
    char bytes[16] = "";
    if (c == (unsigned char)quote || c == '\\')
        snprintf(bytes, sizeof bytes, "\\%c", (char)c);
    else if (c == '\n' || c == '\t' || c == '\r' || c == 0)
        snprintf(bytes, sizeof bytes, "\\%c",
                 c == '\n'   ? 'n'
                 : c == '\t' ? 't'
                 : c == '\r' ? 'r'
                             : '0');
    else if (c < 0x20 || c == 0x7f)
        snprintf(bytes, sizeof bytes, "\\u{%x}", c);
    else
        bytes[utf8(c, bytes)] = 0;
    dz_v0_text(p, bytes);
}
