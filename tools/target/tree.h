/* tree.h: a process, its children and all their threads, with what each has used.
 *
 * Discovery (refresh) walks /proc and is meant for every 100 ms or so; sampling reads one small
 * file per thread and one per process through descriptors kept open, a microsecond or two each, so
 * that 100 times a second is cheap. Entries are never removed, only marked gone: indices stay
 * valid and what they used still counts. One thread at a time. */
#ifndef DZ_TARGET_TREE_H
#define DZ_TARGET_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct dz_tree_thread {
    pid_t tid;
    char name[32];
    bool gone;
    bool coarse;      /* no schedstat in this kernel: cpu_ns comes in ticks, wait_ns is 0 */
    int fd;           /* schedstat or stat; -1 when gone */
    uint64_t cpu_ns;  /* since it started */
    uint64_t wait_ns; /* ready to run, waiting for a core */
    uint64_t first_cpu_ns, first_wait_ns; /* as when first seen */
} dz_tree_thread;

typedef struct dz_tree_proc {
    pid_t pid, ppid;
    char name[32];
    uint64_t start_ticks;
    bool gone, seen;
    int statm_fd;
    uint64_t rss;                 /* bytes */
    unsigned fds;                 /* open descriptors; 0 when we may not look */
    uint64_t switches, preempted; /* voluntary and not; of its main thread, from refresh */
    uint64_t cpu_ns, wait_ns;     /* sums over its threads since first seen, ended ones included */
    dz_tree_thread *threads;
    size_t count, cap;
} dz_tree_proc;

typedef struct dz_tree {
    pid_t root;
    bool from_start; /* set when the tool started the root: counters of new threads count from 0 */
    dz_tree_proc *procs;
    size_t count, cap;
} dz_tree;

/* Nothing is read yet. */
void dz_tree_init(dz_tree *tree, pid_t root);
void dz_tree_close(dz_tree *tree);

/* Finds new processes and threads, marks those that ended, and reads what is slow to read (fds,
 * context switches). 0; DZ_E_NOT_FOUND when no process of the tree is left; DZ_E_NOMEM. */
int dz_tree_refresh(dz_tree *tree);

/* Reads CPU, run-queue wait and RSS of everything known. */
void dz_tree_sample(dz_tree *tree);

/* The process, or NULL. The pointer is valid until the next refresh. */
dz_tree_proc *dz_tree_find(dz_tree *tree, pid_t pid);

#endif
