#include "module.h"

#include "symbols.h"

#include <elfutils/libdw.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

/* The kernel's code that every process has mapped: the same as ours. */
static int copy_vdso(void)
{
    const char *at = (const char *)(uintptr_t)getauxval(AT_SYSINFO_EHDR); // NOLINT: an address
    int fd = at ? memfd_create("vdso", MFD_CLOEXEC) : -1;
    enum { PAGE = 4096, MOST = 8 };
    /* Its length is nowhere told; writing stops where nothing is mapped. */
    for (size_t i = 0; fd >= 0 && i < MOST; i++)
        if (write(fd, at + i * PAGE, PAGE) != PAGE)
            break;
    return fd;
}

/* The mapped file itself needs CAP_CHECKPOINT_RESTORE; without that its path as the process sees
 * it, or, of one that is deleted, what leads to a process's own program. */
static int hold(const dz_module *m, pid_t pid, uint64_t start, uint64_t end)
{
    char path[4200], link[4096];
    size_t len = strlen(m->path);
    if (strcmp(m->path, "[vdso]") == 0)
        return copy_vdso();
    if (!m->deleted && m->root == 1)
        return -1;
    snprintf(path, sizeof path, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)pid, start, end);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    if (!m->deleted) {
        snprintf(path, sizeof path, "/proc/%d/root%.4096s", (int)pid, m->path);
        return open(path, O_RDONLY | O_CLOEXEC);
    }
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    ssize_t n = readlink(path, link, sizeof link - 1);
    bool same = n > 0 && (size_t)n >= len && memcmp(link, m->path, len) == 0;
    return same ? open(path, O_RDONLY | O_CLOEXEC) : -1;
}

bool dz_module_init(dz_module *m, const char *path, uint64_t root, pid_t pid, uint64_t start,
                    uint64_t end)
{
    static const char gone[] = " (deleted)";
    size_t len = strlen(path), tail = sizeof gone - 1;
    *m = (dz_module){.root = root, .fd = -1};
    m->deleted = len > tail && strcmp(path + len - tail, gone) == 0;
    m->path = strndup(path, m->deleted ? len - tail : len);
    if (!m->path)
        return false;
    m->fd = hold(m, pid, start, end);
    return true;
}

void dz_module_close(dz_module *m)
{
    dz_cfi_close(&m->cfi);
    dz_source_close(&m->source);
    if (m->dwfl)
        dwfl_end(m->dwfl);
    if (m->fd >= 0)
        close(m->fd);
    dz_map_close(&m->frames);
    free(m->path);
}

static void open_it(dz_module *m)
{
    static char *debug_path;
    static const Dwfl_Callbacks callbacks = {
        .find_elf = dwfl_build_id_find_elf,
        .find_debuginfo = dwfl_standard_find_debuginfo,
        .section_address = dwfl_offline_section_address,
        .debuginfo_path = &debug_path,
    };
    m->tried = true;
    if (m->fd < 0 && (m->deleted || m->root != 1))
        return;                  /* what the path leads to is another file */
    unsetenv("DEBUGINFOD_URLS"); /* looking up a name must not go to the network */
    m->dwfl = dwfl_begin(&callbacks);
    if (!m->dwfl)
        return;
    dwfl_report_begin(m->dwfl);
    m->mod = dwfl_report_offline(m->dwfl, m->path, m->path, m->fd);
    if (m->mod)
        m->fd = -1; /* theirs now */
    dwfl_report_end(m->dwfl, NULL, NULL);
}

/* The place in the file as the address the file's own tables use, plus where dwfl put it. */
static bool to_address(dz_module *m, uint64_t offset, uint64_t *address)
{
    if (!m->tried)
        open_it(m);
    GElf_Addr bias;
    Elf *elf = m->mod ? dwfl_module_getelf(m->mod, &bias) : NULL;
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

const dz_cfi_rule *dz_module_rule(dz_module *m, uint64_t offset)
{
    uint64_t address;
    uint32_t index;
    size_t at = SIZE_MAX;
    if (dz_map_next(&m->cfi.known, offset, &at, &index))
        return index ? &m->cfi.rules[index] : NULL;
    return to_address(m, offset, &address) ? dz_cfi_find(&m->cfi, m->mod, offset, address) : NULL;
}

uint32_t dz_module_frame(dz_module *m, dz_profile *p, uint64_t offset, bool *known)
{
    uint32_t frame;
    size_t at = SIZE_MAX;
    if (dz_map_next(&m->frames, offset, &at, &frame)) {
        *known = !(frame & 1);
        return frame >> 1;
    }
    char text[4096], base[64];
    uint64_t address;
    const char *name =
        to_address(m, offset, &address) ? dwfl_module_addrname(m->mod, address) : NULL;
    *known = name != NULL;
    dz_frame f = {.kind = DZ_FRAME_NATIVE, .file = dz_profile_string(p, dz_slice_of(m->path))};
    if (name) {
        f.name = dz_profile_string(p, dz_slice_of(dz_demangle(name, text, sizeof text)));
        const char *file;
        int line;
        if (dz_source_find(&m->source, m->mod, address, &file, &line)) {
            f.file = dz_profile_string(p, dz_slice_of(file));
            f.line = (uint32_t)line;
        }
    } else {
        const char *slash = strrchr(m->path, '/');
        const char *plain = slash ? slash + 1 : m->path;
        snprintf(base, sizeof base, plain[0] == '[' ? "%.50s" : "[%.50s]", plain);
        f.name = dz_profile_string(p, dz_slice_of(base));
    }
    frame = dz_profile_frame(p, &f);
    dz_map_put(&m->frames, offset, (frame << 1) | !name);
    return frame;
}

bool dz_module_stripped(dz_module *m)
{
    GElf_Addr bias;
    Elf *elf = m->mod ? dwfl_module_getelf(m->mod, &bias) : NULL;
    for (Elf_Scn *s = NULL; elf && (s = elf_nextscn(elf, s));) {
        GElf_Shdr memory, *h = gelf_getshdr(s, &memory);
        if (h && h->sh_type == SHT_SYMTAB)
            return false;
    }
    return elf && !dwfl_module_getdwarf(m->mod, &bias);
}
