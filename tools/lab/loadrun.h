/* loadrun.h: one phase of load on a running stack, by `donmaz load` as a child process. */
#ifndef DZ_LAB_LOADRUN_H
#define DZ_LAB_LOADRUN_H

#include "experiment.h"

#include "target/spawn.h"

#include <jansson.h>

typedef struct dz_lab_load {
    const char *program; /* what is executed with "load …": this command, or a test's fake */
    const char *host;
    unsigned port;
    const dz_lab_stack *stack;
    const dz_lab_phase *phase;
    bool quick;
    double rate; /* requests a second, open loop; 0: closed loop */
    dz_target *target;
} dz_lab_load;

/* Runs the phase and returns its results as in the lab's JSON ("name", "cpu_percent", "endpoints",
 * …), a new reference. NULL on failure, with the reason in `why`; also when interrupted. */
json_t *dz_lab_load_run(const dz_lab_load *load, char *why, size_t size);

#endif
