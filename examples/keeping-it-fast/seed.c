#include "seed.h"

#include <sys/random.h>
#include <time.h>

static char digits[SEED_DIGITS + 1];

bool seed_make(void)
{
    unsigned char bytes[SEED_BYTES];
    for (size_t have = 0; have < sizeof bytes;) {
        ssize_t n = getrandom(bytes + have, sizeof bytes - have, 0);
        if (n < 0)
            return false;
        have += (size_t)n;
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        digits[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        digits[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    return true;
}

dz_slice seed_data(void)
{
    return dz_slice_make(digits, SEED_DIGITS);
}

uint64_t seed_timestamp(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (uint64_t)now.tv_sec / 60 * 60000;
}

dz_slice seed_url(dz_request *req)
{
    dz_slice path = dz_req_path(req), query = dz_req_query_text(req);
    if (query.len == 0)
        return path;
    char *text = dz_req_alloc(req, path.len + 1 + query.len);
    if (!text)
        return path;
    memcpy(text, path.ptr, path.len);
    text[path.len] = '?';
    memcpy(text + path.len + 1, query.ptr, query.len);
    return dz_slice_make(text, path.len + 1 + query.len);
}
