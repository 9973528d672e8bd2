/* exposure.h: between the two files that turn an app's counts into metrics: metrics.c and
 * metrics_routes.c. */
#ifndef DZ_APP_EXPOSURE_H
#define DZ_APP_EXPOSURE_H

#include "app/app.h"

#include <semaphore.h>

/* A series about a route; the registry has its address. */
typedef struct dz_route_ref {
    struct dz_route_ref *next;
    dz_core *core;
    const dz_route *route;
    char *method;
    int status;
} dz_route_ref;

/* Asks a loop how long a message waits there. */
typedef struct dz_probe {
    dz_msg msg;
    dz_loop *loop;
    struct dz_exposure *owner;
    _Atomic bool under_way;
    _Atomic uint64_t posted, delay; /* monotonic ns; ns */
    char index[12];                 /* of the loop, as a label */
} dz_probe;

typedef struct dz_exposure {
    dz_core *core;
    bool registered; /* all that does not come later, as statuses do */
    bool resumed;    /* a part may be there from an attempt that had no memory */
    bool *shown;     /* [route * DZ_STATUS_COUNT + status]: the series is registered */
    bool refused[DZ_STATUS_COUNT];
    dz_route_ref *refs;
    dz_probe *probes;
    unsigned probe_count;
    sem_t answered;
} dz_exposure;

/* A counter or gauge that is read when it is shown. */
typedef struct dz_plain {
    const char *name, *help;
    dz_metric_fn read;
    bool gauge;
} dz_plain;

#define DZ_COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

static inline double dz_read_u64(const _Atomic uint64_t *number)
{
    return (double)atomic_load_explicit((_Atomic uint64_t *)(uintptr_t)number,
                                        memory_order_relaxed);
}

/* Registers all of the list with these labels and `data`. Errors of the registry. */
int dz_expose_all(dz_metrics *metrics, const dz_plain *list, size_t len, const dz_label *labels,
                  size_t count, void *data);

/* metrics_routes.c: registers what there is of every route once; then, each time, the statuses that
 * are new. */
int dz_expose_routes(dz_exposure *it);
int dz_expose_statuses(dz_exposure *it);

/* metrics_shed.c: what overload protection counts, if anything is protected. */
int dz_expose_shed(dz_core *core);

#endif
