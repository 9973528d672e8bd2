/* usage.h: what a stack's processes used while they were loaded.
 *
 * The server is the process that the stack's command became, with its descendants. Services are
 * processes that came with it and are accounted apart, found by name wherever they hang below the
 * stack's guard: a database that only this stack has. */
#ifndef DZ_LAB_USAGE_H
#define DZ_LAB_USAGE_H

#include "experiment.h"
#include "machine.h"

#include "target/proctree.h"
#include "target/spawn.h"

#include <jansson.h>

typedef struct dz_lab_usage {
    uint64_t begin, end;        /* when the measured part is meant to be */
    uint64_t first_at, last_at; /* when it was really looked at */
    uint64_t first_cpu, last_cpu, first_service_cpu, last_service_cpu; /* ns */
    uint64_t rss_sum, rss_max, samples;
    dz_lab_ticks first_ticks, last_ticks; /* of the whole machine */
    json_t *times, *cpu, *rss;            /* the series for the chart */
    dz_proctree server, services;
    const dz_lab_stack *stack;
    const char *missing; /* a service that does not run */
} dz_lab_usage;

/* Splits what the target started into the server and the stack's services. 0 or a negative error;
 * DZ_E_NOT_FOUND: no process is called *missing. Both trees are to be freed. */
int dz_lab_usage_find(const dz_lab_stack *stack, const dz_target *target, dz_proctree *server,
                      dz_proctree *services, const char **missing);

void dz_lab_usage_open(dz_lab_usage *usage, const dz_lab_stack *stack, uint64_t begin,
                       uint64_t end);
void dz_lab_usage_close(dz_lab_usage *usage);

/* Looks at the processes; to be called between `begin` and some time after `end`. */
void dz_lab_usage_sample(dz_lab_usage *usage, const dz_target *target);

/* Adds CPU, memory and their series to a phase's result. `asked` is how long the load lasted, in
 * nanoseconds; client_cpu_percent is there already, if it is known. */
void dz_lab_usage_results(const dz_lab_usage *usage, double requests, double asked, json_t *result);

#endif
