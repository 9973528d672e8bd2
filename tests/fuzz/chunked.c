/* A chunked body decodes to the same bytes however it is cut, and what was encoded decodes back. */
#include "fuzz.h"

#include "http/chunked.h"

typedef struct result {
    char *body;
    size_t len, used;
    int rc;
} result;

/* Decodes the input given in pieces of 1 to `most` bytes. The payload can't exceed the input. */
static result decode(const void *input, size_t size, size_t most)
{
    result r = {.body = malloc(size + 1)};
    HOLDS(r.body);
    dz_chunked decoder;
    dz_chunked_init(&decoder);
    unsigned seed = (unsigned)size;
    size_t given = 0;
    while (r.rc == DZ_CHUNKED_MORE && given < size) {
        seed = seed * 1103515245 + 12345;
        size_t step = 1 + (seed >> 16) % most;
        given = step < size - given ? given + step : size;
        do {
            size_t len = given - r.used, used;
            char *piece = fuzz_copy((const char *)input + r.used, len);
            dz_slice payload;
            r.rc = dz_chunked_next(&decoder, piece, len, &used, &payload);
            HOLDS(used <= len && fuzz_within(payload, piece, used));
            HOLDS((payload.len > 0) == (r.rc == DZ_CHUNKED_DATA));
            HOLDS(r.rc != DZ_CHUNKED_MORE || used == len);
            if (payload.len > 0)
                memcpy(r.body + r.len, payload.ptr, payload.len);
            r.len += payload.len;
            r.used += used;
            free(piece);
        } while (r.rc == DZ_CHUNKED_DATA);
    }
    return r;
}

static void check_round_trip(const uint8_t *data, size_t size)
{
    size_t cap = size * (DZ_CHUNK_HEADER_MAX + 3) + sizeof DZ_CHUNK_LAST, len = 0;
    char *text = malloc(cap);
    HOLDS(text);
    for (size_t at = 0; at < size;) {
        size_t chunk = 1 + data[at] % 64;
        chunk = chunk < size - at ? chunk : size - at;
        char header[DZ_CHUNK_HEADER_MAX];
        size_t header_len = dz_chunk_header(header, chunk);
        memcpy(text + len, header, header_len);
        memcpy(text + len + header_len, data + at, chunk);
        memcpy(text + len + header_len + chunk, "\r\n", 2);
        len += header_len + chunk + 2;
        at += chunk;
    }
    memcpy(text + len, DZ_CHUNK_LAST, sizeof DZ_CHUNK_LAST - 1);
    len += sizeof DZ_CHUNK_LAST - 1;
    result r = decode(text, len, 16);
    HOLDS(r.rc == DZ_CHUNKED_END && r.used == len && r.len == size);
    HOLDS(size == 0 || memcmp(r.body, data, size) == 0);
    free(r.body);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t most[] = {1, 7, 64};
    if (size > 32 * 1024)
        return 0;
    result whole = decode(data, size, size + 1);
    for (size_t i = 0; i < sizeof most / sizeof most[0]; i++) {
        result pieces = decode(data, size, most[i]);
        HOLDS(pieces.rc == whole.rc && pieces.len == whole.len);
        HOLDS(whole.rc < 0 || pieces.used == whole.used);
        HOLDS(memcmp(pieces.body, whole.body, whole.len) == 0);
        free(pieces.body);
    }
    free(whole.body);
    check_round_trip(data, size);
    return 0;
}
