/* judge.h: an experiment's claims against what was measured. */
#ifndef DZ_LAB_JUDGE_H
#define DZ_LAB_JUDGE_H

#include "experiment.h"

#include <jansson.h>

#include <stdio.h>

/* Tests every expectation, adds the outcome to the document as "expectations", and prints one line
 * for each. Returns how many did not hold; one that could not be tested did not hold. */
unsigned dz_lab_judge(const dz_lab_experiment *experiment, json_t *document, FILE *out);

#endif
