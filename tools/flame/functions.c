#include "functions.h"

#include <stdlib.h>
#include <string.h>

void dz_functions_close(dz_functions *f)
{
    free(f->pieces);
    *f = (dz_functions){0};
}

/* What lies around comes before what lies inside. */
static int in_order(const void *a, const void *b)
{
    const dz_function *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->end != y->end)
        return x->end > y->end ? -1 : 1;
    return x->rank - y->rank;
}

/* Functions that lie inside each other, outermost first, and the pieces made so far. */
typedef struct sweep {
    dz_function_piece *out;
    size_t count;
    const dz_function **open;
    size_t depth;
    uint64_t at; /* everything below is done */
} sweep;

static void put(sweep *s, uint64_t end, const char *name)
{
    if (end > s->at)
        s->out[s->count++] = (dz_function_piece){.start = s->at, .end = end, .name = name};
    s->at = end > s->at ? end : s->at;
}

/* Ends what ends at or before `until`. */
static void close_until(sweep *s, uint64_t until)
{
    while (s->depth && s->open[s->depth - 1]->end <= until) {
        const dz_function *f = s->open[--s->depth];
        put(s, f->end, f->name);
    }
}

static void one(sweep *s, const dz_function *f, const dz_function *next)
{
    close_until(s, f->start);
    bool sized = f->end > f->start;
    if (s->depth) {
        const dz_function *around = s->open[s->depth - 1];
        /* A label inside a function, or another name for it. */
        if (!sized || (around->start == f->start && around->end == f->end))
            return;
        put(s, f->start, around->name);
    }
    if (s->at > f->start && !sized)
        return;
    s->at = f->start > s->at ? f->start : s->at;
    if (sized) {
        s->open[s->depth++] = f;
        return;
    }
    uint64_t end = next && next->start < f->limit ? next->start : f->limit;
    put(s, end, f->name);
}

bool dz_functions_make(dz_functions *f, dz_function *symbols, size_t count)
{
    *f = (dz_functions){0};
    if (count == 0)
        return true;
    /* Each symbol makes one piece, and cuts at most one other in two. */
    sweep s = {.out = reallocarray(NULL, count, 2 * sizeof *s.out),
               .open = reallocarray(NULL, count, sizeof(dz_function *))};
    bool room = s.out && s.open;
    if (room) {
        qsort(symbols, count, sizeof *symbols, in_order);
        for (size_t i = 0; i < count; i++) {
            size_t next = i + 1;
            while (next < count && symbols[next].start == symbols[i].start)
                next++;
            one(&s, &symbols[i], next < count ? &symbols[next] : NULL);
        }
        close_until(&s, UINT64_MAX);
        *f = (dz_functions){.pieces = s.out, .count = s.count};
        s.out = NULL;
    }
    free(s.out);
    free(s.open);
    return room;
}

static GElf_Shdr *section_of(Elf *elf, GElf_Word index, GElf_Shdr *memory)
{
    Elf_Scn *section = elf ? elf_getscn(elf, index) : NULL;
    return section ? gelf_getshdr(section, memory) : NULL;
}

/* Assemblers' and linkers' labels have no type; of those only what stands in code counts, and not
 * ARM's marks of where data begins. */
static bool is_function(const GElf_Sym *symbol, const GElf_Shdr *section, const char *name)
{
    int type = GELF_ST_TYPE(symbol->st_info);
    if (type == STT_FUNC || type == STT_GNU_IFUNC)
        return true;
    return type == STT_NOTYPE && section && (section->sh_flags & SHF_EXECINSTR) && name[0] != '$';
}

static uint8_t rank_of(const GElf_Sym *symbol)
{
    static const uint8_t by_binding[] = {[STB_LOCAL] = 2, [STB_GLOBAL] = 0, [STB_WEAK] = 1};
    unsigned binding = GELF_ST_BIND(symbol->st_info);
    return (uint8_t)((binding < sizeof by_binding ? by_binding[binding] : 0) +
                     (GELF_ST_TYPE(symbol->st_info) == STT_NOTYPE ? 4 : 0));
}

static bool read_symbol(Dwfl_Module *module, int index, dz_function *out)
{
    GElf_Sym symbol;
    GElf_Addr address;
    GElf_Word place;
    Elf *elf;
    Dwarf_Addr bias;
    const char *name =
        dwfl_module_getsym_info(module, index, &symbol, &address, &place, &elf, &bias);
    if (!name || !name[0] || place == SHN_UNDEF || place == SHN_ABS || place == SHN_COMMON)
        return false;
    GElf_Shdr memory, *section = section_of(elf, place, &memory);
    if (!is_function(&symbol, section, name))
        return false;
    uint64_t end;
    if (__builtin_add_overflow(address, symbol.st_size, &end))
        return false;
    *out = (dz_function){.start = address, .end = end, .name = name, .rank = rank_of(&symbol)};
    out->limit = section ? section->sh_addr + section->sh_size + bias : end;
    return true;
}

bool dz_functions_read(dz_functions *f, Dwfl_Module *module)
{
    int symbols = dwfl_module_getsymtab(module);
    size_t count = 0;
    *f = (dz_functions){0};
    if (symbols <= 0)
        return true;
    dz_function *all = reallocarray(NULL, (size_t)symbols, sizeof *all);
    for (int i = 1; all && i < symbols; i++)
        count += read_symbol(module, i, &all[count]);
    bool room = all && dz_functions_make(f, all, count);
    free(all);
    return room;
}

const char *dz_functions_find(const dz_functions *f, uint64_t address)
{
    size_t low = 0, high = f->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (f->pieces[mid].start <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low && address < f->pieces[low - 1].end ? f->pieces[low - 1].name : NULL;
}
