/* perf.h: samples of what runs, or of what stops running, by the kernel's perf events. User code
 * only unless the kernel allows more. Needs no rights for one's own processes where
 * perf_event_paranoid is 2 or less. */
#ifndef DZ_FLAME_PERF_H
#define DZ_FLAME_PERF_H

#include "arch.h"
#include "images.h"

#include "target/tree.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct dz_perf dz_perf;

enum { DZ_PERF_DEPTH = 1024 };

typedef struct dz_perf_options {
    unsigned frequency;
    unsigned stack; /* bytes of the stack to copy, to be unwound from; 0: frame pointers only */
    bool off_cpu;   /* a sample whenever a thread stops running, instead of by the clock */
} dz_perf_options;

typedef struct dz_perf_sample {
    pid_t pid, tid;
    uint64_t at, weight;           /* ns, CLOCK_MONOTONIC; ns of CPU time */
    uint64_t chain[DZ_PERF_DEPTH]; /* addresses by frame pointers, innermost first */
    size_t depth;
    size_t kernel;               /* how many of them, the first ones, are the kernel's */
    uint64_t registers[DZ_REGS]; /* by DWARF's numbers (arch.h); valid only when stack_len > 0 */
    const char *stack;           /* memory from the stack pointer on */
    size_t stack_len;
    bool pressing; /* more than half of the room is taken: there is no time to lose */
} dz_perf_sample;

/* What came, in order of time over all cores. */
typedef struct dz_perf_events {
    void (*sample)(void *arg, const dz_perf_sample *sample);
    void (*map)(void *arg, const dz_mapped *mapped);
    void (*exec)(void *arg, pid_t pid, uint64_t at);
    void (*fork)(void *arg, pid_t pid, pid_t parent, uint64_t at);
    /* With off_cpu: a thread begins (`in`) or stops to run; preempted: it could have gone on. */
    void (*turn)(void *arg, pid_t pid, pid_t tid, uint64_t at, bool in, bool preempted);
    void (*end)(void *arg, pid_t tid, uint64_t at); /* of a thread */
    void *arg;
} dz_perf_events;

/* A held command: sampled from its exec on, with all it starts. 0, or -errno: EACCES and EPERM when
 * the kernel does not allow it. */
int dz_perf_open_command(dz_perf **out, pid_t pid, const dz_perf_options *options);

/* Processes that run: all threads known to the tree, and what they start. */
int dz_perf_open_tree(dz_perf **out, const dz_tree *tree, const dz_perf_options *options);

/* Hands over what has come, until `deadline` (dz_now), beyond it only as long as it presses; 0: all
 * of it, at the end. Call every 10 ms. */
void dz_perf_drain(dz_perf *perf, const dz_perf_events *events, uint64_t deadline);

bool dz_perf_kernel(const dz_perf *perf);   /* whether kernel code is seen */
uint64_t dz_perf_lost(const dz_perf *perf); /* records that the kernel dropped, as we were late */
size_t dz_perf_unseen(const dz_perf *perf); /* threads left out for want of descriptors */

void dz_perf_close(dz_perf *perf);

/* Why it can't be had, and the exact command that would allow it; empty when all is well. */
void dz_perf_explain(int error, bool kernel, char *out, size_t cap);

/* The same where kernel.perf_event_paranoid is `paranoid`. */
void dz_perf_explain_at(int error, bool kernel, int paranoid, char *out, size_t cap);

#endif
