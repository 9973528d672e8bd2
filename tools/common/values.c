#include "common/values.h"

#include <donmaz/error.h>

#include <math.h>
#include <stdlib.h>

int dz_read_count(dz_slice text, uint64_t *out)
{
    if (text.len == 0)
        return DZ_E_FORMAT;
    uint64_t value = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return DZ_E_FORMAT;
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(text.ptr[i] - '0'), &value))
            return DZ_E_TOO_LARGE;
    }
    *out = value;
    return 0;
}

/* The number at the start of text; *used is how many bytes it took. */
static int read_leading_number(dz_slice text, double *out, size_t *used)
{
    char copy[64]; /* strtod wants a terminated string; no sane number is longer */
    if (text.len == 0 || text.len >= sizeof copy)
        return DZ_E_FORMAT;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    /* strtod would also take "inf", "nan", hexadecimal and leading blanks. */
    size_t sign = copy[0] == '-' || copy[0] == '+' ? 1 : 0;
    char first = copy[sign];
    if (!((first >= '0' && first <= '9') || first == '.') || copy[sign + 1] == 'x' ||
        copy[sign + 1] == 'X')
        return DZ_E_FORMAT;
    char *end;
    double value = strtod(copy, &end);
    if (end == copy)
        return DZ_E_FORMAT;
    if (!isfinite(value))
        return DZ_E_TOO_LARGE;
    *out = value;
    *used = (size_t)(end - copy);
    return 0;
}

int dz_read_number(dz_slice text, double *out)
{
    size_t used;
    double value;
    int rc = read_leading_number(text, &value, &used);
    if (rc < 0)
        return rc;
    if (used != text.len)
        return DZ_E_FORMAT;
    *out = value;
    return 0;
}

typedef struct unit {
    const char *name;
    double factor;
} unit;

static int read_with_unit(dz_slice text, const unit *units, size_t count, uint64_t *out)
{
    size_t used;
    double value;
    int rc = read_leading_number(text, &value, &used);
    if (rc < 0)
        return rc;
    if (value < 0)
        return DZ_E_FORMAT;
    dz_slice rest = dz_slice_make(text.ptr + used, text.len - used);
    for (size_t i = 0; i < count; i++) {
        if (!dz_slice_equal(rest, dz_slice_of(units[i].name)))
            continue;
        double scaled = round(value * units[i].factor);
        if (scaled >= 0x1p63)
            return DZ_E_TOO_LARGE;
        *out = (uint64_t)scaled;
        return 0;
    }
    return DZ_E_FORMAT;
}

int dz_read_duration(dz_slice text, uint64_t *out)
{
    static const unit units[] = {{"", 1e9},   {"s", 1e9},  {"ms", 1e6},   {"us", 1e3},
                                 {"ns", 1.0}, {"m", 6e10}, {"min", 6e10}, {"h", 3.6e12}};
    return read_with_unit(text, units, sizeof units / sizeof units[0], out);
}

int dz_read_bytes(dz_slice text, uint64_t *out)
{
    static const unit units[] = {{"", 1},        {"B", 1},       {"k", 0x1p10},   {"K", 0x1p10},
                                 {"kB", 0x1p10}, {"KB", 0x1p10}, {"KiB", 0x1p10}, {"M", 0x1p20},
                                 {"m", 0x1p20},  {"MB", 0x1p20}, {"MiB", 0x1p20}, {"G", 0x1p30},
                                 {"g", 0x1p30},  {"GB", 0x1p30}, {"GiB", 0x1p30}};
    return read_with_unit(text, units, sizeof units / sizeof units[0], out);
}

enum { LONGEST_NAME = 40 };

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Edit distance that counts a swap of neighbours as one (optimal string alignment). */
static size_t edit_distance(dz_slice a, dz_slice b)
{
    size_t rows[3][LONGEST_NAME + 1];
    for (size_t j = 0; j <= b.len; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        size_t *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            size_t differs = a.ptr[i - 1] != b.ptr[j - 1];
            now[j] = min3(last[j] + 1, now[j - 1] + 1, last[j - 1] + differs);
            if (i > 1 && j > 1 && a.ptr[i - 1] == b.ptr[j - 2] && a.ptr[i - 2] == b.ptr[j - 1] &&
                before[j - 2] + 1 < now[j])
                now[j] = before[j - 2] + 1;
        }
    }
    return rows[a.len % 3][b.len];
}

const char *dz_nearest_name(dz_slice name, const char *const *names, size_t count)
{
    const char *nearest = NULL;
    if (name.len == 0 || name.len > LONGEST_NAME)
        return NULL;
    size_t least = name.len < 4 ? 2 : name.len < 8 ? 3 : 4; /* one more than may differ */
    for (size_t i = 0; i < count; i++) {
        dz_slice candidate = dz_slice_of(names[i]);
        if (candidate.len > LONGEST_NAME)
            continue;
        size_t distance = edit_distance(name, candidate);
        /* A cut-off name ("conn" for "connections") is meant more surely than any typing error. */
        if (name.len >= 3 && candidate.len > name.len &&
            memcmp(candidate.ptr, name.ptr, name.len) == 0)
            distance = 1;
        if (distance < least) {
            least = distance;
            nearest = names[i];
        }
    }
    return nearest;
}
