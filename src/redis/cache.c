#include "redis/cache.h"

#include "base/block.h"
#include "base/list.h"
#include "redis/blocks.h"

#include <stdlib.h>
#include <sys/random.h>
#include <xxhash.h>

enum {
    FIRST_BUCKETS = 64,
    GHOSTS = 1 << 14, /* hashes of values evicted from the small queue, overwritten at random */
    MAX_USES = 3,     /* uses beyond that count no more: a value must be able to age */
    LARGEST_PART = 4, /* a value above a quarter of the cache is not kept */
};

typedef enum place { IN_FLIGHT, IN_SMALL, IN_MAIN } place;

typedef struct entry {
    struct entry *next; /* in its bucket */
    dz_list link;       /* in its queue; unlinked while in flight */
    uint64_t hash;      /* of the key */
    uint64_t ticket;
    dz_buf value;
    size_t bytes;
    place place;
    bool absent;
    uint8_t uses;
    size_t key_len;
    char key[];
} entry;

typedef struct queue {
    dz_list entries; /* oldest first */
    size_t bytes;
} queue;

struct dz_cache {
    entry **buckets;
    size_t mask, count; /* buckets - 1; entries, marks included */
    queue small, main;
    size_t limit, bytes;
    uint64_t seed, last_ticket;
    dz_cache_stats stats;
    uint32_t ghosts[GHOSTS];
};

dz_cache *dz_cache_new(size_t bytes)
{
    dz_cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return NULL;
    cache->buckets = calloc(FIRST_BUCKETS, sizeof(entry *));
    if (!cache->buckets) {
        free(cache);
        return NULL;
    }
    cache->mask = FIRST_BUCKETS - 1;
    cache->limit = bytes;
    dz_list_init(&cache->small.entries);
    dz_list_init(&cache->main.entries);
    /* Keys come from outside: an unknown seed keeps anyone from making them collide. */
    if (getrandom(&cache->seed, sizeof cache->seed, GRND_NONBLOCK) != sizeof cache->seed)
        cache->seed = (uint64_t)(uintptr_t)cache;
    return cache;
}

void dz_cache_free(dz_cache *cache)
{
    if (!cache)
        return;
    dz_cache_flush(cache);
    free(cache->buckets);
    free(cache);
}

/* --- table */

/* Where the entry is linked, or the end of its bucket. */
static entry **find(dz_cache *cache, dz_slice key, uint64_t hash)
{
    entry **link = &cache->buckets[hash & cache->mask];
    while (*link && ((*link)->hash != hash ||
                     !dz_slice_equal(dz_slice_make((*link)->key, (*link)->key_len), key)))
        link = &(*link)->next;
    return link;
}

static uint64_t hash_of(const dz_cache *cache, dz_slice key)
{
    return XXH3_64bits_withSeed(key.ptr, key.len, cache->seed);
}

/* Without memory the table stays small: slower, not wrong. */
static void grow(dz_cache *cache)
{
    size_t count = 2 * (cache->mask + 1);
    entry **buckets = calloc(count, sizeof(entry *));
    if (!buckets)
        return;
    for (size_t i = 0; i <= cache->mask; i++)
        for (entry *e = cache->buckets[i], *next; e; e = next) {
            next = e->next;
            e->next = buckets[e->hash & (count - 1)];
            buckets[e->hash & (count - 1)] = e;
        }
    free(cache->buckets);
    cache->buckets = buckets;
    cache->mask = count - 1;
}

static queue *queue_of(dz_cache *cache, const entry *e)
{
    return e->place == IN_MAIN ? &cache->main : &cache->small;
}

static void enqueue(dz_cache *cache, entry *e, place where)
{
    e->place = where;
    dz_list_push(&queue_of(cache, e)->entries, &e->link);
    queue_of(cache, e)->bytes += e->bytes;
}

static void dequeue(dz_cache *cache, entry *e)
{
    dz_list_remove(&e->link);
    queue_of(cache, e)->bytes -= e->bytes;
}

/* Takes the entry at *link out of everything. */
static void remove_at(dz_cache *cache, entry **link)
{
    entry *e = *link;
    *link = e->next;
    cache->count--;
    cache->bytes -= e->bytes;
    if (e->place != IN_FLIGHT) {
        dequeue(cache, e);
        cache->stats.values--;
    }
    dz_buf_release(&e->value);
    free(e);
}

static void remove_entry(dz_cache *cache, const entry *e)
{
    remove_at(cache, find(cache, dz_slice_make(e->key, e->key_len), e->hash));
}

/* --- eviction */

static uint32_t *ghost_of(dz_cache *cache, uint64_t hash)
{
    return &cache->ghosts[(hash >> 16) % GHOSTS];
}

static uint32_t ghost_mark(uint64_t hash)
{
    return (uint32_t)(hash >> 32) | 1; /* 0 is an empty place */
}

static entry *oldest(queue *q)
{
    return dz_list_empty(&q->entries) ? NULL : DZ_CONTAINER(q->entries.next, entry, link);
}

