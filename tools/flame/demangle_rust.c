/* Rust's newer name scheme (RFC 2603, "v0"), as the reference shows names in short: hashes of
 * crates and types of constants are left out. A recursive descent over the grammar; back references
 * go to an earlier place of the name, so depth and length are bounded. */
#include "demangle.h"

#include <ctype.h>

enum { MAX_DEPTH = 128, MAX_IDENT = 256 };

typedef struct parser {
    const char *name; /* without the prefix: what back references count in */
    size_t len, at;
    unsigned depth;
    uint64_t bound; /* lifetimes named by the binders around */
    bool bad, silent;
    dz_sink *out;
} parser;

typedef struct ident {
    const char *text;
    size_t len;
    bool punycode;
} ident;

static void path(parser *p, bool value);
static void type(parser *p);
static void constant(parser *p);

static void text(parser *p, const char *s)
{
    if (!p->silent && !p->bad)
        dz_sink_put(p->out, s, strlen(s));
}

static void number_text(parser *p, uint64_t n)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    text(p, digits);
}

static char peek(const parser *p)
{
    return (char)(p->at < p->len ? p->name[p->at] : 0);
}

static bool eat(parser *p, char c)
{
    if (peek(p) != c)
        return false;
    p->at++;
    return true;
}

static char next(parser *p)
{
    if (p->at >= p->len) {
        p->bad = true;
        return 0;
    }
    return p->name[p->at++];
}

/* False when there are too many inside each other, or the output is full: nothing is gained then.
 */
static bool enter(parser *p)
{
    if (++p->depth > MAX_DEPTH || p->out->len + 1 >= p->out->cap)
        p->bad = true;
    return !p->bad;
}

