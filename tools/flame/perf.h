/* perf.h: samples of what runs, by the kernel's perf events. User code only unless the kernel
 * allows more. Needs no rights for one's own processes where perf_event_paranoid is 2 or less. */
#ifndef DZ_FLAME_PERF_H
#define DZ_FLAME_PERF_H

#include "target/tree.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct dz_perf dz_perf;

enum { DZ_PERF_DEPTH = 127 };

typedef struct dz_perf_sample {
    pid_t pid, tid;
    uint64_t at, weight;           /* ns, CLOCK_MONOTONIC; ns of CPU time */
    uint64_t chain[DZ_PERF_DEPTH]; /* addresses, innermost first */
    size_t depth;
    size_t kernel; /* how many of them, the first ones, are the kernel's */
} dz_perf_sample;

/* What a process has mapped, and when it began to run another program. */
typedef struct dz_perf_events {
    void (*sample)(void *arg, const dz_perf_sample *sample);
    void (*map)(void *arg, pid_t pid, uint64_t start, uint64_t length, uint64_t offset,
                const char *name);
    void (*exec)(void *arg, pid_t pid, const char *name);
    void (*fork)(void *arg, pid_t pid, pid_t parent);
    void *arg;
} dz_perf_events;

/* A held command: sampled from its exec on, with all it starts. 0, or -errno: EACCES and EPERM when
 * the kernel does not allow it. *kernel: whether kernel code is seen. */
int dz_perf_open_command(dz_perf **out, pid_t pid, unsigned frequency, bool *kernel);

/* Processes that run: all threads known to the tree, and what they start. */
int dz_perf_open_tree(dz_perf **out, const dz_tree *tree, unsigned frequency, bool *kernel);

/* Hands over all that has come. Call every 10 ms. */
void dz_perf_drain(dz_perf *perf, const dz_perf_events *events);

/* Samples that the kernel dropped because we were late. */
uint64_t dz_perf_lost(const dz_perf *perf);

void dz_perf_close(dz_perf *perf);

/* Why it can't be had, and the exact command that would allow it; empty when all is well. */
void dz_perf_explain(int error, bool kernel, char *out, size_t cap);

#endif
