#include "source.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdlib.h>

void dz_source_close(dz_source *s)
{
    free(s->ranges);
    *s = (dz_source){0};
}

static bool add(dz_source *s, const dz_unit_range *range)
{
    if (s->count == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 64;
        dz_unit_range *more = reallocarray(s->ranges, cap, sizeof *more);
        if (!more)
            return false;
        s->ranges = more;
        s->cap = cap;
    }
    s->ranges[s->count++] = *range;
    return true;
}

static int by_start(const void *a, const void *b)
{
    const dz_unit_range *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static void read_units(dz_source *s, Dwfl_Module *module)
{
    Dwarf_Addr bias = 0;
    Dwarf *dwarf = dwfl_module_getdwarf(module, &bias);
    Dwarf_CU *unit = NULL;
    Dwarf_Die die;
    bool room = true;
    s->tried = true;
    while (dwarf && room && dwarf_get_units(dwarf, unit, &unit, NULL, NULL, &die, NULL) == 0) {
        dz_unit_range r = {.bias = bias, .unit = die};
        Dwarf_Addr base = 0;
        /* Functions the linker left out begin at 0. */
        for (ptrdiff_t at = 0; room && (at = dwarf_ranges(&die, at, &base, &r.start, &r.end)) > 0;)
            room = r.start == 0 || r.start >= r.end || add(s, &r);
    }
    if (s->count)
        qsort(s->ranges, s->count, sizeof *s->ranges, by_start);
}

/* What libdw finds by .debug_aranges alone, which clang does not write. */
static Dwarf_Die *unit_at(dz_source *s, Dwfl_Module *module, Dwarf_Addr address, Dwarf_Addr *bias)
{
    Dwarf_Die *unit = dwfl_module_addrdie(module, address, bias);
    if (unit)
        return unit;
    if (!s->tried)
        read_units(s, module);
    size_t low = 0, high = s->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (s->ranges[mid].start + s->ranges[mid].bias <= address)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == 0 || address - s->ranges[low - 1].bias >= s->ranges[low - 1].end)
        return NULL;
    *bias = s->ranges[low - 1].bias;
    return &s->ranges[low - 1].unit;
}

/* DWARF 5 counts files from 0, the unit's own, which clang refers to and libdw takes for none. */
static const char *file_of(Dwarf_Die *function)
{
    Dwarf_Attribute memory, *attribute = dwarf_attr_integrate(function, DW_AT_decl_file, &memory);
    Dwarf_Word index;
    Dwarf_Die unit;
    Dwarf_Files *files;
    size_t count;
    if (!attribute || dwarf_formudata(attribute, &index) != 0 ||
        !dwarf_cu_die(attribute->cu, &unit, NULL, NULL, NULL, NULL, NULL, NULL) ||
        dwarf_getsrcfiles(&unit, &files, &count) != 0 || index >= count)
        return NULL;
    return dwarf_filesrc(files, index, NULL, NULL);
}

static bool declared(Dwarf_Die *scopes, int count, const char **file, int *line)
{
    for (int i = 0; i < count; i++)
        if (dwarf_tag(&scopes[i]) == DW_TAG_subprogram) {
            *file = file_of(&scopes[i]);
            return *file && dwarf_decl_line(&scopes[i], line) == 0 && *line > 0;
        }
    return false;
}

bool dz_source_find(dz_source *s, Dwfl_Module *module, Dwarf_Addr address, const char **file,
                    int *line)
{
    Dwarf_Addr bias;
    Dwarf_Die *unit = unit_at(s, module, address, &bias), *inner = NULL, *scopes = NULL;
    bool found = false;
    /* Behind code that was built in, the first list goes on with where that was written, as a
     * reader of the source sees it; the second with what the code lies in. */
    if (unit && dwarf_getscopes(unit, address - bias, &inner) > 0) {
        int count = dwarf_getscopes_die(&inner[0], &scopes);
        found = declared(scopes, count, file, line);
    }
    free(inner);
    free(scopes);
    return found;
}
