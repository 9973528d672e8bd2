/* check.h: whether a stack answers as every other one does. */
#ifndef DZ_LAB_CHECK_H
#define DZ_LAB_CHECK_H

#include "experiment.h"
#include "probe.h"

/* 0, or -1 with how the answer differs in `why`. */
int dz_lab_check_answer(const dz_lab_check *check, const dz_lab_answer *answer, char *why,
                        size_t size);

#endif
