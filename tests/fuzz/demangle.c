/* Names as compilers pack them up: whatever they hold, what comes out is ended, fits, and is no
 * accident of the room there is for it. */
#include "fuzz.h"

#include "flame/demangle.h"
#include "flame/symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const prefixes[] = {"", "_R", "_ZN"};
    char *name = malloc(size + 4);
    HOLDS(name);
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        size_t len = strlen(prefixes[i]);
        memcpy(name, prefixes[i], len);
        memcpy(name + len, data, size);
        name[len + size] = 0;
        static char large[65536];
        char small[16];
        HOLDS(dz_demangle(name, large, sizeof large) == large && strlen(large) < sizeof large);
        HOLDS(dz_demangle(name, small, sizeof small) == small && strlen(small) < sizeof small);
        char whole[512] = "";
        dz_sink sink = {.out = whole, .cap = sizeof whole};
        if (len == 2 && !dz_demangle_rust_v0(name, &sink))
            HOLDS(sink.len == 0 && whole[0] == 0);
    }
    free(name);
    return 0;
}
