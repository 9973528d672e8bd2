/* cpu.h: how many processors this process may use. */
#ifndef DZ_BASE_CPU_H
#define DZ_BASE_CPU_H

/* The smaller of the processors it may run on and its cgroup's CPU quota (versions 1 and 2, rounded
 * up); at least 1. Reads /proc and /sys: call it once. */
unsigned dz_cpu_count(void);

#endif
