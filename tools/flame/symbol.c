/* What machine code is called, made into frames. */
#include "profile.h"

#include <stdlib.h>

static bool begins(dz_slice text, const char *with)
{
    size_t len = strlen(with);
    return text.len >= len && memcmp(text.ptr, with, len) == 0;
}

static dz_slice after(dz_slice text, size_t n)
{
    return dz_slice_make(text.ptr + n, text.len - n);
}

/* Cuts ":NUMBER" off the end; 0 when there is none. */
static uint32_t cut_number(dz_slice *text)
{
    size_t at = text->len, digits = 0;
    while (at > 0 && text->ptr[at - 1] >= '0' && text->ptr[at - 1] <= '9' && digits < 9) {
        at--;
        digits++;
    }
    if (digits == 0 || at == 0 || text->ptr[at - 1] != ':')
        return 0;
    uint32_t n = 0;
    for (size_t i = at; i < text->len; i++)
        n = n * 10 + (uint32_t)(text->ptr[i] - '0');
    text->len = at - 1;
    return n;
}

static int nibble(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

uint32_t dz_frame_file(dz_profile *p, dz_slice url)
{
    if (!begins(url, "file://"))
        return dz_profile_string(p, url);
    char *path = malloc(url.len);
    size_t len = 0;
    for (size_t i = 7; path && i < url.len; i++) {
        char c = url.ptr[i];
        int high = c == '%' && i + 2 < url.len ? nibble(url.ptr[i + 1]) : -1;
        int low = high >= 0 ? nibble(url.ptr[i + 2]) : -1;
        if (low >= 0) {
            c = (char)(high * 16 + low);
            i += 2;
        }
        path[len++] = c;
    }
    p->failed |= !path;
    uint32_t file = dz_profile_string(p, dz_slice_make(path, len));
    free(path);
    return file;
}

/* "*name /dir/file.js:12:3": the place comes after the last space that is followed by one. */
static void javascript(dz_profile *p, dz_slice text, dz_frame *frame)
{
    if (text.len && strchr("*~^+'", text.ptr[0])) {
        /* ~ is the interpreter, ^ the baseline compiler; + and * are optimising ones. */
        frame->mark = text.ptr[0] == '*' || text.ptr[0] == '+' ? '*' : '~';
        text = after(text, 1);
    }
    const char *space = memrchr(text.ptr, ' ', text.len);
    dz_slice name = text, url = DZ_LIT("");
    if (space) {
        name.len = (size_t)(space - text.ptr);
        url = after(text, name.len + 1);
    }
    uint32_t last = cut_number(&url), first = cut_number(&url);
    frame->line = first ? first : last;
    frame->column = first ? last : 0;
    frame->name = dz_profile_string(p, name.len ? name : DZ_LIT("(anonymous)"));
    frame->file = dz_frame_file(p, url);
    frame->kind = (uint8_t)dz_frame_classify(name, url);
}

static bool is_kernel(dz_slice module)
{
    return begins(module, "[kernel") || begins(module, "[guest.kernel") ||
           (begins(module, "[") && module.ptr[module.len - 1] == ']' && !begins(module, "[vdso") &&
            !begins(module, "[unknown") && !begins(module, "[JIT") && !begins(module, "[stack") &&
            !begins(module, "[heap") && !begins(module, "[anon"));
}

void dz_frame_of_symbol(dz_profile *p, dz_slice symbol, dz_slice module, dz_frame *frame)
{
    static const char *const prefixes[] = {
        "JS:", "LazyCompile:", "Function:", "Script:", "Eval:", "InterpretedFunction:"};
    *frame = (dz_frame){.kind = DZ_FRAME_NATIVE};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (begins(symbol, prefixes[i])) {
            javascript(p, after(symbol, strlen(prefixes[i])), frame);
            return;
        }
    if (begins(symbol, "wasm-function") || begins(symbol, "wasm:") || begins(symbol, "WASM:"))
        frame->kind = DZ_FRAME_WASM;
    else if (is_kernel(module))
        frame->kind = DZ_FRAME_KERNEL;
    frame->name = dz_profile_string(p, symbol);
    frame->file = dz_profile_string(p, module);
}
