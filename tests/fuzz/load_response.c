/* A load generator's reading of responses: however the bytes are cut, it finds the same responses,
 * never reads beyond what came, and ends each at the same place. */
#include "fuzz.h"

#include "load/response.h"

typedef struct outcome {
    load_progress progress;
    load_fault fault;
    unsigned status, responses;
    uint64_t bytes;
    size_t used;
    bool mismatch;
} outcome;

/* Reads the input in pieces of 1 to `most` bytes until something is wrong or nothing is left. */
static outcome read_all(const uint8_t *data, size_t size, size_t most)
{
    outcome o = {.progress = LOAD_MORE};
    load_response r = {.expected = DZ_LIT("ok")};
    unsigned seed = (unsigned)size;
    size_t at = 0;
    while (at < size && o.progress != LOAD_BAD) {
        seed = seed * 1103515245 + 12345;
        size_t len = 1 + (seed >> 16) % most, used = 0;
        len = len < size - at ? len : size - at;
        char *piece = fuzz_copy(data + at, len);
        o.progress = load_response_feed(&r, piece, len, &used);
        free(piece);
        HOLDS(used <= len);
        HOLDS(o.progress != LOAD_MORE || used == len);
        HOLDS(o.progress == LOAD_BAD || used > 0);
        at += used;
        if (o.progress == LOAD_DONE) {
            HOLDS(r.status >= 200 && r.status <= 999);
            o.status = r.status;
            o.bytes += r.bytes;
            o.mismatch = o.mismatch || r.mismatch;
            o.responses++;
            load_response_reset(&r);
            r.expected = DZ_LIT("ok");
            r.head_only = o.responses % 3 == 2;
        }
    }
    o.fault = o.progress == LOAD_BAD ? r.fault : LOAD_FAULT_NONE;
    HOLDS(o.progress != LOAD_BAD || o.fault != LOAD_FAULT_NONE);
    if (o.progress == LOAD_MORE)
        o.progress = load_response_end(&r) == LOAD_DONE ? LOAD_DONE : LOAD_MORE;
    load_response_free(&r);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    outcome whole = read_all(data, size, size > 0 ? size : 1);
    static const size_t cuts[] = {1, 2, 7, 64};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        outcome cut = read_all(data, size, cuts[i]);
        HOLDS(cut.responses == whole.responses && cut.status == whole.status);
        HOLDS(cut.bytes == whole.bytes && cut.mismatch == whole.mismatch);
        HOLDS(cut.progress == whole.progress);
        HOLDS(cut.fault == whole.fault);
    }
    return 0;
}
