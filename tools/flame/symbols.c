#include "symbols.h"

#include "target/procfs.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct mapping {
    pid_t pid;
    uint64_t start, end, offset;
    int module; /* index; -1: code made at run time */
} mapping;

typedef struct module {
    char *path;
    Dwfl *dwfl; /* NULL until needed or when it can't be read */
    Dwfl_Module *mod;
    bool tried;
    dz_map cache; /* address in the file to frame */
} module;

typedef struct jit_entry {
    uint64_t start, end;
    pid_t pid;
    uint32_t frame;
    size_t order; /* later entries replace earlier ones at the same address */
} jit_entry;

struct dz_symbols {
    dz_profile *profile;
    mapping *maps;
    size_t map_count, map_cap;
    module *modules;
    size_t module_count, module_cap;
    jit_entry *jit;
    size_t jit_count, jit_cap;
};

dz_symbols *dz_symbols_new(dz_profile *profile)
{
    dz_symbols *s = calloc(1, sizeof *s);
    if (s)
        s->profile = profile;
    return s;
}

void dz_symbols_free(dz_symbols *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->module_count; i++) {
        if (s->modules[i].dwfl)
            dwfl_end(s->modules[i].dwfl);
        dz_map_close(&s->modules[i].cache);
        free(s->modules[i].path);
    }
    free(s->modules);
    free(s->maps);
    free(s->jit);
    free(s);
}

static bool reserve(void **array, size_t count, size_t *cap, size_t size)
{
    if (count < *cap)
        return true;
    size_t want = *cap ? *cap * 2 : 64;
    void *more = reallocarray(*array, want, size);
    if (!more)
        return false;
    *array = more;
    *cap = want;
    return true;
}

static int module_of(dz_symbols *s, const char *path)
{
    if (path[0] != '/' || strncmp(path, "//anon", 6) == 0 || strncmp(path, "/memfd:", 7) == 0 ||
        strncmp(path, "/dev/", 5) == 0)
        return path[0] == '[' && strncmp(path, "[anon", 5) != 0 ? -2 : -1;
    for (size_t i = 0; i < s->module_count; i++)
        if (strcmp(s->modules[i].path, path) == 0)
            return (int)i;
    char *copy = strdup(path);
    if (!copy ||
        !reserve((void **)&s->modules, s->module_count, &s->module_cap, sizeof *s->modules)) {
        free(copy);
        return -1;
    }
    s->modules[s->module_count] = (module){.path = copy};
    return (int)s->module_count++;
}

void dz_symbols_map(dz_symbols *s, pid_t pid, uint64_t start, uint64_t length, uint64_t offset,
                    const char *name)
{
    if (reserve((void **)&s->maps, s->map_count, &s->map_cap, sizeof *s->maps))
        s->maps[s->map_count++] = (mapping){.pid = pid,
                                            .start = start,
                                            .end = start + length,
                                            .offset = offset,
                                            .module = module_of(s, name)};
}

void dz_symbols_fork(dz_symbols *s, pid_t pid, pid_t parent)
{
    for (size_t i = 0, n = s->map_count; i < n; i++)
        if (s->maps[i].pid == parent &&
            reserve((void **)&s->maps, s->map_count, &s->map_cap, sizeof *s->maps)) {
            s->maps[s->map_count] = s->maps[i];
            s->maps[s->map_count++].pid = pid;
        }
}

void dz_symbols_exec(dz_symbols *s, pid_t pid)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->map_count; i++)
        if (s->maps[i].pid != pid)
            s->maps[kept++] = s->maps[i];
    s->map_count = kept;
}

void dz_symbols_read_maps(dz_symbols *s, pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    char *text = dz_procfs_slurp(path, NULL);
    for (char *line = text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        uint64_t start, end, offset;
        char rights[8];
        int name = 0;
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %*s %n", &start, &end, rights,
                   &offset, &name) == 4 &&
            rights[2] == 'x' && name)
            dz_symbols_map(s, pid, start, end - start, offset, line + name);
    }
    free(text);
}

static int by_start(const void *a, const void *b)
{
    const jit_entry *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

void dz_symbols_read_jit(dz_symbols *s, pid_t pid, bool remove_it)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)pid);
    FILE *in = fopen(path, "re");
    char *line = NULL;
    size_t cap = 0;
    for (ssize_t n; in && (n = getline(&line, &cap, in)) > 0;) {
        uint64_t start, length;
        int name = 0;
        if (line[n - 1] == '\n')
            line[--n] = 0;
        if (sscanf(line, "%" SCNx64 " %" SCNx64 " %n", &start, &length, &name) < 2 || !name ||
            !reserve((void **)&s->jit, s->jit_count, &s->jit_cap, sizeof *s->jit))
            continue;
        dz_frame f;
        dz_frame_of_symbol(s->profile, dz_slice_make(line + name, (size_t)n - (size_t)name),
                           DZ_LIT(""), &f);
        s->jit[s->jit_count] = (jit_entry){.start = start,
                                           .end = start + length,
                                           .pid = pid,
                                           .frame = dz_profile_frame(s->profile, &f),
                                           .order = s->jit_count};
        s->jit_count++;
    }
    free(line);
    if (!in)
        return;
    fclose(in);
    if (remove_it)
        unlink(path);
    qsort(s->jit, s->jit_count, sizeof *s->jit, by_start);
}

