#include "http/negotiate.h"

#include "http/split.h"

/* qvalue (RFC 9110 12.4.2) in thousandths: "1", "0.5", "0.125", "1.000"; -1 malformed. */
static int parse_weight(dz_slice text)
{
    if (text.len == 0 || text.len > 5 || (text.ptr[0] != '0' && text.ptr[0] != '1'))
        return -1;
    int weight = (text.ptr[0] - '0') * 1000, unit = 100;
    if (text.len > 1 && text.ptr[1] != '.')
        return -1;
    for (size_t i = 2; i < text.len; i++, unit /= 10) {
        if (!dz_char_digit(text.ptr[i]))
            return -1;
        weight += (text.ptr[i] - '0') * unit;
    }
    return weight <= 1000 ? weight : -1;
}

/* The weight among an entry's parameters; 1000 when it has none. */
static int entry_weight(dz_slice parameters)
{
    while (parameters.ptr) {
        dz_slice parameter;
        dz_split_take(&parameters, ';', &parameter);
        if (parameter.len >= 2 && (parameter.ptr[0] | 0x20) == 'q' && parameter.ptr[1] == '=') {
            int weight = parse_weight(dz_slice_make(parameter.ptr + 2, parameter.len - 2));
            return weight < 0 ? 0 : weight;
        }
    }
    return 1000;
}

int dz_accept_encoding(dz_slice field, dz_slice coding)
{
    int any = -1;
    while (field.ptr) {
        dz_slice entry, name;
        dz_split_take(&field, ',', &entry);
        dz_split_take(&entry, ';', &name);
        if (dz_slice_equal_nocase(name, coding))
            return entry_weight(entry);
        if (dz_slice_equal(name, DZ_LIT("*")))
            any = entry_weight(entry);
    }
    bool identity = dz_slice_equal_nocase(coding, DZ_LIT("identity"));
    if (any < 0 || (identity && any > 0))
        return identity ? 1000 : 0;
    return any;
}

/* Takes one entity-tag off *list. False at the end, or where the list is malformed. Tags may hold
 * commas, so the list can't be split at them. */
static bool take_etag(dz_slice *list, dz_slice *opaque, bool *weak)
{
    const char *at = list->ptr, *end = at + list->len;
    while (at < end && (dz_char_blank(*at) || *at == ','))
        at++;
    *weak = end - at >= 2 && at[0] == 'W' && at[1] == '/';
    at += *weak ? 2 : 0;
    if (at == end || *at != '"')
        return false;
    const char *close = memchr(at + 1, '"', (size_t)(end - at - 1));
    if (!close)
        return false;
    *opaque = dz_slice_make(at, (size_t)(close + 1 - at));
    at = close + 1;
    while (at < end && dz_char_blank(*at))
        at++;
    bool goes_on = at < end && *at == ',';
    *list = goes_on ? dz_slice_make(at, (size_t)(end - at)) : (dz_slice){end, 0};
    return at == end || goes_on;
}

bool dz_etag_match(dz_slice field, dz_slice etag, bool weak)
{
    dz_slice mine, theirs;
    bool mine_weak, theirs_weak;
    if (field.len == 0 || etag.len == 0 || !take_etag(&etag, &mine, &mine_weak))
        return false;
    if (dz_slice_equal(dz_trim(field), DZ_LIT("*")))
        return true;
    while (field.len > 0 && take_etag(&field, &theirs, &theirs_weak))
        if (dz_slice_equal(mine, theirs) && (weak || (!mine_weak && !theirs_weak)))
            return true;
    return false;
}
