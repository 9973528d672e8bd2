/* worker.h: the worker's side of a cluster: runs the app in its process. */
#ifndef DZ_CLUSTER_WORKER_H
#define DZ_CLUSTER_WORKER_H

#include "cluster/peers.h"

#include <donmaz/app.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

/* What a worker tells its supervisor without a system call: memory of their own that both map. */
typedef struct dz_share {
    _Alignas(64) _Atomic uint64_t given_back; /* see dz_server_adopt_from */
    _Atomic uint32_t room;                    /* connections it can hold; set before it is ready */
} dz_share;

typedef struct dz_birth {
    unsigned number; /* of its place in the cluster, from 1 */
    pid_t supervisor;
    int channel; /* the worker owns it */
    dz_share *share;
    int admin_fd;          /* listening, or -1: no --admin */
    const dz_peers *peers; /* with it */
} dz_birth;

/* Serves until told to stop; the exit code. In the worker's process, with one thread and with
 * SIGTERM, SIGINT and SIGHUP blocked. */
int dz_worker_run(dz_app *app, const dz_birth *birth);

#endif