/* The last entry that begins at or before the address. */
static const jit_entry *find_jit(const dz_symbols *s, pid_t pid, uint64_t address)
{
    size_t low = 0, high = s->jit_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const jit_entry *e = &s->jit[mid];
        if (e->pid < pid || (e->pid == pid && e->start <= address))
            low = mid + 1;
        else
            high = mid;
    }
    const jit_entry *e = low ? &s->jit[low - 1] : NULL;
    return e && e->pid == pid && address < e->end ? e : NULL;
}

static void open_module(module *m)
{
    static char *debug_path;
    static const Dwfl_Callbacks callbacks = {
        .find_elf = dwfl_build_id_find_elf,
        .find_debuginfo = dwfl_standard_find_debuginfo,
        .section_address = dwfl_offline_section_address,
        .debuginfo_path = &debug_path,
    };
    m->tried = true;
    unsetenv("DEBUGINFOD_URLS"); /* looking up a name must not go to the network */
    m->dwfl = dwfl_begin(&callbacks);
    if (!m->dwfl)
        return;
    dwfl_report_begin(m->dwfl);
    m->mod = dwfl_report_offline(m->dwfl, m->path, m->path, -1);
    dwfl_report_end(m->dwfl, NULL, NULL);
}

/* The offset in the file as the address the file's own tables use, plus where dwfl put it. */
static bool to_address(const module *m, uint64_t offset, uint64_t *address)
{
    GElf_Addr bias;
    Elf *elf = dwfl_module_getelf(m->mod, &bias);
    size_t count;
    if (!elf || elf_getphdrnum(elf, &count) < 0)
        return false;
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr memory, *p = gelf_getphdr(elf, (int)i, &memory);
        if (p && p->p_type == PT_LOAD && offset >= p->p_offset &&
            offset < p->p_offset + p->p_filesz) {
            *address = offset - p->p_offset + p->p_vaddr + bias;
            return true;
        }
    }
    return false;
}

/* Where the function was written, from DWARF when the program has it. */
static void add_source(dz_profile *p, const module *m, uint64_t address, dz_frame *f)
{
    Dwarf_Addr bias;
    Dwarf_Die *unit = dwfl_module_addrdie(m->mod, address, &bias), *scopes = NULL;
    int n = unit ? dwarf_getscopes(unit, address - bias, &scopes) : 0;
    for (int i = 0; i < n; i++) {
        int line;
        if (dwarf_tag(&scopes[i]) != DW_TAG_subprogram || dwarf_decl_line(&scopes[i], &line) != 0)
            continue;
        const char *file = dwarf_decl_file(&scopes[i]);
        if (file && line > 0) {
            f->file = dz_profile_string(p, dz_slice_of(file));
            f->line = (uint32_t)line;
        }
        break;
    }
    free(scopes);
}

static uint32_t symbol_frame(dz_symbols *s, module *m, uint64_t offset, bool *known)
{
    uint32_t frame;
    size_t at = SIZE_MAX;
    *known = true;
    if (dz_map_next(&m->cache, offset, &at, &frame))
        return frame;
    if (!m->tried)
        open_module(m);
    char text[1024], hex[64];
    uint64_t address;
    const char *name =
        m->mod && to_address(m, offset, &address) ? dwfl_module_addrname(m->mod, address) : NULL;
    dz_frame f = {.kind = DZ_FRAME_NATIVE,
                  .file = dz_profile_string(s->profile, dz_slice_of(m->path))};
    if (name) {
        f.name = dz_profile_string(s->profile, dz_slice_of(dz_demangle(name, text, sizeof text)));
        add_source(s->profile, m, address, &f);
    } else {
        const char *base = strrchr(m->path, '/');
        snprintf(hex, sizeof hex, "[%.50s]", base ? base + 1 : m->path);
        f.name = dz_profile_string(s->profile, dz_slice_of(hex));
    }
    frame = dz_profile_frame(s->profile, &f);
    dz_map_put(&m->cache, offset, frame);
    return frame;
}

static dz_place named(dz_symbols *s, const char *name, dz_frame_kind kind, bool jit)
{
    dz_frame f = {.name = dz_profile_string(s->profile, dz_slice_of(name)), .kind = (uint8_t)kind};
    return (dz_place){.frame = dz_profile_frame(s->profile, &f), .jit = jit};
}

dz_place dz_symbols_find(dz_symbols *s, pid_t pid, uint64_t address, bool kernel)
{
    if (kernel)
        return named(s, "[kernel]", DZ_FRAME_KERNEL, false);
    const jit_entry *e = find_jit(s, pid, address);
    if (e)
        return (dz_place){.frame = e->frame, .jit = true, .known = true};
    for (size_t i = s->map_count; i-- > 0;) { /* the newest mapping wins */
        const mapping *m = &s->maps[i];
        if (m->pid != pid || address < m->start || address >= m->end)
            continue;
        if (m->module == -1)
            return named(s, "[code made at run time]", DZ_FRAME_NATIVE, true);
        if (m->module < 0)
            return named(s, "[vdso]", DZ_FRAME_NATIVE, false);
        dz_place place = {0};
        place.frame =
            symbol_frame(s, &s->modules[m->module], address - m->start + m->offset, &place.known);
        return place;
    }
    return named(s, "[unknown]", DZ_FRAME_NATIVE, false);
}
