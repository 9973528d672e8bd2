/* usage.h: CPU and memory of the target while it is loaded, children and threads included. */
#ifndef DZ_LOAD_USAGE_H
#define DZ_LOAD_USAGE_H

#include "load/result.h"

#include "target/tree.h"

typedef struct load_watch {
    dz_tree tree;
    load_target_usage *usage;
    uint64_t counting, last_at, last_cpu, first_cpu;
    double rss_sum;
    bool begun;
} load_watch;

/* 0, or DZ_E_NOT_FOUND when there is no such process. */
int load_watch_start(load_watch *watch, load_target_usage *usage, int pid);
/* Takes a sample; those before `counting` only set the base line. */
void load_watch_sample(load_watch *watch, uint64_t now, uint64_t counting);
/* The last sample, and the totals. */
void load_watch_stop(load_watch *watch, uint64_t now);

#endif
