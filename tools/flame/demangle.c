/* Names that compilers have packed up, unpacked. */
#include "demangle.h"
#include "symbols.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
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
static bool legacy_rust(const char *name, dz_sink *s)
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

/* Go writes a dot in a path's last element as %2e, and "·" for its own separators. */
static bool go_name(const char *name, dz_sink *s)
{
    if (!strstr(name, "%2e") && !strstr(name, "\xc2\xb7"))
        return false;
    for (const char *at = name; *at;) {
        if (strncmp(at, "%2e", 3) == 0) {
            dz_sink_put(s, ".", 1);
            at += 3;
        } else if (strncmp(at, "\xc2\xb7", 2) == 0) {
            dz_sink_put(s, ".", 1);
            at += 2;
        } else {
            dz_sink_put(s, at++, 1);
        }
    }
    return true;
}

/* C++ names are unpacked by the C++ runtime where the machine has one: nothing else needs it. */
typedef char *cxa_demangle(const char *name, char *buffer, size_t *length, int *status);

static cxa_demangle *find_cxa(void)
{
    static cxa_demangle *found;
    static bool looked;
    if (looked)
        return found;
    looked = true;
    void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "__cxa_demangle") : NULL;
    memcpy(&found, &symbol, sizeof found); /* POSIX's way from an object to a function pointer */
    return found;
}

static bool cpp_name(const char *name, dz_sink *s)
{
    cxa_demangle *demangle = find_cxa();
    int status = -1;
    char *text = demangle ? demangle(name, NULL, NULL, &status) : NULL;
    if (text && status == 0)
        dz_sink_put(s, text, strlen(text));
    free(text);
    return status == 0;
}

/* What compilers and linkers append to copies and versions of a function. */
static void cut_suffix(char *name)
{
    static const char *const suffixes[] = {".constprop.", ".isra.", ".part.",
                                           ".cold",       ".llvm.", "@"};
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        char *at = strstr(name, suffixes[i]);
        if (at && at > name)
            *at = 0;
    }
}

const char *dz_demangle(const char *name, char *out, size_t cap)
{
    dz_sink s = {.out = out, .cap = cap};
    out[0] = 0;
    if (strncmp(name, "_ZN", 3) == 0 && legacy_rust(name, &s))
        return out;
    s.len = 0;
    if (strncmp(name, "_R", 2) == 0 && dz_demangle_rust(name, &s))
        return out;
    s.len = 0;
    if (go_name(name, &s))
        return out;
    snprintf(out, cap, "%s", name);
    cut_suffix(out);
    char *plain = strncmp(out, "_Z", 2) == 0 ? strdup(out) : NULL;
    s.len = 0;
    if (plain && !cpp_name(plain, &s))
        snprintf(out, cap, "%s", plain);
    free(plain);
    return out;
}
