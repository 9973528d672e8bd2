/* offload.h: a function that a handler wants run on a worker thread. */
#ifndef DZ_CONTENT_OFFLOAD_H
#define DZ_CONTENT_OFFLOAD_H

#include <donmaz/pool.h>

typedef void dz_offload_fn(void *arg);

/* A pool for dz_offload. NULL: out of memory. */
dz_pool *dz_offload_pool(unsigned workers, unsigned max_queue);

/* From a handler: parks until fn(arg) has run on a worker. Returns 0; or an error of dz_pool_run,
 * and it was not run (DZ_E_CANCELLED: the client has gone). */
int dz_offload(dz_pool *pool, dz_offload_fn *fn, void *arg);

#endif
