/* latency.h: what `donmaz load --latencies` wrote, as a curve of exact percentiles. */
#ifndef DZ_LAB_LATENCY_H
#define DZ_LAB_LATENCY_H

#include <jansson.h>

/* For each endpoint of the file, in order, an array of [percentile, ms] pairs from 0 to 100, each
 * the exact nearest-rank percentile of all its requests. Reads from `fd` at offset 0. NULL when it
 * is not such a file or out of memory. */
json_t *dz_lab_latency_curves(int fd);

#endif
