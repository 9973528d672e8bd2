#include "content/range.h"

#include "http/split.h"

/* Decimal digits; a number too large for 64 bits lies beyond any representation, so it is as good
 * as the largest. */
static bool take_number(dz_slice *text, uint64_t *number)
{
    size_t digits = 0;
    *number = 0;
    while (digits < text->len && dz_char_digit(text->ptr[digits])) {
        uint64_t digit = (uint64_t)(text->ptr[digits] - '0');
        if (*number > (UINT64_MAX - digit) / 10)
            *number = UINT64_MAX;
        else
            *number = *number * 10 + digit;
        digits++;
    }
    *text = dz_slice_make(text->ptr + digits, text->len - digits);
    return digits > 0;
}

/* 1: *range is set. 0: it lies outside. -1: malformed. */
static int parse_one(dz_slice text, uint64_t size, dz_range *range)
{
    uint64_t first, last = UINT64_MAX;
    bool suffix = !take_number(&text, &first);
    if (text.len == 0 || text.ptr[0] != '-')
        return -1;
    text = dz_slice_make(text.ptr + 1, text.len - 1);
    bool has_last = take_number(&text, &last);
    if (text.len > 0 || (suffix && !has_last))
        return -1;
    if (suffix) {
        range->len = last < size ? last : size;
        range->start = size - range->len;
        return last > 0;
    }
    if (has_last && last < first)
        return -1;
    if (first >= size)
        return 0;
    range->start = first;
    range->len = (has_last && last < size - 1 ? last : size - 1) - first + 1;
    return 1;
}

int dz_range_parse(dz_slice field, uint64_t size, dz_range ranges[DZ_RANGES_MAX])
{
    static const char unit[] = "bytes=";
    enum { UNIT = sizeof unit - 1 };
    if (size == 0 || field.len < UNIT ||
        !dz_slice_equal_nocase(dz_slice_make(field.ptr, UNIT), DZ_LIT("bytes=")))
        return 0;
    dz_slice rest = dz_slice_make(field.ptr + UNIT, field.len - UNIT);
    uint64_t total = 0;
    int count = 0, asked = 0;
    while (rest.ptr) {
        dz_slice text;
        dz_range range;
        dz_split_take(&rest, ',', &text);
        if (text.len == 0)
            continue; /* empty elements are allowed (RFC 9110 5.6.1.2) */
        int found = parse_one(text, size, &range);
        if (found < 0 || ++asked > DZ_RANGES_MAX)
            return 0;
        if (found == 0)
            continue;
        if (range.len > size - total)
            return 0;
        total += range.len;
        ranges[count++] = range;
    }
    if (asked == 0)
        return 0;
    return count > 0 ? count : DZ_RANGE_UNSATISFIABLE;
}
