/* What decides how a response is sent, by fields from outside: ranges lie inside the file, codings
 * are among those offered, preconditions keep their order, names have types. */
#include "fuzz.h"

#include "content/encoding.h"
#include "content/preconditions.h"
#include "content/range.h"
#include "content/types.h"

#include "http/url.h"

static void check_ranges(dz_slice field)
{
    static const uint64_t sizes[] = {0, 1, 10, 1000, UINT64_C(1) << 33, UINT64_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        dz_range ranges[DZ_RANGES_MAX];
        uint64_t total = 0;
        int count = dz_range_parse(field, sizes[i], ranges);
        HOLDS(count == DZ_RANGE_UNSATISFIABLE || (count >= 0 && count <= DZ_RANGES_MAX));
        for (int k = 0; k < count; k++) {
            HOLDS(ranges[k].len > 0 && ranges[k].len <= sizes[i]);
            HOLDS(ranges[k].start <= sizes[i] - ranges[k].len);
            HOLDS(ranges[k].len <= sizes[i] - total);
            total += ranges[k].len;
        }
    }
}

static void check_codings(dz_slice field)
{
    for (unsigned available = 0; available < 8; available++) {
        dz_coding chosen = dz_coding_choose(field, available);
        HOLDS(chosen == DZ_CODING_IDENTITY || available & 1U << chosen);
        /* Taking the others away changes nothing. */
        HOLDS(chosen == DZ_CODING_IDENTITY || dz_coding_choose(field, 1U << chosen) == chosen);
    }
}

static void check_preconditions(dz_slice field)
{
    const dz_validators mine = {
        .exists = true, .etag = DZ_LIT("\"a\""), .has_modified = true, .modified = 784111777};
    const dz_validators weak = {.exists = true, .etag = DZ_LIT("W/\"a\"")};
    const dz_validators none = {.exists = false};
    const dz_conditions match = {.if_match = field}, none_match = {.if_none_match = field};
    const dz_conditions all = {field, field, field, field, field};
    HOLDS(dz_preconditions_check(&match, DZ_PUT, &none, 0) == 412 || !field.ptr);
    HOLDS(dz_preconditions_check(&none_match, DZ_PUT, &none, 0) == 0);
    int put = dz_preconditions_check(&none_match, DZ_PUT, &mine, 0);
    int got = dz_preconditions_check(&none_match, DZ_GET, &mine, 0);
    HOLDS((put == 412 && got == 304) || (put == 0 && got == 0));
    /* What matches strongly matches weakly. */
    HOLDS(dz_preconditions_check(&match, DZ_GET, &mine, 0) == 412 || got == 304);
    int order = dz_preconditions_check(&all, DZ_GET, &mine, 784111800);
    HOLDS(order == 0 || order == 304 || order == 412);
    if (dz_if_range_holds(field, &mine, 784111800) && field.ptr)
        HOLDS(dz_preconditions_check(&match, DZ_GET, &mine, 0) == 0);
    HOLDS(!field.ptr || !dz_if_range_holds(field, &weak, 0));
}

/* A path as files are found by it: below the folder, with names that the kernel takes whole. */
static void check_path(dz_slice text)
{
    char *out = malloc(text.len + 1);
    HOLDS(out);
    int len = dz_path_clean(out, text);
    for (int at = 0, start = 1; at < len; at++) {
        HOLDS(out[at] != '\0' && out[at] != '\\');
        if (out[at] != '/' && at + 1 < len)
            continue;
        int end = out[at] == '/' ? at : at + 1, size = end - start;
        HOLDS(at == 0 || size > 0 || at + 1 == len);
        HOLDS(!(size == 1 && out[start] == '.'));
        HOLDS(!(size == 2 && out[start] == '.' && out[start + 1] == '.'));
        start = at + 1;
    }
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *bytes = fuzz_copy(data, size);
    dz_slice text = {bytes, size};
    check_ranges(text);
    check_codings(text);
    check_preconditions(text);
    check_path(text);
    HOLDS(dz_type_of_name(text).len > 0);
    (void)dz_type_compressible(text);
    (void)dz_etag_valid(text);
    free(bytes);
    return 0;
}
