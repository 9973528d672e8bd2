/* advice.h: what to do about a verdict. */
#ifndef DZ_DOCTOR_ADVICE_H
#define DZ_DOCTOR_ADVICE_H

#include "judge.h"

/* Fills the diagnosis's advice from its verdict and the facts. */
void dz_advise(dz_diagnosis *diagnosis, const dz_facts *facts);

#endif
