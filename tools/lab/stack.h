/* stack.h: one stack of an experiment: can it run here, start it, is it what it should be. */
#ifndef DZ_LAB_STACK_H
#define DZ_LAB_STACK_H

#include "experiment.h"
#include "words.h"

#include "target/spawn.h"

#include <jansson.h>

/* What all stacks of a run share. */
typedef struct dz_lab_bench {
    const dz_lab_experiment *experiment;
    const char *host;
    char build[4096]; /* folder of the running command */
    char cores[16];
} dz_lab_bench;

typedef struct dz_lab_running {
    dz_target target;
    unsigned port;
    double startup_ms; /* process start to first response */
} dz_lab_running;

enum { DZ_LAB_WHY = 600 };

/* 0 when everything the stack needs is there; else 1 and the reason with what to do in `why`. */
int dz_lab_stack_missing(const dz_lab_bench *bench, const dz_lab_stack *stack, char *why);

/* {"node": "v26.5.0", …}; a version that can't be learned is null. */
json_t *dz_lab_stack_versions(const dz_lab_bench *bench, const dz_lab_stack *stack);

/* The command with everything filled in, as it would be typed; port shown as PORT. From malloc;
 * NULL out of memory. */
char *dz_lab_stack_command(const dz_lab_bench *bench, const dz_lab_stack *stack);

/* Starts the stack and waits until it is ready. 0; else -1, nothing runs, and the reason is in
 * `why`. */
int dz_lab_stack_start(const dz_lab_bench *bench, const dz_lab_stack *stack,
                       dz_lab_running *running, char *why);

/* Makes the experiment's checks. 0; else -1 and which answer differs in `why`. */
int dz_lab_stack_check(const dz_lab_bench *bench, const dz_lab_running *running, char *why);

void dz_lab_stack_stop(dz_lab_running *running);

/* "it died: exited with status 1; it said: …" for a target that has ended. */
void dz_lab_stack_obituary(const dz_target *target, char *why, size_t size);

#endif
