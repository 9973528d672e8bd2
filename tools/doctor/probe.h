/* probe.h: how soon a server answers, asked from outside.
 *
 * Every 50 ms a connection of its own sends one line that is no HTTP request. A server refuses it
 * as soon as its loop gets to it, without any handler: how long that takes is how long the loop was
 * occupied. Programs that never answer such a line give no samples. */
#ifndef DZ_DOCTOR_PROBE_H
#define DZ_DOCTOR_PROBE_H

#include "node/feed.h"
#include "target/ports.h"

typedef struct dz_probe dz_probe;

typedef struct dz_probe_sample {
    uint64_t sent, answered; /* dz_now; answered 0: not until the probe was stopped, at `until` */
    uint64_t until;
    uint64_t waited; /* of it, the probing thread itself waited for a core, ns */
} dz_probe_sample;

typedef DZ_VECTOR(dz_probe_sample) dz_probe_samples;

/* Begins asking, in a thread of its own. NULL: out of memory or threads. */
dz_probe *dz_probe_start(const dz_port *port);

/* No more of it; what is on its way is given up. NULL is fine. */
void dz_probe_stop(dz_probe *probe);

/* After dz_probe_stop; the samples live until dz_probe_free. NULL gives none. */
const dz_probe_samples *dz_probe_seen(const dz_probe *probe);

/* Stops it, too. NULL is fine. */
void dz_probe_free(dz_probe *probe);

#endif
