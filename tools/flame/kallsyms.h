/* kallsyms.h: names of the kernel's functions, where /proc/kallsyms may be read. */
#ifndef DZ_FLAME_KALLSYMS_H
#define DZ_FLAME_KALLSYMS_H

#include "profile.h"

typedef struct dz_kernel_symbol {
    uint64_t start;
    uint32_t name; /* string of the profile */
} dz_kernel_symbol;

typedef struct dz_kallsyms {
    dz_kernel_symbol *all; /* by address */
    size_t count, cap;
    bool tried;
} dz_kallsyms;

void dz_kallsyms_close(dz_kallsyms *kernel);

/* The string that names the function at an address; 0 when it can't be told. Reads the file from
 * `path` the first time. */
uint32_t dz_kallsyms_find(dz_kallsyms *kernel, dz_profile *profile, const char *path,
                          uint64_t address);

#endif
