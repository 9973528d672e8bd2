#include <donmaz/redis.h>

/* The counts of a client as metrics; the label redis tells clients apart. */

static dz_redis_stats stats_of(void *data)
{
    dz_redis_stats stats;
    dz_redis_get_stats(data, &stats);
    return stats;
}

#define READER(name)                                                                               \
    static double read_##name(void *data)                                                          \
    {                                                                                              \
        dz_redis_stats stats = stats_of(data);                                                     \
        return (double)stats.name;                                                                 \
    }

READER(commands)
READER(shared)
READER(hashes)
READER(timeouts)
READER(errors)
READER(retries)
READER(connects)
READER(connect_failures)
READER(losses)
READER(redirects)
READER(map_refreshes)
READER(cache_hits)
READER(cache_misses)
READER(cache_invalidations)
READER(cache_evictions)
READER(cache_flushes)
READER(cache_late)
READER(cache_bytes)
READER(cache_values)
READER(waiting)
READER(waiting_bytes)
READER(nodes)
READER(connected)
#undef READER

typedef struct series {
    const char *name, *help;
    dz_metric_fn read;
    bool gauge;
} series;

static const series all_series[] = {
    {"donmaz_redis_connected", "Connections ready for commands.", read_connected, true},
    {"donmaz_redis_waiting", "Commands that wait for their answer.", read_waiting, true},
    {"donmaz_redis_waiting_bytes", "Bytes of those commands.", read_waiting_bytes, true},
    {"donmaz_redis_nodes", "Nodes of the cluster that the loops know.", read_nodes, true},
    {"donmaz_redis_commands_total", "Commands sent.", read_commands, false},
    {"donmaz_redis_shared_total", "Reads that shared another's command.", read_shared, false},
    {"donmaz_redis_hashes_total", "Hashes computed of values.", read_hashes, false},
    {"donmaz_redis_timeouts_total", "Commands not answered in time.", read_timeouts, false},
    {"donmaz_redis_errors_total", "Answers that were errors.", read_errors, false},
    {"donmaz_redis_retries_total", "Reads sent again after a broken connection.", read_retries,
     false},
    {"donmaz_redis_connects_total", "Connections made.", read_connects, false},
    {"donmaz_redis_connect_failures_total", "Connections that could not be made.",
     read_connect_failures, false},
    {"donmaz_redis_losses_total", "Connections that broke or were given up.", read_losses, false},
    {"donmaz_redis_redirects_total", "MOVED, ASK and TRYAGAIN that were followed.", read_redirects,
     false},
    {"donmaz_redis_map_refreshes_total", "Times the cluster's map was asked for.",
     read_map_refreshes, false},
    {"donmaz_redis_cache_values", "Values that the tracking cache holds.", read_cache_values, true},
    {"donmaz_redis_cache_bytes", "Bytes that the tracking cache holds.", read_cache_bytes, true},
    {"donmaz_redis_cache_hits_total", "Reads answered by the cache.", read_cache_hits, false},
    {"donmaz_redis_cache_misses_total", "Reads that the cache could not answer.", read_cache_misses,
     false},
    {"donmaz_redis_cache_invalidations_total", "Values dropped because Redis said so.",
     read_cache_invalidations, false},
    {"donmaz_redis_cache_evictions_total", "Values dropped for want of room.", read_cache_evictions,
     false},
    {"donmaz_redis_cache_flushes_total", "Times that all was dropped.", read_cache_flushes, false},
    {"donmaz_redis_cache_late_total", "Answers not kept: an invalidation overtook them.",
     read_cache_late, false},
};

int dz_redis_register_metrics(dz_redis *redis, dz_metrics *metrics, const char *name)
{
    const dz_label label = {"redis", name};
    int rc = 0;
    for (size_t i = 0; i < sizeof all_series / sizeof all_series[0] && rc == 0; i++) {
        const series *one = &all_series[i];
        const dz_metric metric = {one->name, one->help, &label, 1};
        rc = one->gauge ? dz_metrics_gauge_fn(metrics, &metric, one->read, redis)
                        : dz_metrics_counter_fn(metrics, &metric, one->read, redis);
    }
    return rc;
}
