#include "symbols.h"

#include "jit.h"
#include "kallsyms.h"
#include "module.h"

#include "target/procfs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

struct dz_symbols {
    dz_profile *profile;
    dz_images images;
    dz_module *modules;
    size_t module_count, module_cap;
    dz_jit jit;
    dz_kallsyms kernel;
    uint64_t samples;
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
    for (size_t i = 0; i < s->module_count; i++)
        dz_module_close(&s->modules[i]);
    free(s->modules);
    dz_images_close(&s->images);
    dz_jit_close(&s->jit);
    dz_kallsyms_close(&s->kernel);
    free(s);
}

/* What names a root directory and what is mounted below it; 1 for ours, also when it can't be told.
 */
static uint64_t root_of(pid_t pid)
{
    struct stat ours, its, our_mounts, its_mounts;
    char root[64], mounts[64];
    snprintf(root, sizeof root, "/proc/%d/root/", (int)pid);
    snprintf(mounts, sizeof mounts, "/proc/%d/ns/mnt", (int)pid);
    if (stat("/", &ours) < 0 || stat(root, &its) < 0 ||
        stat("/proc/self/ns/mnt", &our_mounts) < 0 || stat(mounts, &its_mounts) < 0)
        return 1;
    if (ours.st_dev == its.st_dev && ours.st_ino == its.st_ino &&
        our_mounts.st_ino == its_mounts.st_ino)
        return 1;
    return dz_map_mix(dz_map_mix(its.st_dev, its.st_ino), its_mounts.st_ino) | 2;
}

static uint64_t root_at(dz_symbols *s, pid_t pid, uint64_t at)
{
    uint32_t image = dz_images_at(&s->images, pid, at);
    if (image == DZ_NO_IMAGE)
        return root_of(pid);
    dz_image *i = &s->images.all[image];
    if (i->root == 0)
        i->root = root_of(pid);
    return i->root;
}

static bool is_file(const char *path)
{
    return path[0] == '/' && strncmp(path, "//anon", 6) != 0 && strncmp(path, "/memfd:", 7) != 0 &&
           strncmp(path, "/dev/", 5) != 0 && strncmp(path, "/SYSV", 5) != 0;
}

static bool same_file(const dz_module *m, const dz_mapped *mapped, uint64_t root, bool deleted)
{
    size_t len = strlen(mapped->name) - (deleted ? sizeof DZ_DELETED - 1 : 0);
    return m->root == root && m->deleted == deleted && m->inode == mapped->inode &&
           strncmp(m->path, mapped->name, len) == 0 && m->path[len] == 0;
}

static int module_of(dz_symbols *s, uint64_t root, const dz_mapped *mapped)
{
    const char *path = mapped->name;
    if (strcmp(path, "[vdso]") != 0 && !is_file(path))
        return path[0] == '[' && strncmp(path, "[anon", 5) != 0 ? DZ_MODULE_NONE : DZ_MODULE_JIT;
    bool deleted = dz_module_is_deleted(path);
    for (size_t i = 0; i < s->module_count; i++)
        if (same_file(&s->modules[i], mapped, root, deleted))
            return (int)i;
    if (s->module_count == s->module_cap) {
        size_t cap = s->module_cap ? s->module_cap * 2 : 32;
        dz_module *more = reallocarray(s->modules, cap, sizeof *more);
        if (!more)
            return DZ_MODULE_NONE;
        s->modules = more;
        s->module_cap = cap;
    }
    if (!dz_module_init(&s->modules[s->module_count], mapped, root))
        return DZ_MODULE_NONE;
    return (int)s->module_count++;
}

void dz_symbols_map(dz_symbols *s, const dz_mapped *mapped)
{
    if (mapped->length > UINT64_MAX - mapped->start)
        return;
    bool file = mapped->name[0] == '/';
    uint64_t root = file ? root_at(s, mapped->pid, mapped->at) : 1;
    dz_mapping m = {.start = mapped->start,
                    .end = mapped->start + mapped->length,
                    .offset = file ? mapped->offset : 0, /* else the address stands in its place */
                    .at = mapped->at,
                    .module = module_of(s, root, mapped)};
    dz_images_map(&s->images, mapped->pid, &m);
}

void dz_symbols_fork(dz_symbols *s, pid_t pid, pid_t parent, uint64_t at)
{
    dz_images_fork(&s->images, pid, parent, at);
}

