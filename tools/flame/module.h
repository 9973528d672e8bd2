/* module.h: a file that holds code: its symbols, the lines they were written on, and how its
 * functions' callers are found. Opened when first asked; a file that can't be read is known by its
 * name alone. One thread at a time. */
#ifndef DZ_FLAME_MODULE_H
#define DZ_FLAME_MODULE_H

#include "cfi.h"
#include "functions.h"
#include "images.h"
#include "profile.h"
#include "source.h"

typedef struct dz_module {
    char *path;    /* as its process names it, without " (deleted)" */
    uint64_t root; /* of the process that mapped it (dz_image) */
    uint64_t inode;
    int fd; /* held open from the beginning, as its path may lead to another file later; -1 */
    bool deleted, replaced, tried, listed;
    Dwfl *dwfl;
    Dwfl_Module *mod; /* NULL when it can't be read */
    dz_cfi cfi;
    dz_functions functions;
    dz_source source;
    dz_map frames;     /* place in the file to frame */
    uint64_t nameless; /* samples whose innermost address has no name in it */
} dz_module;

/* What the kernel adds to the name of a mapped file that its path no longer leads to. */
#define DZ_DELETED " (deleted)"
bool dz_module_is_deleted(const char *path);

/* The file that was mapped, not what may have come to its path since. `root` 1 is ours. False out
 * of memory. */
bool dz_module_init(dz_module *module, const dz_mapped *mapped, uint64_t root);
void dz_module_close(dz_module *module);

/* The frame at a place in the file; *known: it has a name of its own. */
uint32_t dz_module_frame(dz_module *module, dz_profile *profile, uint64_t offset, bool *known);

/* How the caller of the code at a place in the file is found; NULL when the file does not say. */
const dz_cfi_rule *dz_module_rule(dz_module *module, uint64_t offset);

/* Whether the file has a table of all its functions (.symtab), or debug information. */
bool dz_module_stripped(dz_module *module);

#endif
