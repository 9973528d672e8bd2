/* proctree.h: a process with all its descendants, at one moment: sums, and whom to signal.
 *
 * tree.h follows a tree over time instead, thread by thread, and sees it grow and shrink. */
#ifndef DZ_TARGET_PROCTREE_H
#define DZ_TARGET_PROCTREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct dz_proctree {
    pid_t *pids; /* the root first when it is there; from malloc, freed by dz_proctree_free */
    size_t count;
    uint64_t rss_kb; /* resident, summed: pages shared between processes count in each */
    uint64_t cpu_ns; /* user and system time, with that of children already waited for */
} dz_proctree;

/* Reads the processes that descend from `root`, with root itself when `with_root`. Processes that
 * vanish meanwhile are left out. 0 or a negative error. */
int dz_proctree_read(pid_t root, bool with_root, dz_proctree *tree);

/* Reads the same processes again, without searching for new ones: much cheaper. */
void dz_proctree_refresh(dz_proctree *tree);

void dz_proctree_free(dz_proctree *tree);

#endif
