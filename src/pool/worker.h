/* worker.h: the threads of a pool. All but dz_worker_wake with pool->lock held. */
#ifndef DZ_POOL_WORKER_H
#define DZ_POOL_WORKER_H

#include "pool/pool.h"

/* One worker more. DZ_E_NOMEM, DZ_E_NO_THREAD. */
int dz_pool_start_worker(dz_pool *pool);

/* The worker to be woken once the lock is dropped; NULL: none sleeps, and those on their way will
 * take what waits. */
_Atomic uint32_t *dz_pool_call_sleeper(dz_pool *pool);

/* Wakes who was called; NULL is fine. */
void dz_worker_wake(_Atomic uint32_t *word);

/* Wakes all that sleep. */
void dz_pool_call_all(dz_pool *pool);

/* Joins the workers that ended; drops the lock meanwhile. */
void dz_pool_bury(dz_pool *pool);

/* The time workers spent on jobs up to `now`, those that still run included; never less than what
 * was returned before. */
uint64_t dz_pool_busy(dz_pool *pool, uint64_t now);

#endif
