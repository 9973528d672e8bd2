/* Paths and types of Rust's v0 names. */
#include "rust_v0.h"

#include <ctype.h>

enum { MAX_DEPTH = 128 };

/* False when there are too many inside each other, or the output is full: nothing is gained then.
 */
bool dz_v0_enter(dz_v0 *p)
{
    if (++p->depth > MAX_DEPTH || p->out->len + 1 >= p->out->cap)
        p->bad = true;
    return !p->bad;
}

/* Runs `what` at an earlier place. */
void dz_v0_back(dz_v0 *p, void (*what)(dz_v0 *p))
{
    size_t start = p->at - 1;
    uint64_t to = dz_v0_base62(p);
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

static void binder(dz_v0 *p, void (*body)(dz_v0 *p))
{
    uint64_t more = dz_v0_optional(p, 'G');
    if (more > 1000)
        p->bad = true;
    if (more)
        dz_v0_text(p, "for<");
    for (uint64_t i = 0; i < more && !p->bad; i++) {
        p->bound++;
        dz_v0_text(p, i ? ", " : "");
        dz_v0_lifetime(p, 1);
    }
    if (more)
        dz_v0_text(p, "> ");
    if (!p->bad)
        body(p);
    p->bound -= p->bound < more ? p->bound : more;
}

static void generic_arg(dz_v0 *p)
{
    if (dz_v0_eat(p, 'L'))
        dz_v0_lifetime(p, dz_v0_base62(p));
    else if (dz_v0_eat(p, 'K'))
        dz_v0_constant(p);
    else
        dz_v0_type(p);
}

/* Up to "E"; how many. */
size_t dz_v0_list(dz_v0 *p, void (*item)(dz_v0 *p), const char *between)
{
    size_t n = 0;
    while (!p->bad && !dz_v0_eat(p, 'E')) {
        dz_v0_text(p, n++ ? between : "");
        item(p);
    }
    return n;
}

static void nested(dz_v0 *p, bool value)
{
    char space = dz_v0_next(p);
    if (!isalpha((unsigned char)space))
        p->bad = true;
    dz_v0_path(p, value);
    uint64_t which = dz_v0_optional(p, 's');
    dz_v0_ident i = dz_v0_read_ident(p);
    if (isupper((unsigned char)space)) {
        char other[2] = {space, 0};
        dz_v0_text(p, "::{");
        dz_v0_text(p, space == 'C' ? "closure" : space == 'S' ? "shim" : other);
        dz_v0_text(p, i.len ? ":" : "");
        dz_v0_ident_text(p, &i);
        dz_v0_text(p, "#");
        dz_v0_number(p, which);
        dz_v0_text(p, "}");
    } else if (i.len) {
        dz_v0_text(p, "::");
        dz_v0_ident_text(p, &i);
    }
}

/* The impl's own path only tells apart; the reference leaves it out. */
static void impl_path(dz_v0 *p)
{
    bool silent = p->silent;
    dz_v0_optional(p, 's');
    p->silent = true;
    dz_v0_path(p, false);
    p->silent = silent;
}

static void path_in_type(dz_v0 *p)
{
    dz_v0_path(p, false);
}

static void path_in_value(dz_v0 *p)
{
    dz_v0_path(p, true);
}

void dz_v0_path(dz_v0 *p, bool value)
{
    if (!dz_v0_enter(p))
        return;
    char tag = dz_v0_next(p);
    dz_v0_ident i;
    switch (tag) {
    case 'C':
        dz_v0_optional(p, 's');
        i = dz_v0_read_ident(p);
        dz_v0_ident_text(p, &i);
        break;
    case 'N':
        nested(p, value);
        break;
    case 'M':
    case 'X':
    case 'Y':
        if (tag != 'Y')
            impl_path(p);
        dz_v0_text(p, "<");
        dz_v0_type(p);
        if (tag != 'M') {
            dz_v0_text(p, " as ");
            dz_v0_path(p, false);
        }
        dz_v0_text(p, ">");
        break;
    case 'I':
        dz_v0_path(p, value);
        dz_v0_text(p, value ? "::<" : "<");
        dz_v0_list(p, generic_arg, ", ");
        dz_v0_text(p, ">");
        break;
    case 'B':
        dz_v0_back(p, value ? path_in_value : path_in_type);
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

static void function(dz_v0 *p)
{
    if (dz_v0_eat(p, 'U'))
        dz_v0_text(p, "unsafe ");
    if (dz_v0_eat(p, 'K')) {
        dz_v0_text(p, "extern \"");
        dz_v0_ident abi = {.text = "C", .len = 1};
        if (!dz_v0_eat(p, 'C'))
            abi = dz_v0_read_ident(p);
        for (size_t i = 0; i < abi.len; i++) { /* "system_unwind" stands for a hyphen */
            char c[2] = {(char)(abi.text[i] == '_' ? '-' : abi.text[i]), 0};
            dz_v0_text(p, c);
        }
        dz_v0_text(p, "\" ");
    }
    dz_v0_text(p, "fn(");
    dz_v0_list(p, dz_v0_type, ", ");
    dz_v0_text(p, ")");
    if (!dz_v0_eat(p, 'u')) { /* "-> ()" goes without saying */
        dz_v0_text(p, " -> ");
        dz_v0_type(p);
    }
}

/* A path whose list of arguments is left open for associated types; true when it is. */
static bool open_path(dz_v0 *p)
{
    bool open = false;
    if (!dz_v0_enter(p))
        return false;
    if (dz_v0_eat(p, 'I')) {
        dz_v0_path(p, false);
        dz_v0_text(p, "<");
        dz_v0_list(p, generic_arg, ", ");
        open = true;
    } else if (dz_v0_eat(p, 'B')) {
        size_t start = p->at - 1;
        uint64_t to = dz_v0_base62(p);
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
        dz_v0_path(p, false);
    }
    p->depth--;
    return open;
}

static void dyn_trait(dz_v0 *p)
{
    bool open = open_path(p);
    while (!p->bad && dz_v0_eat(p, 'p')) {
        dz_v0_text(p, open ? ", " : "<");
        open = true;
        dz_v0_ident i = dz_v0_read_ident(p);
        dz_v0_ident_text(p, &i);
        dz_v0_text(p, " = ");
        dz_v0_type(p);
    }
    dz_v0_text(p, open ? ">" : "");
}

static void dyn_bounds(dz_v0 *p)
{
    dz_v0_list(p, dyn_trait, " + ");
}

static void reference(dz_v0 *p, bool mutable)
{
    dz_v0_text(p, "&");
    if (dz_v0_eat(p, 'L')) {
        uint64_t index = dz_v0_base62(p);
        if (index) {
            dz_v0_lifetime(p, index);
            dz_v0_text(p, " ");
        }
    }
    dz_v0_text(p, mutable ? "mut " : "");
    dz_v0_type(p);
}

void dz_v0_type(dz_v0 *p)
{
    char tag = dz_v0_next(p);
    const char *name = basic(tag);
    if (name) {
        dz_v0_text(p, name);
        return;
    }
    if (!dz_v0_enter(p))
        return;
    switch (tag) {
    case 'R':
    case 'Q':
        reference(p, tag == 'Q');
        break;
    case 'P':
    case 'O':
        dz_v0_text(p, tag == 'P' ? "*const " : "*mut ");
        dz_v0_type(p);
        break;
    case 'A':
    case 'S':
        dz_v0_text(p, "[");
        dz_v0_type(p);
        if (tag == 'A') {
            dz_v0_text(p, "; ");
            dz_v0_constant(p);
        }
        dz_v0_text(p, "]");
        break;
    case 'T':
        dz_v0_text(p, "(");
        dz_v0_text(p, dz_v0_list(p, dz_v0_type, ", ") == 1 ? ",)" : ")");
        break;
    case 'F':
        binder(p, function);
        break;
    case 'D':
        dz_v0_text(p, "dyn ");
        binder(p, dyn_bounds);
        if (!dz_v0_eat(p, 'L')) {
            p->bad = true;
            break;
        }
        uint64_t index = dz_v0_base62(p);
        if (index) {
            dz_v0_text(p, " + ");
            dz_v0_lifetime(p, index);
        }
        break;
    case 'B':
        dz_v0_back(p, dz_v0_type);
        break;
    default:
        p->at--;
        dz_v0_path(p, false);
    }
    p->depth--;
}

/* What the compiler or the linker appends: ".llvm.1234", "@@GLIBC", ".cold". */
static bool is_suffix(char c)
{
    return c == '.' || c == '$' || c == '@' || c == 0;
}

bool dz_demangle_rust_v0(const char *name, dz_sink *out)
{
    size_t from = out->len;
    dz_v0 p = {.name = name + 2, .len = strlen(name + 2), .out = out};
    /* A number here would be a version of the scheme. */
    if (!isupper((unsigned char)dz_v0_peek(&p)))
        return false;
    dz_v0_path(&p, true);
    if (!p.bad && isupper((unsigned char)dz_v0_peek(&p))) { /* the crate it was made in */
        p.silent = true;
        dz_v0_path(&p, false);
    }
    if (!p.bad && is_suffix(dz_v0_peek(&p)))
        return true;
    bool full = out->len + 1 >= out->cap; /* what is there is right as far as it goes */
    if (!full) {
        out->len = from;
        out->out[from] = 0;
    }
    return full && out->cap > 64;
}
