/* perf_ring.h: the memory that the kernel writes records into, and what a record says. Private to
 * perf.c. */
#ifndef DZ_FLAME_PERF_RING_H
#define DZ_FLAME_PERF_RING_H

#include "perf.h"

#include <linux/perf_event.h>

enum { DZ_RECORD = 65536 }; /* a record's size is 16 bits */

typedef struct dz_ring {
    int fd;
    struct perf_event_mmap_page *page;
    char *data;
    uint64_t size;
    uint64_t tail, head; /* what has come and is not yet handed over */
    uint64_t at;         /* time of the record at tail */
} dz_ring;

/* The registers to ask for, and how many there are. 0 where unwinding is not to be had. */
uint64_t dz_ring_registers(void);

/* Maps the ring of an event, at least `least` bytes or less where no more may be locked. -errno. */
int dz_ring_map(dz_ring *ring, size_t least);
void dz_ring_close(dz_ring *ring);

/* Notes what has come so far, and the time of the first record. */
void dz_ring_look(dz_ring *ring);

/* Copies the record at tail out, as it may wrap around the end, and frees its place. */
void dz_ring_take(dz_ring *ring, char *record);

/* Tells `events` what a record says; returns how many records it says were lost. */
uint64_t dz_ring_tell(const char *record, const dz_perf_events *events, bool pressing);

#endif
