/* Rust's older name scheme. */
#include "demangle.h"

#include <ctype.h>
#include <stdlib.h>

/* "$LT$" and the like in Rust's older scheme. */
static size_t put_escape(dz_sink *s, const char *at, size_t len)
{
    static const struct {
        const char *code, *text;
    } table[] = {{"$SP$", "@"}, {"$BP$", "*"}, {"$RF$", "&"}, {"$LT$", "<"},
                 {"$GT$", ">"}, {"$LP$", "("}, {"$RP$", ")"}, {"$C$", ","}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        size_t n = strlen(table[i].code);
        if (len >= n && memcmp(at, table[i].code, n) == 0) {
            dz_sink_put(s, table[i].text, strlen(table[i].text));
            return n;
        }
    }
    if (len >= 4 && at[1] == 'u') { /* "$u20$" */
        char *end;
        unsigned long c = strtoul(at + 2, &end, 16);
        if (*end == '$' && c >= 0x20 && c < 0x7f && (size_t)(end + 1 - at) <= len) {
            char byte = (char)c;
            dz_sink_put(s, &byte, 1);
            return (size_t)(end + 1 - at);
        }
    }
    return 0;
}

static void put_legacy_part(dz_sink *s, const char *at, size_t len)
{
    if (len > 1 && at[0] == '_' && at[1] == '$') { /* "_$LT$": a leading escape is set off */
        at++;
        len--;
    }
    while (len > 0) {
        size_t n = at[0] == '$' ? put_escape(s, at, len) : 0;
        if (!n && len > 1 && at[0] == '.' && at[1] == '.') {
            dz_sink_put(s, "::", 2);
            n = 2;
        } else if (!n) {
            dz_sink_put(s, at, 1);
            n = 1;
        }
        at += n;
        len -= n;
    }
}

static bool is_hash(const char *at, size_t len)
{
    if (len != 17 || at[0] != 'h')
        return false;
    for (size_t i = 1; i < len; i++)
        if (!isxdigit((unsigned char)at[i]))
            return false;
    return true;
}

/* Rust's older scheme: _ZN, parts with their lengths, the last one "h" and a hash, E. C++ names
 * look alike but for the hash; those are left alone. */
bool dz_demangle_rust_legacy(const char *name, dz_sink *s)
{
    const char *at = name + 3;
    size_t parts = 0;
    bool hash = false;
    while (isdigit((unsigned char)*at)) {
        char *text;
        unsigned long len = strtoul(at, &text, 10);
        if (len == 0 || len > strlen(text))
            return false;
        hash = is_hash(text, len);
        if (!hash) {
            if (parts++)
                dz_sink_put(s, "::", 2);
            put_legacy_part(s, text, len);
        }
        at = text + len;
    }
    return hash && *at == 'E';
}
