#include "app/exposure.h"

/* What overload protection does, for /metrics. Nothing is shown when nothing is protected. */

static dz_shed_stats stats_of(void *data)
{
    dz_app view = {.core = data};
    dz_shed_stats stats;
    dz_shed_get_stats(&view, &stats);
    return stats;
}

#define READER(name, expression)                                                                   \
    static double name(void *data)                                                                 \
    {                                                                                              \
        dz_shed_stats stats = stats_of(data);                                                      \
        return (double)(expression);                                                               \
    }

READER(read_level, stats.level)
READER(read_limit, stats.limit)
READER(read_in_flight, stats.in_flight)
READER(read_admitted, stats.admitted)
READER(read_closed, stats.closed)
READER(read_wait, (double)stats.wait_ns * 1e-9)
READER(read_lag, (double)stats.lag_ns * 1e-9)
READER(read_by_in_flight, stats.refused_by[DZ_SHED_BY_IN_FLIGHT])
READER(read_by_wait, stats.refused_by[DZ_SHED_BY_WAIT])
READER(read_by_lag, stats.refused_by[DZ_SHED_BY_LAG])
READER(read_by_rss, stats.refused_by[DZ_SHED_BY_RSS])
#undef READER

int dz_expose_shed(dz_core *core)
{
    static const dz_plain list[] = {
        {"donmaz_shed_level", "0 calm, then graver, of the worst loop.", read_level, true},
        {"donmaz_shed_limit", "Requests that may be in flight now.", read_limit, true},
        {"donmaz_shed_in_flight", "Requests in flight that count.", read_in_flight, true},
        {"donmaz_shed_lag_seconds", "Lag of the worst loop in the last sample.", read_lag, true},
        {"donmaz_shed_admitted_total", "Requests let in.", read_admitted, false},
        {"donmaz_shed_closed_total", "Connections closed after a response, under pressure.",
         read_closed, false},
        {"donmaz_shed_wait_seconds_total", "Time that requests waited for a thread, in all.",
         read_wait, false},
    };
    static const struct {
        const char *reason;
        dz_metric_fn read;
    } refused[] = {
        {"in_flight", read_by_in_flight},
        {"queue_wait", read_by_wait},
        {"loop_lag", read_by_lag},
        {"memory", read_by_rss},
    };
    if (!core->shed)
        return 0;
    int rc = dz_expose_all(core->metrics, list, DZ_COUNT_OF(list), NULL, 0, core);
    for (size_t i = 0; i < DZ_COUNT_OF(refused) && rc == 0; i++) {
        const dz_label reason = {"reason", refused[i].reason};
        const dz_plain one = {"donmaz_shed_refused_total", "Requests refused, by why.",
                              refused[i].read, false};
        rc = dz_expose_all(core->metrics, &one, 1, &reason, 1, core);
    }
    return rc;
}
