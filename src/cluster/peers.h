/* peers.h: how the worker that is scraped gets the metrics of the others.
 *
 * For each place in the cluster the supervisor makes a pair of unix sockets before it forks, so all
 * workers have all of them. Who is asked sends one end of a fresh stream to each other place; the
 * worker there writes its text into it and closes it:
 *
 *     worker 1 (scraped) ── a stream's end ──> pair 2 ──> worker 2
 *                        <───────── its text ───────────────┘
 *
 * The supervisor takes no part. A place without a worker does not answer, and is shown as down. */
#ifndef DZ_CLUSTER_PEERS_H
#define DZ_CLUSTER_PEERS_H

#include "app/app.h"

typedef struct dz_peers {
    unsigned count;
    int (*pairs)[2]; /* of each place: [0] is read by its worker, [1] written by the others */
} dz_peers;

/* -errno or DZ_E_NOMEM. */
int dz_peers_open(dz_peers *peers, unsigned count);
void dz_peers_close(dz_peers *peers);

/* One worker's part in it. */
typedef struct dz_peer dz_peer;

/* Begins to answer for the place `number`, from 1. `peers` and `core` must outlive it. */
int dz_peer_start(dz_peer **out, const dz_peers *peers, unsigned number, dz_core *core);
void dz_peer_stop(dz_peer *peer); /* NULL is fine */

/* A dz_admin_text: the metrics of all workers; context is the dz_peer. */
int dz_peer_write_all(void *context, dz_buf *text);

#endif
