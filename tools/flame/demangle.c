/* Names that compilers have packed up, unpacked. */
#include "demangle.h"
#include "symbols.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

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
    if (strncmp(name, "_ZN", 3) == 0 && dz_demangle_rust_legacy(name, &s))
        return out;
    s.len = 0;
    if (strncmp(name, "_R", 2) == 0 && dz_demangle_rust_v0(name, &s))
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
