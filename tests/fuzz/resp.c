/* Whatever a server sends, the reader gives the same replies however the bytes are cut, keeps its
 * limits, and frees everything. */
#include "fuzz.h"

#include "../unit/redis/dump.h"
#include "redis/cluster.h"

/* Feeds the input in pieces of 1 to `most` bytes; what came out, as text. */
static char *read_all(const uint8_t *data, size_t size, size_t most)
{
    static dz_resp resp;
    const dz_resp_limits limits = {.depth = 8, .elements = 1000, .bytes = 1 << 20};
    char *text;
    size_t text_size, at = 0;
    FILE *out = open_memstream(&text, &text_size);
    HOLDS(out);
    unsigned seed = (unsigned)size;
    int rc = 0;
    dz_resp_init(&resp, &limits);
    while (at < size && rc >= 0) {
        struct iovec iov[2];
        int pieces = dz_resp_room(&resp, iov);
        HOLDS(pieces >= 1 && pieces <= 2 && iov[0].iov_len > 0);
        seed = seed * 1103515245 + 12345;
        size_t step = 1 + (seed >> 16) % most, done = 0;
        if (step > size - at)
            step = size - at;
        for (int i = 0; i < pieces && done < step; i++) {
            size_t n = step - done < iov[i].iov_len ? step - done : iov[i].iov_len;
            memcpy(iov[i].iov_base, data + at + done, n);
            done += n;
        }
        dz_resp_filled(&resp, done);
        at += done;
        dz_reply *reply;
        while ((rc = dz_resp_next(&resp, &reply)) == 1) {
            dump_value(out, reply);
            dz_redis_redirect to;
            if (dz_reply_kind_of(reply) == DZ_REPLY_ERROR &&
                dz_redis_redirect_parse(&to, dz_reply_text(reply)))
                HOLDS(to.slot < DZ_SLOTS && to.port > 0);
            fputc('\n', out);
            dz_reply_free(reply);
        }
    }
    /* An endless line is noticed when the input is full, so the error depends on the cutting;
     * which replies came before does not. */
    if (rc < 0)
        fputs("broken", out);
    dz_resp_close(&resp);
    fclose(out);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *whole = read_all(data, size, 16384);
    static const size_t cuts[] = {1, 3, 100};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        char *cut = read_all(data, size, cuts[i]);
        HOLDS(strcmp(whole, cut) == 0);
        free(cut);
    }
    free(whole);
    return 0;
}