void dz_symbols_exec(dz_symbols *s, pid_t pid, uint64_t at)
{
    dz_images_exec(&s->images, pid, at);
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
        uint64_t end;
        char rights[8];
        int name = 0;
        dz_mapped m = {.pid = pid};
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %" SCNu64 " %n", &m.start,
                   &end, rights, &m.offset, &m.inode, &name) != 5 ||
            rights[2] != 'x' || !name)
            continue;
        /* Memory of no file is without a name here; the kernel's events call it so. */
        m.name = line[name] ? line + name : "//anon";
        m.length = end - m.start;
        dz_symbols_map(s, &m);
    }
    free(text);
}

void dz_symbols_read_jit(dz_symbols *s, pid_t pid, bool remove_it)
{
    dz_jit_read(&s->jit, s->profile, pid, remove_it);
}

uint32_t dz_symbols_image(const dz_symbols *s, pid_t pid, uint64_t at)
{
    return dz_images_at(&s->images, pid, at);
}

static dz_place named(dz_symbols *s, const char *name, dz_frame_kind kind, bool jit)
{
    dz_frame f = {.name = dz_profile_string(s->profile, dz_slice_of(name)), .kind = (uint8_t)kind};
    return (dz_place){.frame = dz_profile_frame(s->profile, &f), .jit = jit, .mapped = jit};
}

static bool is_kernel(uint64_t address)
{
    return address >> 63;
}

static dz_place kernel_place(dz_symbols *s, uint64_t address)
{
    uint32_t name = dz_kallsyms_find(&s->kernel, s->profile, "/proc/kallsyms", address);
    if (!name)
        return named(s, "[kernel]", DZ_FRAME_KERNEL, false);
    dz_frame f = {.name = name, .kind = DZ_FRAME_KERNEL};
    return (dz_place){.frame = dz_profile_frame(s->profile, &f), .mapped = true, .known = true};
}

dz_place dz_symbols_find(dz_symbols *s, uint32_t image, uint64_t address, uint64_t at)
{
    if (is_kernel(address))
        return kernel_place(s, address);
    if (image < s->images.count) {
        const dz_jit_entry *e = dz_jit_find(&s->jit, s->images.all[image].pid, address);
        if (e)
            return (dz_place){.frame = e->frame, .jit = true, .mapped = true, .known = true};
    }
    const dz_mapping *m = dz_images_find(&s->images, image, address, at);
    if (!m || m->module == DZ_MODULE_NONE)
        return named(s, "[unknown]", DZ_FRAME_NATIVE, false);
    if (m->module == DZ_MODULE_JIT)
        return named(s, "[code made at run time]", DZ_FRAME_NATIVE, true);
    dz_place place = {.mapped = true};
    place.frame = dz_module_frame(&s->modules[m->module], s->profile,
                                  address - m->start + m->offset, &place.known);
    return place;
}

dz_found_rule dz_symbols_rule(dz_symbols *s, uint32_t image, uint64_t address, uint64_t at)
{
    const dz_mapping *m = dz_images_find(&s->images, image, address, at);
    dz_found_rule found = {.mapped = m != NULL};
    if (m && m->module >= 0) {
        dz_module *module = &s->modules[m->module];
        found.rule = dz_module_rule(module, address - m->start + m->offset);
        found.cfi = &module->cfi;
    }
    return found;
}

void dz_symbols_count(dz_symbols *s, uint32_t image, uint64_t address, uint64_t at, bool known)
{
    s->samples++;
    const dz_mapping *m =
        is_kernel(address) ? NULL : dz_images_find(&s->images, image, address, at);
    if (m && m->module >= 0 && !known)
        s->modules[m->module].nameless++;
}

const char *dz_symbols_nameless(dz_symbols *s, double share, const char **why)
{
    dz_module *worst = NULL;
    for (size_t i = 0; i < s->module_count; i++)
        if (!worst || s->modules[i].nameless > worst->nameless)
            worst = &s->modules[i];
    if (!worst || (double)worst->nameless <= share * (double)s->samples)
        return NULL;
    *why = !worst->mod && worst->deleted    ? "was deleted while it ran"
           : !worst->mod && worst->replaced ? "was replaced while it ran"
           : !worst->mod                    ? "can't be read"
           : dz_module_stripped(worst)
               ? "is stripped and its separate debug file is missing (a -dbg, -dbgsym or "
                 "-debuginfo package has it)"
               : "has code without names";
    return worst->path;
}
