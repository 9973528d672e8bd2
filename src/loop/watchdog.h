/* watchdog.h: what the watchdog remembers of a loop between two looks. */
#ifndef DZ_LOOP_WATCHDOG_H
#define DZ_LOOP_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

typedef struct dz_watchdog_view {
    uint64_t word;  /* the loop's owner word when this handler was first suspected; 0: none */
    uint64_t since; /* when it began, monotonic ns */
    uint64_t at;    /* when it was first suspected */
    uint64_t cpu;   /* its thread's CPU clock then */
    uint64_t ticks; /* the loop's tick counter */
    bool counted;   /* this stall was counted as capped or failed already */
} dz_watchdog_view;

#endif
