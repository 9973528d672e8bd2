/* offcpu.h: how long each thread waits, and where: from the moments at which the kernel takes it
 * off a core and puts it back on one. Being preempted is no waiting. One thread at a time. */
#ifndef DZ_FLAME_OFFCPU_H
#define DZ_FLAME_OFFCPU_H

#include "map.h"

#include <sys/types.h>

typedef struct dz_wait {
    pid_t pid, tid;
    uint32_t chain; /* where; 0 unknown */
    uint64_t from, to;
} dz_wait;

typedef struct dz_off_thread {
    pid_t pid, tid;
    uint32_t chain;
    uint64_t since; /* 0: runs, or has ended */
    bool ended;
} dz_off_thread;

typedef struct dz_offcpu {
    dz_off_thread *threads;
    size_t count, cap;
    dz_map by_tid;
} dz_offcpu;

void dz_offcpu_close(dz_offcpu *off);

/* The thread is about to leave its core from this stack. False out of memory. */
bool dz_offcpu_leave(dz_offcpu *off, pid_t pid, pid_t tid, uint32_t chain, uint64_t at);

/* It has left; where no stack may be seen this is the first that is heard of it. */
bool dz_offcpu_left(dz_offcpu *off, pid_t pid, pid_t tid, uint64_t at, bool preempted);

/* It runs again: true when it had waited, and *wait is how long. */
bool dz_offcpu_back(dz_offcpu *off, pid_t tid, uint64_t at, dz_wait *wait);

void dz_offcpu_end(dz_offcpu *off, pid_t tid);

/* The recording ends: calls `each` for every thread that waits still. */
void dz_offcpu_finish(dz_offcpu *off, uint64_t at, void (*each)(void *arg, const dz_wait *wait),
                      void *arg);

#endif
