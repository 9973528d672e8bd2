/* Profiles in any format, damaged in any way: read or refused with a reason; and what was read is
 * written in every format, and comes back with the same total from those that donmaz reads. */
#include "fuzz.h"

#include "flame/formats.h"

#include <donmaz/error.h>

static int read_bytes(dz_profile *p, const char *bytes, size_t len)
{
    dz_read_error error = {{0}};
    FILE *in = fmemopen((void *)(uintptr_t)bytes, len, "r");
    HOLDS(in && dz_profile_init(p) == 0);
    int rc = dz_read_any(p, in, &error);
    fclose(in);
    HOLDS(rc == 0 || (rc == DZ_E_FORMAT && error.text[0]));
    return rc;
}

/* In microseconds, each stack rounded as it is written. */
static uint64_t rounded(const dz_profile *p)
{
    uint64_t total = 0;
    for (size_t i = 1; i < p->stack_count; i++)
        if (p->frames[p->stacks[i].frame].kind != DZ_FRAME_IDLE)
            total += (p->stacks[i].self + 500) / 1000;
    return total;
}

static void check_again(const dz_profile *p, int (*write)(const dz_profile *p, FILE *out))
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    HOLDS(out && write(p, out) == 0);
    fclose(out);
    dz_profile again;
    if (len > 0 && rounded(p) > 0) {
        HOLDS(read_bytes(&again, text, len) == 0);
        HOLDS(rounded(&again) == rounded(p));
        dz_profile_close(&again);
    }
    free(text);
}

static void check_rest(const dz_profile *p)
{
    dz_hot hot[8];
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    HOLDS(out);
    HOLDS(dz_write_pprof(p, out) == 0);
    HOLDS(dz_write_speedscope(p, out, "fuzz") == 0);
    HOLDS(dz_write_page_data(p, out) == 0);
    fclose(out);
    free(text);
    long n = dz_profile_hottest(p, hot, 8, NULL, NULL);
    HOLDS(n >= 0);
    for (long i = 0; i < n; i++)
        HOLDS(hot[i].self <= hot[i].total && hot[i].total <= dz_profile_total(p));
}

/* What goes through the sums must not run over. */
static bool is_sane(const dz_profile *p)
{
    uint64_t total = 0;
    for (size_t i = 0; i < p->stack_count; i++)
        if (__builtin_add_overflow(total, p->stacks[i].self, &total))
            return false;
    return total < UINT64_MAX / 2;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dz_profile p;
    if (size == 0)
        return 0;
    if (read_bytes(&p, (const char *)data, size) == 0 && is_sane(&p)) {
        check_again(&p, dz_write_cpuprofile);
        check_again(&p, dz_write_collapsed);
        check_rest(&p);
    }
    dz_profile_close(&p);
    return 0;
}
