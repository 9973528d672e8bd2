/* Constants in Rust's v0 names: arguments of generic types. */
#include "rust_v0.h"

static void const_number(dz_v0 *p, bool may_be_negative)
{
    uint64_t small;
    dz_v0_ident hex;
    if (may_be_negative && dz_v0_eat(p, 'n'))
        dz_v0_text(p, "-");
    dz_v0_hex(p, &small, &hex);
    if (hex.len <= 16) {
        dz_v0_number(p, small);
    } else {
        dz_v0_text(p, "0x");
        dz_v0_ident_text(p, &hex);
    }
}

static void const_char(dz_v0 *p)
{
    uint64_t c;
    dz_v0_ident hex;
    dz_v0_hex(p, &c, &hex);
    if (c > 0x10ffff || hex.len > 6) {
        p->bad = true;
        return;
    }
    dz_v0_text(p, "'");
    dz_v0_quoted(p, (uint32_t)c, '\'');
    dz_v0_text(p, "'");
}

static int nibble(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* The bytes of a string, two digits each. */
static void const_str(dz_v0 *p)
{
    uint64_t small;
    dz_v0_ident hex;
    dz_v0_hex(p, &small, &hex);
    if (hex.len % 2)
        p->bad = true;
    dz_v0_text(p, "\"");
    for (size_t i = 0; i + 1 < hex.len && !p->bad; i += 2) {
        unsigned byte = (unsigned)(nibble(hex.text[i]) * 16 + nibble(hex.text[i + 1]));
        if (byte < 0x80) {
            dz_v0_quoted(p, byte, '"');
        } else {
            char raw = (char)byte;
            if (!p->silent)
                dz_sink_put(p->out, &raw, 1);
        }
    }
    dz_v0_text(p, "\"");
}

static void const_field(dz_v0 *p)
{
    dz_v0_optional(p, 's');
    dz_v0_ident i = dz_v0_read_ident(p);
    dz_v0_ident_text(p, &i);
    dz_v0_text(p, ": ");
    dz_v0_constant(p);
}

static void const_value_of_adt(dz_v0 *p)
{
    dz_v0_path(p, true);
    switch (dz_v0_next(p)) {
    case 'U':
        break;
    case 'T':
        dz_v0_text(p, "(");
        dz_v0_list(p, dz_v0_constant, ", ");
        dz_v0_text(p, ")");
        break;
    case 'S':
        dz_v0_text(p, " { ");
        dz_v0_list(p, const_field, ", ");
        dz_v0_text(p, " }");
        break;
    default:
        p->bad = true;
    }
}

static void const_bool(dz_v0 *p)
{
    uint64_t small;
    dz_v0_ident hex;
    dz_v0_hex(p, &small, &hex);
    if (small > 1)
        p->bad = true;
    dz_v0_text(p, small ? "true" : "false");
}

void dz_v0_constant(dz_v0 *p)
{
    if (!dz_v0_enter(p))
        return;
    char tag = dz_v0_next(p);
    if (tag == 'p')
        dz_v0_text(p, "_");
    else if (tag == 'B')
        dz_v0_back(p, dz_v0_constant);
    else if (tag && strchr("aslxni", tag))
        const_number(p, true);
    else if (tag && strchr("htmyoj", tag))
        const_number(p, false);
    else if (tag == 'b')
        const_bool(p);
    else if (tag == 'c')
        const_char(p);
    else if (tag == 'e') {
        dz_v0_text(p, "*");
        const_str(p);
    } else if (tag == 'R' && dz_v0_eat(p, 'e'))
        const_str(p);
    else if (tag == 'R' || tag == 'Q') {
        dz_v0_text(p, tag == 'R' ? "&" : "&mut ");
        dz_v0_constant(p);
    } else if (tag == 'A') {
        dz_v0_text(p, "[");
        dz_v0_list(p, dz_v0_constant, ", ");
        dz_v0_text(p, "]");
    } else if (tag == 'T') {
        dz_v0_text(p, "(");
        dz_v0_text(p, dz_v0_list(p, dz_v0_constant, ", ") == 1 ? ",)" : ")");
    } else if (tag == 'V')
        const_value_of_adt(p);
    else
        p->bad = true;
    p->depth--;
}
