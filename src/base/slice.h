/* slice.h: how long the kernel lets a thread run before others of the same core get their turn. */
#ifndef DZ_BASE_SLICE_H
#define DZ_BASE_SLICE_H

#include <stdint.h>

/* For threads that run handlers, ns. Light and heavy handlers that share a core take turns this
 * often. The kernel's own slices (1 to 3 ms) and its tick (1 to 10 ms) are of a light handler's
 * length: one that meets a heavy one would take anything from its own time to three times as long.
 * Shorter costs switches, and gives nothing that a client could see. And a thread that wakes up
 * takes the core at once from one with longer slices: a loop from a task of the pool. */
#define DZ_HANDLER_SLICE UINT64_C(500000)

/* Asks for time slices of `ns` for the calling thread (100 us to 100 ms; 0: the kernel's own, as a
 * thread inherits those of its creator); its share of the core stays. Needs no privilege. Takes
 * effect on Linux 6.12 or newer, older ones ignore it. Returns 0 or -errno. Source: sched(7),
 * "EEVDF"; sched_setattr(2). */
int dz_thread_slice(uint64_t ns);

#endif
