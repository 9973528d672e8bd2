/* The errors by which a node sends a command elsewhere. */
#include "redis/cluster.h"

static bool take_word(dz_slice *text, dz_slice *word)
{
    const char *space = text->len > 0 ? memchr(text->ptr, ' ', text->len) : NULL;
    size_t len = space ? (size_t)(space - text->ptr) : text->len;
    *word = dz_slice_make(text->ptr, len);
    size_t used = space ? len + 1 : len;
    *text = dz_slice_make(text->ptr + used, text->len - used);
    return len > 0;
}

static bool take_number(dz_slice text, int64_t least, int64_t most, uint16_t *number)
{
    int64_t value;
    if (!dz_resp_integer(text, &value) || value < least || value > most)
        return false;
    *number = (uint16_t)value;
    return true;
}

bool dz_redis_redirect_parse(dz_redis_redirect *out, dz_slice text)
{
    dz_slice kind, slot, where;
    if (!take_word(&text, &kind) || !take_word(&text, &slot) || !take_word(&text, &where))
        return false;
    out->ask = dz_slice_equal(kind, DZ_LIT("ASK"));
    if (!out->ask && !dz_slice_equal(kind, DZ_LIT("MOVED")))
        return false;
    /* The last colon: an IPv6 address comes without brackets. */
    const char *colon = memrchr(where.ptr, ':', where.len);
    if (!colon)
        return false;
    size_t host = (size_t)(colon - where.ptr);
    out->host = dz_slice_make(where.ptr, host);
    if (dz_slice_equal(out->host, DZ_LIT("?"))) /* a node that does not know its own name */
        out->host.len = 0;
    return take_number(slot, 0, DZ_SLOTS - 1, &out->slot) &&
           take_number(dz_slice_make(colon + 1, where.len - host - 1), 1, UINT16_MAX, &out->port);
}
