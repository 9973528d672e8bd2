/* slice.h: how long the kernel lets a thread run before others of the same core get their turn. */
#ifndef DZ_BASE_SLICE_H
#define DZ_BASE_SLICE_H

#include <stdint.h>

/* Asks for time slices of `ns` for the calling thread (100 us to 100 ms); its share of the core
 * stays. Needs no privilege. Takes effect on Linux 6.12 or newer, older ones ignore it. Returns 0
 * or -errno. Source: sched(7), "EEVDF"; sched_setattr(2). */
int dz_thread_slice(uint64_t ns);

#endif
