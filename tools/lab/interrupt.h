/* interrupt.h: Ctrl-C, SIGTERM and SIGHUP end the lab in good order. */
#ifndef DZ_LAB_INTERRUPT_H
#define DZ_LAB_INTERRUPT_H

#include <stdbool.h>

/* From now on these signals are only noted; waits end early with EINTR. */
void dz_lab_interrupt_watch(void);

bool dz_lab_interrupted(void);

#endif
