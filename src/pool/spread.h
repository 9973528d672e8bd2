/* spread.h: keeps threads that compute on different cores.
 *
 * The kernel balances cores by weight and now and then. Lowered threads weigh little: two of them
 * beside a light one on the same core pass for nearly balanced. And a thread is woken where its
 * waker runs, so two light ones share a core while the other has a lowered one alone. Both last for
 * tens of milliseconds, which is long for a handler that needs six. */
#ifndef DZ_POOL_SPREAD_H
#define DZ_POOL_SPREAD_H

#include "base/list.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

typedef enum dz_spread_kind { DZ_SPREAD_LIGHT, DZ_SPREAD_LOWERED } dz_spread_kind;

typedef struct dz_spread {
    pthread_mutex_t lock;
    dz_list members[2]; /* those that compute now, by kind */
} dz_spread;

typedef struct dz_spread_member {
    dz_list link;
    pid_t id;
    const _Atomic uint32_t *core; /* where it runs or ran last, kept by the kernel */
} dz_spread_member;

void dz_spread_init(dz_spread *spread);
void dz_spread_destroy(dz_spread *spread);

/* The calling thread is going to compute. If another core that it may use has fewer members of its
 * kind, or as few and fewer of the other kind, it moves there; it is not bound to it. A light one
 * also parts two lowered ones that came to share a core. Does nothing without restartable sequences
 * (glibc before 2.35). */
void dz_spread_enter(dz_spread *spread, dz_spread_kind kind, dz_spread_member *member);
void dz_spread_leave(dz_spread *spread, dz_spread_member *member);

#endif
