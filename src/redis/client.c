/* A client as a whole: opening, closing, what it did and why it failed. */
#include "redis/client.h"

#include "redis/tls.h"

#include <donmaz/error.h>

#include <stdio.h>
#include <stdlib.h>

enum {
    DEFAULT_TIMEOUT_MS = 1000,
    DEFAULT_WAITING = 4096,
    DEFAULT_WAITING_BYTES = 64 << 20,
};

static uint64_t or_else(uint64_t wanted, uint64_t otherwise)
{
    return wanted ? wanted : otherwise;
}

static int configure(dz_redis *redis, const char *url, const dz_redis_options *options)
{
    dz_redis_config *config = &redis->config;
    const char *name = options->tls_server_name ? options->tls_server_name : "";
    int rc = dz_redis_url_parse(&config->url, dz_slice_of(url));
    if (rc < 0)
        return rc;
    if (options->connections > DZ_REDIS_CONNECTIONS || strlen(name) >= sizeof config->tls_name)
        return DZ_E_INVALID;
    memcpy(config->tls_name, name, strlen(name) + 1);
    config->timeout_ns = or_else(options->timeout_ms, DEFAULT_TIMEOUT_MS) * DZ_MS;
    config->connect_timeout_ns = or_else(options->connect_timeout_ms, DEFAULT_TIMEOUT_MS) * DZ_MS;
    config->max_waiting = (unsigned)or_else(options->max_waiting, DEFAULT_WAITING);
    config->max_waiting_bytes = or_else(options->max_waiting_bytes, DEFAULT_WAITING_BYTES);
    config->limits.bytes = options->max_reply;
    redis->connections = (unsigned)or_else(options->connections, 1);
    redis->cache_bytes = options->cache_bytes;
    redis->no_sharing = options->no_sharing;
    redis->on_event = options->on_event;
    redis->event_context = options->event_context;
    return config->url.tls ? dz_redis_tls_open(&config->tls, options) : 0;
}

int dz_redis_open(dz_redis **out, const char *url, const dz_redis_options *options)
{
    static const dz_redis_options defaults;
    dz_redis *redis = calloc(1, sizeof *redis);
    if (!redis)
        return DZ_E_NOMEM;
    pthread_mutex_init(&redis->why_lock, NULL);
    int rc = configure(redis, url, options ? options : &defaults);
    if (rc < 0) {
        dz_redis_close(redis);
        return rc;
    }
    *out = redis;
    return 0;
}

void dz_redis_close(dz_redis *redis)
{
    if (!redis)
        return;
    for (size_t i = 0; i < DZ_REDIS_LOOPS; i++) {
        dz_redis_share *share = atomic_load(&redis->shares[i]);
        if (share)
            dz_redis_share_free(share);
    }
    dz_redis_tls_close(redis->config.tls);
    pthread_mutex_destroy(&redis->why_lock);
    free(redis);
}

/* --- why it failed --- */

static int name_of(const dz_redis_endpoint *at, char *text, size_t size)
{
    bool v6 = strchr(at->host, ':') != NULL;
    if (at->path[0])
        return snprintf(text, size, "%s", at->path);
    return snprintf(text, size, v6 ? "[%s]:%u" : "%s:%u", at->host, at->port);
}

/* Events are told when something changes, not for each attempt to connect. */
void dz_redis_note(dz_redis *redis, const dz_redis_endpoint *at, const char *why)
{
    char text[sizeof redis->why];
    int name = name_of(at, text, sizeof text);
    snprintf(text + name, sizeof text - (size_t)name, ": %s", why ? why : "connected again");
    pthread_mutex_lock(&redis->why_lock);
    bool same_server = strncmp(redis->why, text, (size_t)name + 2) == 0;
    bool changed = why ? strcmp(redis->why, text) != 0 : same_server;
    if (changed)
        memcpy(redis->why, why ? text : "", why ? strlen(text) + 1 : 1);
    pthread_mutex_unlock(&redis->why_lock);
    if (changed && redis->on_event)
        redis->on_event(redis->event_context, text);
}

size_t dz_redis_why(const dz_redis *redis, char *text, size_t size)
{
    pthread_mutex_t *lock = &((dz_redis *)(uintptr_t)redis)->why_lock;
    pthread_mutex_lock(lock);
    int len = snprintf(text, size, "%s", redis->why);
    pthread_mutex_unlock(lock);
    return (size_t)len;
}

/* --- what it did --- */

static void add_conns(const dz_redis_conn_stats *conns, dz_redis_stats *stats)
{
    stats->commands += atomic_load(&conns->commands);
    stats->timeouts += atomic_load(&conns->timeouts);
    stats->retries += atomic_load(&conns->retries);
    stats->connects += atomic_load(&conns->connects);
    stats->connect_failures += atomic_load(&conns->connect_failures);
    stats->losses += atomic_load(&conns->losses);
    stats->waiting += atomic_load(&conns->waiting);
    stats->waiting_bytes += atomic_load(&conns->waiting_bytes);
    stats->connected += (unsigned)atomic_load(&conns->ready);
}

static void add_cache(const dz_redis_cache_view *view, dz_redis_stats *stats)
{
    stats->cache_hits += atomic_load(&view->hits);
    stats->cache_misses += atomic_load(&view->misses);
    stats->cache_invalidations += atomic_load(&view->invalidations);
    stats->cache_evictions += atomic_load(&view->evictions);
    stats->cache_flushes += atomic_load(&view->flushes);
    stats->cache_late += atomic_load(&view->late);
    stats->cache_bytes += atomic_load(&view->bytes);
    stats->cache_values += atomic_load(&view->values);
}

void dz_redis_get_stats(const dz_redis *redis, dz_redis_stats *stats)
{
    *stats = (dz_redis_stats){.hashes = atomic_load(&redis->hashes)};
    for (size_t i = 0; i < DZ_REDIS_LOOPS; i++) {
        const dz_redis_share *share = atomic_load_explicit(&redis->shares[i], memory_order_acquire);
        if (!share)
            continue;
        stats->shared += atomic_load(&share->shared);
        stats->errors += atomic_load(&share->errors);
        stats->redirects += atomic_load(&share->redirects);
        stats->map_refreshes += atomic_load(&share->map_refreshes);
        stats->nodes += atomic_load(&share->nodes);
        add_cache(&share->view, stats);
        add_conns(&share->conn_stats, stats);
    }
}
