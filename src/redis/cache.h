/* cache.h: values that Redis promised to tell us about (CLIENT TRACKING), in bounded memory.
 *
 * What keeps it honest is the mark a read leaves behind before it is sent:
 *
 *   nothing ── dz_cache_begin ──> read in flight ── dz_cache_fill ──> value
 *      ^                               │                                │
 *      └──────── invalidation, own write, flush, failed read ───────────┘
 *
 * A reply whose mark is gone may be older than the invalidation that took the mark: it is answered
 * but not kept. Marks have tickets, so that the reply of an earlier read can't fill a later mark.
 *
 * Eviction is S3-FIFO: new values wait in a small queue (a tenth of the bytes), those asked for
 * again move to the main queue, and values that come back soon after eviction go there directly.
 * One scan through many keys so leaves the often-used ones alone. Not thread-safe. */
#ifndef DZ_REDIS_CACHE_H
#define DZ_REDIS_CACHE_H

#include <donmaz/buf.h>

#include <stdbool.h>
#include <stdint.h>

typedef struct dz_cache dz_cache;

typedef enum dz_cache_found {
    DZ_CACHE_MISS,
    DZ_CACHE_VALUE,
    DZ_CACHE_ABSENT, /* Redis said that there is no such key */
} dz_cache_found;

/* Counters only grow; bytes and values are what is held now. */
typedef struct dz_cache_stats {
    uint64_t hits, misses;
    uint64_t invalidations; /* values and marks dropped because Redis said so */
    uint64_t flushes;
    uint64_t evictions;
    uint64_t late; /* replies not kept because their mark was gone */
    size_t bytes, values;
} dz_cache_stats;

/* NULL: out of memory. `bytes` bounds keys, values and bookkeeping. */
dz_cache *dz_cache_new(size_t bytes);
void dz_cache_free(dz_cache *cache);

/* DZ_CACHE_VALUE: *value is another reference to the value, the caller's to release. */
dz_cache_found dz_cache_get(dz_cache *cache, dz_slice key, dz_buf *value);

/* Counts a read that was not looked up, because nothing would have been trusted. */
void dz_cache_missed(dz_cache *cache);

/* A read of key is about to be sent. Returns its ticket; 0 (which fills nothing) when the key has a
 * value or a mark already, or memory is out. */
uint64_t dz_cache_begin(dz_cache *cache, dz_slice key);

/* Keeps the reply of the read with that ticket if its mark is still there: a reference to *value
 * (which stays the caller's and becomes sharing), or that the key is absent (value NULL). False
 * when it was not kept. */
bool dz_cache_fill(dz_cache *cache, dz_slice key, uint64_t ticket, dz_buf *value);

/* The read failed: takes its mark away. */
void dz_cache_abandon(dz_cache *cache, dz_slice key, uint64_t ticket);

/* Redis says that the key changed, or we are about to change it: drops value and mark. */
void dz_cache_invalidate(dz_cache *cache, dz_slice key);
void dz_cache_drop(dz_cache *cache, dz_slice key); /* not counted as an invalidation */

/* The connection is lost, or Redis flushed its keys: drops all. */
void dz_cache_flush(dz_cache *cache);

void dz_cache_get_stats(const dz_cache *cache, dz_cache_stats *stats);

#endif
