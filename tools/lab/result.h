/* result.h: a run's JSON: the raw figures of every repeat under "runs", and what they come to under
 * "stacks". The document is the whole state of a run, which is how one is resumed. */
#ifndef DZ_LAB_RESULT_H
#define DZ_LAB_RESULT_H

#include "stack.h"

#include <jansson.h>

/* A new document for this experiment: title, machine, phases, an empty entry for each stack. */
json_t *dz_lab_result_new(const dz_lab_bench *bench, bool quick, unsigned repeats);

/* The run of `stack` in `repeat` when it was measured whole; NULL otherwise. Borrowed. */
json_t *dz_lab_result_run(json_t *document, const char *stack, unsigned repeat);

/* Stores `run` (stolen) as the stack's figures of this repeat, in place of an unfinished one. */
void dz_lab_result_store(json_t *document, const char *stack, unsigned repeat, json_t *run);

/* The stack's entry, made if need be. Borrowed. */
json_t *dz_lab_result_stack(json_t *document, const char *stack);

/* Works out each stack's figures and confidence intervals from the runs. */
void dz_lab_result_summarise(json_t *document);

/* The figures of one metric in all runs of a stack: fills values[0..max), returns how many. */
size_t dz_lab_result_values(json_t *document, const char *stack, const char *metric,
                            const char *phase, const char *path, double *values, size_t max);

/* Reads a document a run has written. NULL with one line on stderr when it is none. */
json_t *dz_lab_result_load(const char *path);

/* Writes atomically (a temporary file beside it, then rename); "-" is stdout. 0 or a negative
 * error. */
int dz_lab_result_save(json_t *document, const char *path);

#endif
