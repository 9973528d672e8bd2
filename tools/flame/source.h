/* source.h: where a function was written, by DWARF. One thread at a time. */
#ifndef DZ_FLAME_SOURCE_H
#define DZ_FLAME_SOURCE_H

#include <elfutils/libdwfl.h>

#include <stdbool.h>
#include <stddef.h>

/* Code of one compilation unit, by the module's own addresses. */
typedef struct dz_unit_range {
    Dwarf_Addr start, end;
    Dwarf_Addr bias; /* what is to be added to them for dwfl's */
    Dwarf_Die unit;  /* valid as long as the module is */
} dz_unit_range;

typedef struct dz_source {
    dz_unit_range *ranges; /* in order of start; made when first needed */
    size_t count, cap;
    bool tried;
} dz_source;

void dz_source_close(dz_source *source);

/* File (the module's own) and line of the declaration of the function that holds an address of the
 * module; for code built into its caller that caller, as in the symbol table. False when DWARF does
 * not say. */
bool dz_source_find(dz_source *source, Dwfl_Module *module, Dwarf_Addr address, const char **file,
                    int *line);

#endif
