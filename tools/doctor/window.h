/* window.h: which part of a run is judged: neither its start-up nor its idle ends. */
#ifndef DZ_DOCTOR_WINDOW_H
#define DZ_DOCTOR_WINDOW_H

#include "outside.h"

#include "node/feed.h"

/* Narrows [*from, *to] to the part with work: a request in flight or begun, a loop that does not
 * come back, or 5% of a core used. Left as it is when there is none. `outside` NULL: where it is
 * known when requests came, CPU does not tell. */
void dz_window_trim(const dz_feed *feed, const dz_outside *outside, uint64_t *from, uint64_t *to);

#endif
