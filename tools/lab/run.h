/* run.h: measures the stacks of an experiment, one at a time, interleaved over the repeats. */
#ifndef DZ_LAB_RUN_H
#define DZ_LAB_RUN_H

#include "stack.h"

#include <jansson.h>

#include <stdbool.h>

typedef struct dz_lab_run_options {
    const char *only;         /* patterns separated by commas; NULL: all stacks */
    const char *load_program; /* executed with "load …" */
    const char *save;         /* the document is written here after every stack; NULL: nowhere */
    unsigned repeats;
    bool quick;
} dz_lab_run_options;

/* Measures what `document` does not hold yet and adds it. Returns true when everything asked for
 * was measured or skipped with a reason; false when it was interrupted or a stack failed. */
bool dz_lab_run(const dz_lab_bench *bench, const dz_lab_run_options *options, json_t *document);

/* Whether a pattern of the list `only` matches `name`. */
bool dz_lab_selected(const char *only, const char *name);

#endif
