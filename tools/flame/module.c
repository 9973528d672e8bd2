#include "module.h"

#include "symbols.h"

#include <base/clock.h>

#include <elfutils/libdw.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
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

static int open_file(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

/* Inodes are no proof alone: what an overlay shows and what it maps have different ones. A file
 * that came to this path after the other was mapped has been changed since: a rename changes it
 * too. */
static bool is_other_file(int fd, const dz_mapped *mapped)
{
    struct stat st;
    struct timespec now;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return true;
    if (st.st_ino == mapped->inode || mapped->inode == 0 || mapped->at == 0)
        return false;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t age = (int64_t)(dz_now() - mapped->at);
    int64_t then = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - age;
    return (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec > then;
}

/* By its path, as the process sees it. */
static int open_path(dz_module *m, const dz_mapped *mapped)
{
    char path[4200];
    snprintf(path, sizeof path, "/proc/%d/root%.4096s", (int)mapped->pid, m->path);
    int fd = open_file(m->root == 1 ? m->path : path);
    if (fd >= 0 && is_other_file(fd, mapped)) {
        close(fd);
        m->replaced = true;
        fd = -1;
    }
    return fd;
}

/* A process's own program can be had when it is deleted. */
static int open_program(const dz_module *m, pid_t pid)
{
    char path[64], link[4096];
    size_t len = strlen(m->path);
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    ssize_t n = readlink(path, link, sizeof link - 1);
    if (n < (ssize_t)len || memcmp(link, m->path, len) != 0)
        return -1;
    link[n] = 0;
    return link[len] == 0 || strcmp(link + len, DZ_DELETED) == 0 ? open_file(path) : -1;
}

/* What is mapped itself can be had only with CAP_CHECKPOINT_RESTORE. */
static int hold(dz_module *m, const dz_mapped *mapped)
{
    char path[80];
    if (strcmp(m->path, "[vdso]") == 0)
        return copy_vdso();
    int fd = m->deleted ? -1 : open_path(m, mapped);
    if (fd >= 0)
        return fd;
    snprintf(path, sizeof path, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)mapped->pid,
             mapped->start, mapped->start + mapped->length);
    fd = open_file(path);
    return fd >= 0 ? fd : open_program(m, mapped->pid);
}

bool dz_module_is_deleted(const char *path)
{
    size_t len = strlen(path), tail = sizeof DZ_DELETED - 1;
    return len > tail && strcmp(path + len - tail, DZ_DELETED) == 0;
}

bool dz_module_init(dz_module *m, const dz_mapped *mapped, uint64_t root)
{
    size_t len = strlen(mapped->name);
    *m = (dz_module){.root = root,
                     .inode = mapped->inode,
                     .fd = -1,
                     .deleted = dz_module_is_deleted(mapped->name)};
    m->path = strndup(mapped->name, m->deleted ? len - (sizeof DZ_DELETED - 1) : len);
    if (!m->path)
        return false;
    m->fd = hold(m, mapped);
    return true;
}

void dz_module_close(dz_module *m)
{
    dz_cfi_close(&m->cfi);
    dz_functions_close(&m->functions); /* names are the module's: before it */
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
    if (m->fd < 0)
        return;
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

static const char *name_at(dz_module *m, uint64_t address)
{
    if (!m->listed)
        dz_functions_read(&m->functions, m->mod);
    m->listed = true;
    return dz_functions_find(&m->functions, address);
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
    const char *name = to_address(m, offset, &address) ? name_at(m, address) : NULL;
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
