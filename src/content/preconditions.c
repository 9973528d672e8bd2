#include "content/preconditions.h"

#include "http/date.h"
#include "http/negotiate.h"
#include "http/split.h"

static bool parse_date(dz_slice field, int64_t now, int64_t *seconds)
{
    return field.len > 0 && dz_date_parse(dz_trim(field), now, seconds);
}

static bool matches(dz_slice field, const dz_validators *v, bool weak)
{
    if (!v->exists)
        return false;
    if (dz_slice_equal(dz_trim(field), DZ_LIT("*")))
        return true; /* also when it has no tag */
    return dz_etag_match(field, v->etag, weak);
}

/* 412, or 0. */
static int check_unmodified(const dz_conditions *c, const dz_validators *v, int64_t now)
{
    int64_t since;
    if (c->if_match.ptr)
        return matches(c->if_match, v, false) ? 0 : 412;
    if (v->has_modified && parse_date(c->if_unmodified_since, now, &since))
        return v->modified <= since ? 0 : 412;
    return 0;
}

/* Whether the client has what it would get. */
static bool is_known(const dz_conditions *c, bool reads, const dz_validators *v, int64_t now)
{
    int64_t since;
    if (c->if_none_match.ptr)
        return matches(c->if_none_match, v, true);
    if (reads && v->has_modified && parse_date(c->if_modified_since, now, &since))
        return v->modified <= since;
    return false;
}

int dz_preconditions_check(const dz_conditions *c, dz_method method, const dz_validators *v,
                           int64_t now)
{
    bool reads = method == DZ_GET || method == DZ_HEAD;
    int rc = check_unmodified(c, v, now);
    if (rc != 0 || !is_known(c, reads, v, now))
        return rc;
    return reads ? 304 : 412;
}

bool dz_if_range_holds(dz_slice if_range, const dz_validators *v, int64_t now)
{
    int64_t since;
    dz_slice value = dz_trim(if_range);
    if (!if_range.ptr)
        return true;
    if (value.len > 0 && (value.ptr[0] == '"' || value.ptr[0] == 'W')) {
        /* One tag, not a list: a comma may only be a byte of it. */
        return dz_slice_equal(value, v->etag) && v->etag.ptr[0] == '"';
    }
    return v->has_modified && v->strong_date && parse_date(value, now, &since) &&
           since == v->modified;
}

bool dz_etag_valid(dz_slice opaque)
{
    for (size_t i = 0; i < opaque.len; i++) {
        unsigned char c = (unsigned char)opaque.ptr[i];
        if (c <= ' ' || c == '"' || c == 0x7f)
            return false;
    }
    return true;
}
