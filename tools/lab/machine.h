/* machine.h: where a run took place, and what made its figures uncertain. */
#ifndef DZ_LAB_MACHINE_H
#define DZ_LAB_MACHINE_H

#include <jansson.h>

#include <stdbool.h>

#include <stdint.h>

/* {"cpu", "cores", "usable_cores", "memory_mb", "kernel", "os", "virtual", "governor", "donmaz",
 * "host_load"}; a fact that can't be had is null. NULL out of memory. */
json_t *dz_lab_machine(void);

typedef struct dz_lab_ticks {
    uint64_t total, steal,
        idle; /* steal is in total, not in idle; of all cores, in clock ticks since boot */
} dz_lab_ticks;

/* All zero when /proc/stat can't be read. */
dz_lab_ticks dz_lab_ticks_now(void);

/* What the host of a virtual machine took of all cores' time between two looks, in percent. */
double dz_lab_steal_percent(dz_lab_ticks before, dz_lab_ticks after);

/* Cores of this machine that are online. */
long dz_lab_cores(void);

/* Warnings about this machine before anything runs (governor, load), as JSON strings. */
json_t *dz_lab_machine_warnings(json_t *machine);

#endif