static void evict(dz_cache *cache, const entry *e)
{
    remove_entry(cache, e);
    cache->stats.evictions++;
}

/* One step: evicts a value, or moves one on. False when there is none. */
static bool evict_step(dz_cache *cache)
{
    entry *e = oldest(&cache->small);
    if (e && (cache->small.bytes > cache->limit / 10 || dz_list_empty(&cache->main.entries))) {
        if (e->uses > 0) {
            dequeue(cache, e);
            e->uses = 0;
            enqueue(cache, e, IN_MAIN);
        } else {
            *ghost_of(cache, e->hash) = ghost_mark(e->hash);
            evict(cache, e);
        }
        return true;
    }
    e = oldest(&cache->main);
    if (!e)
        return false;
    if (e->uses > 0) {
        e->uses--;
        dz_list_remove(&e->link);
        dz_list_push(&cache->main.entries, &e->link);
    } else {
        evict(cache, e);
    }
    return true;
}

static void keep_limit(dz_cache *cache)
{
    while (cache->bytes > cache->limit && evict_step(cache)) {
    }
}

/* --- use */

dz_cache_found dz_cache_get(dz_cache *cache, dz_slice key, dz_buf *value)
{
    entry *e = *find(cache, key, hash_of(cache, key));
    if (!e || e->place == IN_FLIGHT) {
        cache->stats.misses++;
        return DZ_CACHE_MISS;
    }
    cache->stats.hits++;
    if (e->uses < MAX_USES)
        e->uses++;
    if (e->absent)
        return DZ_CACHE_ABSENT;
    /* A kept value always has a block, so this can't fail. */
    dz_buf_share(value, &e->value, 0, e->value.len);
    return DZ_CACHE_VALUE;
}

void dz_cache_missed(dz_cache *cache)
{
    cache->stats.misses++;
}

uint64_t dz_cache_begin(dz_cache *cache, dz_slice key)
{
    uint64_t hash = hash_of(cache, key);
    if (*find(cache, key, hash) || key.len > cache->limit)
        return 0;
    entry *e = malloc(sizeof *e + key.len);
    if (!e)
        return 0;
    *e = (entry){.hash = hash,
                 .ticket = ++cache->last_ticket,
                 .bytes = sizeof *e + key.len,
                 .place = IN_FLIGHT,
                 .key_len = key.len};
    if (key.len > 0)
        memcpy(e->key, key.ptr, key.len);
    dz_list_init(&e->link);
    if (cache->count > cache->mask)
        grow(cache);
    e->next = cache->buckets[hash & cache->mask];
    cache->buckets[hash & cache->mask] = e;
    cache->count++;
    cache->bytes += e->bytes;
    return e->ticket;
}

/* The link of the read's mark; NULL when it is gone. */
static entry **mark_of(dz_cache *cache, dz_slice key, uint64_t ticket)
{
    if (ticket == 0)
        return NULL;
    entry **link = find(cache, key, hash_of(cache, key));
    return *link && (*link)->place == IN_FLIGHT && (*link)->ticket == ticket ? link : NULL;
}

bool dz_cache_fill(dz_cache *cache, dz_slice key, uint64_t ticket, dz_buf *value)
{
    entry **link = mark_of(cache, key, ticket);
    if (!link) {
        cache->stats.late += ticket != 0;
        return false;
    }
    entry *e = *link;
    size_t size = value ? (value->block ? value->block->cap + DZ_BLOCKS_HEADER : SIZE_MAX) : 0;
    if (size > cache->limit / LARGEST_PART ||
        (value && dz_buf_share(&e->value, value, 0, value->len) < 0)) {
        remove_at(cache, link);
        return false;
    }
    e->absent = !value;
    e->bytes += size;
    cache->bytes += size;
    cache->stats.values++;
    uint32_t *ghost = ghost_of(cache, e->hash);
    bool came_back = *ghost == ghost_mark(e->hash);
    if (came_back)
        *ghost = 0;
    enqueue(cache, e, came_back ? IN_MAIN : IN_SMALL);
    keep_limit(cache);
    return true;
}

void dz_cache_abandon(dz_cache *cache, dz_slice key, uint64_t ticket)
{
    entry **link = mark_of(cache, key, ticket);
    if (link)
        remove_at(cache, link);
}

static bool drop(dz_cache *cache, dz_slice key)
{
    entry **link = find(cache, key, hash_of(cache, key));
    if (!*link)
        return false;
    remove_at(cache, link);
    return true;
}

void dz_cache_drop(dz_cache *cache, dz_slice key)
{
    drop(cache, key);
}

void dz_cache_invalidate(dz_cache *cache, dz_slice key)
{
    cache->stats.invalidations += drop(cache, key);
}

void dz_cache_flush(dz_cache *cache)
{
    for (size_t i = 0; i <= cache->mask; i++)
        while (cache->buckets[i])
            remove_at(cache, &cache->buckets[i]);
    cache->stats.flushes++;
}

void dz_cache_get_stats(const dz_cache *cache, dz_cache_stats *stats)
{
    *stats = cache->stats;
    stats->bytes = cache->bytes;
}