/* "_" is 0, "0_" is 1. */
static uint64_t base62(parser *p)
{
    uint64_t n = 0;
    if (eat(p, '_'))
        return 0;
    while (!p->bad) {
        char c = next(p);
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

/* 0 when it is not there, else one more than its number. */
static uint64_t optional62(parser *p, char tag)
{
    return eat(p, tag) ? base62(p) + 1 : 0;
}

static ident bare_ident(parser *p)
{
    ident i = {.punycode = eat(p, 'u')};
    size_t len = 0;
    if (!isdigit((unsigned char)peek(p)))
        p->bad = true;
    else if (!eat(p, '0'))
        while (isdigit((unsigned char)peek(p)) && len < 100000)
            len = len * 10 + (size_t)(next(p) - '0');
    eat(p, '_');
    if (p->bad || len > p->len - p->at) {
        p->bad = true;
        return (ident){.text = ""};
    }
    i.text = p->name + p->at;
    i.len = len;
    p->at += len;
    return i;
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
static bool decode(const ident *i, uint32_t *out, size_t *count)
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

static void ident_text(parser *p, const ident *i)
{
    uint32_t points[MAX_IDENT + 1];
    size_t count;
    if (p->silent || p->bad)
        return;
    if (!i->punycode) {
        dz_sink_put(p->out, i->text, i->len);
    } else if (decode(i, points, &count)) {
        for (size_t k = 0; k < count; k++) {
            char bytes[4];
            dz_sink_put(p->out, bytes, utf8(points[k], bytes));
        }
    } else {
        text(p, "punycode{");
        dz_sink_put(p->out, i->text, i->len);
        text(p, "}");
    }
}

/* Runs `what` at an earlier place. */
static void back(parser *p, void (*what)(parser *p))
{
    size_t start = p->at - 1;
    uint64_t to = base62(p);
    if (p->bad || to >= start) {
        p->bad = true;
        return;
    }
    size_t here = p->at;
    p->at = (size_t)to;
    if (!p->silent)
        what(p);
    p->at = here;
}

/* 0 is "_", the others count from the innermost binder outwards. */
static void lifetime(parser *p, uint64_t index)
{
    text(p, "'");
    if (index == 0) {
        text(p, "_");
        return;
    }
    if (index > p->bound) {
        p->bad = true;
        return;
    }
    uint64_t depth = p->bound - index;
    if (depth < 26) {
        char letter[2] = {(char)('a' + depth), 0};
        text(p, letter);
    } else {
        text(p, "_");
        number_text(p, depth);
    }
}

static void binder(parser *p, void (*body)(parser *p))
{
    uint64_t more = optional62(p, 'G');
    if (more > 1000)
        p->bad = true;
    if (more)
        text(p, "for<");
    for (uint64_t i = 0; i < more && !p->bad; i++) {
        p->bound++;
        text(p, i ? ", " : "");
        lifetime(p, 1);
    }
    if (more)
        text(p, "> ");
    if (!p->bad)
        body(p);
    p->bound -= p->bound < more ? p->bound : more;
}

static void generic_arg(parser *p)
{
    if (eat(p, 'L'))
        lifetime(p, base62(p));
    else if (eat(p, 'K'))
        constant(p);
    else
        type(p);
}

/* Up to "E"; how many. */
static size_t list(parser *p, void (*item)(parser *p), const char *between)
{
    size_t n = 0;
    while (!p->bad && !eat(p, 'E')) {
        text(p, n++ ? between : "");
        item(p);
    }
    return n;
}

static void nested(parser *p, bool value)
{
    char space = next(p);
    if (!isalpha((unsigned char)space))
        p->bad = true;
    path(p, value);
    uint64_t which = optional62(p, 's');
    ident i = bare_ident(p);
    if (isupper((unsigned char)space)) {
        char other[2] = {space, 0};
        text(p, "::{");
        text(p, space == 'C' ? "closure" : space == 'S' ? "shim" : other);
        text(p, i.len ? ":" : "");
        ident_text(p, &i);
        text(p, "#");
        number_text(p, which);
        text(p, "}");
    } else if (i.len) {
        text(p, "::");
        ident_text(p, &i);
    }
}

/* The impl's own path only tells apart; the reference leaves it out. */
static void impl_path(parser *p)
{
    bool silent = p->silent;
    optional62(p, 's');
    p->silent = true;
    path(p, false);
    p->silent = silent;
}

static void path_in_type(parser *p)
{
    path(p, false);
}

static void path_in_value(parser *p)
{
    path(p, true);
}

static void path(parser *p, bool value)
{
    if (!enter(p))
        return;
    char tag = next(p);
    ident i;
    switch (tag) {
    case 'C':
        optional62(p, 's');
        i = bare_ident(p);
        ident_text(p, &i);
        break;
    case 'N':
        nested(p, value);
        break;
    case 'M':
    case 'X':
    case 'Y':
        if (tag != 'Y')
            impl_path(p);
        text(p, "<");
        type(p);
        if (tag != 'M') {
            text(p, " as ");
            path(p, false);
        }
        text(p, ">");
        break;
    case 'I':
        path(p, value);
        text(p, value ? "::<" : "<");
        list(p, generic_arg, ", ");
        text(p, ">");
        break;
    case 'B':
        back(p, value ? path_in_value : path_in_type);
        break;
    default:
        p->bad = true;
    }
    p->depth--;
}

static const char *basic(char tag)
{
    static const char *const names[26] = {"i8",   "bool",  "char",  "f64", "str", "f32", NULL,
                                          "u8",   "isize", "usize", NULL,  "i32", "u32", "i128",
                                          "u128", "_",     NULL,    NULL,  "i16", "u16", "()",
                                          "...",  NULL,    "i64",   "u64", "!"};
    return tag >= 'a' && tag <= 'z' ? names[tag - 'a'] : NULL;
}

static void function(parser *p)
{
    if (eat(p, 'U'))
        text(p, "unsafe ");
    if (eat(p, 'K')) {
        text(p, "extern \"");
        ident abi = {.text = "C", .len = 1};
        if (!eat(p, 'C'))
            abi = bare_ident(p);
        for (size_t i = 0; i < abi.len; i++) { /* "system_unwind" stands for a hyphen */
            char c[2] = {(char)(abi.text[i] == '_' ? '-' : abi.text[i]), 0};
            text(p, c);
        }
        text(p, "\" ");
    }
    text(p, "fn(");
    list(p, type, ", ");
    text(p, ")");
    if (!eat(p, 'u')) { /* "-> ()" goes without saying */
        text(p, " -> ");
        type(p);
    }
}

/* A path whose list of arguments is left open for associated types; true when it is. */
static bool open_path(parser *p)
{
    bool open = false;
    if (!enter(p))
        return false;
    if (eat(p, 'I')) {
        path(p, false);
        text(p, "<");
        list(p, generic_arg, ", ");
        open = true;
    } else if (eat(p, 'B')) {
        size_t start = p->at - 1;
        uint64_t to = base62(p);
        if (p->bad || to >= start) {
            p->bad = true;
            return false;
        }
        size_t here = p->at;
        p->at = (size_t)to;
        if (!p->silent)
            open = open_path(p);
        p->at = here;
    } else {
        path(p, false);
    }
    p->depth--;
    return open;
}

static void dyn_trait(parser *p)
{
    bool open = open_path(p);
    while (!p->bad && eat(p, 'p')) {
        text(p, open ? ", " : "<");
        open = true;
        ident i = bare_ident(p);
        ident_text(p, &i);
        text(p, " = ");
        type(p);
    }
    text(p, open ? ">" : "");
}

static void dyn_bounds(parser *p)
{
    list(p, dyn_trait, " + ");
}

static void reference(parser *p, bool mutable)
{
    text(p, "&");
    if (eat(p, 'L')) {
        uint64_t index = base62(p);
        if (index) {
            lifetime(p, index);
            text(p, " ");
        }
    }
    text(p, mutable ? "mut " : "");
    type(p);
}

static void type(parser *p)
{
    char tag = next(p);
    const char *name = basic(tag);
    if (name) {
        text(p, name);
        return;
    }
    if (!enter(p))
        return;
    switch (tag) {
    case 'R':
    case 'Q':
        reference(p, tag == 'Q');
        break;
    case 'P':
    case 'O':
        text(p, tag == 'P' ? "*const " : "*mut ");
        type(p);
        break;
    case 'A':
    case 'S':
        text(p, "[");
        type(p);
        if (tag == 'A') {
            text(p, "; ");
            constant(p);
        }
        text(p, "]");
        break;
    case 'T':
        text(p, "(");
        text(p, list(p, type, ", ") == 1 ? ",)" : ")");
        break;
    case 'F':
        binder(p, function);
        break;
    case 'D':
        text(p, "dyn ");
        binder(p, dyn_bounds);
        if (!eat(p, 'L')) {
            p->bad = true;
            break;
        }
        uint64_t index = base62(p);
        if (index) {
            text(p, " + ");
            lifetime(p, index);
        }
        break;
    case 'B':
        back(p, type);
        break;
    default:
        p->at--;
        path(p, false);
    }
    p->depth--;
}

/* Hexadecimal digits up to "_"; small numbers are shown in decimal. */
static void digits(parser *p, uint64_t *small, ident *hex)
{
    *hex = (ident){.text = p->name + p->at};
    *small = 0;
    while (!p->bad && !eat(p, '_')) {
        char c = next(p);
        if (!isdigit((unsigned char)c) && !(c >= 'a' && c <= 'f')) {
            p->bad = true;
            return;
        }
        *small = *small * 16 + (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
        hex->len++;
    }
}

static void const_number(parser *p, bool may_be_negative)
{
    uint64_t small;
    ident hex;
    if (may_be_negative && eat(p, 'n'))
        text(p, "-");
    digits(p, &small, &hex);
    if (hex.len <= 16) {
        number_text(p, small);
    } else {
        text(p, "0x");
        ident_text(p, &hex);
    }
}

static void quoted(parser *p, uint32_t c, char quote)
{
    char bytes[16];
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
    text(p, bytes);
}

static void const_char(parser *p)
{
    uint64_t c;
    ident hex;
    digits(p, &c, &hex);
    if (c > 0x10ffff || hex.len > 6) {
        p->bad = true;
        return;
    }
    text(p, "'");
    quoted(p, (uint32_t)c, '\'');
    text(p, "'");
}

static int nibble(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* The bytes of a string, two digits each. */
static void const_str(parser *p)
{
    uint64_t small;
    ident hex;
    digits(p, &small, &hex);
    if (hex.len % 2)
        p->bad = true;
    text(p, "\"");
    for (size_t i = 0; i + 1 < hex.len && !p->bad; i += 2) {
        unsigned byte = (unsigned)(nibble(hex.text[i]) * 16 + nibble(hex.text[i + 1]));
        if (byte < 0x80) {
            quoted(p, byte, '"');
        } else {
            char raw = (char)byte;
            if (!p->silent)
                dz_sink_put(p->out, &raw, 1);
        }
    }
    text(p, "\"");
}

static void const_field(parser *p)
{
    optional62(p, 's');
    ident i = bare_ident(p);
    ident_text(p, &i);
    text(p, ": ");
    constant(p);
}

static void const_value_of_adt(parser *p)
{
    path(p, true);
    switch (next(p)) {
    case 'U':
        break;
    case 'T':
        text(p, "(");
        list(p, constant, ", ");
        text(p, ")");
        break;
    case 'S':
        text(p, " { ");
        list(p, const_field, ", ");
        text(p, " }");
        break;
    default:
        p->bad = true;
    }
}

static void const_bool(parser *p)
{
    uint64_t small;
    ident hex;
    digits(p, &small, &hex);
    if (small > 1)
        p->bad = true;
    text(p, small ? "true" : "false");
}

static void constant(parser *p)
{
    if (!enter(p))
        return;
    char tag = next(p);
    if (tag == 'p')
        text(p, "_");
    else if (tag == 'B')
        back(p, constant);
    else if (tag && strchr("aslxni", tag))
        const_number(p, true);
    else if (tag && strchr("htmyoj", tag))
        const_number(p, false);
    else if (tag == 'b')
        const_bool(p);
    else if (tag == 'c')
        const_char(p);
    else if (tag == 'e') {
        text(p, "*");
        const_str(p);
    } else if ((tag == 'R' || tag == 'Q') && tag == 'R' && eat(p, 'e'))
        const_str(p);
    else if (tag == 'R' || tag == 'Q') {
        text(p, tag == 'R' ? "&" : "&mut ");
        constant(p);
    } else if (tag == 'A') {
        text(p, "[");
        list(p, constant, ", ");
        text(p, "]");
    } else if (tag == 'T') {
        text(p, "(");
        text(p, list(p, constant, ", ") == 1 ? ",)" : ")");
    } else if (tag == 'V')
        const_value_of_adt(p);
    else
        p->bad = true;
    p->depth--;
}

/* What the compiler or the linker appends: ".llvm.1234", "@@GLIBC", ".cold". */
static bool is_suffix(char c)
{
    return c == '.' || c == '$' || c == '@' || c == 0;
}

bool dz_demangle_rust(const char *name, dz_sink *out)
{
    size_t from = out->len;
    parser p = {.name = name + 2, .len = strlen(name + 2), .out = out};
    if (!isupper((unsigned char)peek(&p))) /* a number here would be a version of the scheme */
        return false;
    path(&p, true);
    if (!p.bad && isupper((unsigned char)peek(&p))) { /* the crate it was made in */
        p.silent = true;
        path(&p, false);
    }
    if (!p.bad && is_suffix(peek(&p)))
        return true;
    bool full = out->len + 1 >= out->cap; /* what is there is right as far as it goes */
    if (!full) {
        out->len = from;
        out->out[from] = 0;
    }
    return full && out->cap > 64;
}
