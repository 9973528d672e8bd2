#include "kallsyms.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void dz_kallsyms_close(dz_kallsyms *k)
{
    free(k->all);
    *k = (dz_kallsyms){0};
}

static int by_start(const void *a, const void *b)
{
    const dz_kernel_symbol *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static bool add(dz_kallsyms *k, dz_kernel_symbol symbol)
{
    if (k->count == k->cap) {
        size_t cap = k->cap ? k->cap * 2 : 65536;
        dz_kernel_symbol *more = reallocarray(k->all, cap, sizeof *more);
        if (!more)
            return false;
        k->all = more;
        k->cap = cap;
    }
    k->all[k->count++] = symbol;
    return true;
}

/* "ffffffff81000000 T _text [module]"; every address is 0 for those who may not see them. */
static void read_all(dz_kallsyms *k, dz_profile *profile, const char *path)
{
    FILE *in = fopen(path, "re");
    char *line = NULL;
    size_t cap = 0;
    bool room = true;
    while (in && room && getline(&line, &cap, in) > 0) {
        char *at;
        uint64_t start = strtoull(line, &at, 16);
        if (start == 0 || at[0] != ' ' || !at[1] || !strchr("tTwW", at[1]) || at[2] != ' ')
            continue;
        at += 3;
        room =
            add(k, (dz_kernel_symbol){
                       .start = start,
                       .name = dz_profile_string(profile, dz_slice_make(at, strcspn(at, " \t\n"))),
                   });
    }
    free(line);
    if (in)
        fclose(in);
    if (k->count)
        qsort(k->all, k->count, sizeof *k->all, by_start);
}

uint32_t dz_kallsyms_find(dz_kallsyms *k, dz_profile *profile, const char *path, uint64_t address)
{
    if (!k->tried)
        read_all(k, profile, path);
    k->tried = true;
    size_t low = 0, high = k->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (k->all[mid].start <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low ? k->all[low - 1].name : 0;
}
