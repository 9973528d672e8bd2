#include "redis/blocks.h"

#include "base/block.h"
#include "base/list.h"
#include "loop/sanitizer.h"

#include <pthread.h>
#include <stdlib.h>
#ifdef DZ_XXH_DISPATCH
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

enum { SLOTS = 64 };

typedef struct remembering {
    dz_block block;
    _Atomic uint64_t hash; /* 0: not computed, or really 0, which then is computed each time */
    _Alignas(max_align_t) char memory[];
} remembering;

_Static_assert(sizeof(remembering) == DZ_BLOCKS_HEADER, "what a block needs besides its room");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static dz_block *kept[SLOTS];
static size_t kept_count, kept_bytes;

/* The sanitizer must see each string's memory freed, or it misses uses after that. */
#ifdef DZ_ASAN
static const bool keeping = false;
#else
static const bool keeping = true;
#endif

static bool is_kept_size(size_t cap)
{
    return cap >= DZ_BLOCKS_SMALLEST && cap <= DZ_BLOCKS_LARGEST;
}

static void release(dz_block *block)
{
    if (!keeping || !is_kept_size(block->cap)) {
        free(block);
        return;
    }
    bool keep = false;
    pthread_mutex_lock(&lock);
    if (kept_count < SLOTS && kept_bytes + block->cap <= DZ_BLOCKS_KEPT) {
        kept[kept_count++] = block;
        kept_bytes += block->cap;
        keep = true;
    }
    pthread_mutex_unlock(&lock);
    if (!keep)
        free(block);
}

/* The one used last comes first: its memory is still in the cache. */
static dz_block *take(size_t cap)
{
    dz_block *found = NULL;
    pthread_mutex_lock(&lock);
    for (size_t i = kept_count; i-- > 0;) {
        if (kept[i]->cap < cap || kept[i]->cap - cap > cap / 8)
            continue;
        found = kept[i];
        kept_bytes -= found->cap;
        kept[i] = kept[--kept_count];
        break;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static dz_block *new_block(size_t cap)
{
    if (cap > SIZE_MAX - sizeof(remembering))
        return NULL;
    remembering *block = malloc(sizeof *block + cap);
    if (!block)
        return NULL;
    block->block = (dz_block){.cap = cap, .memory = block->memory, .release = release};
    return &block->block;
}

int dz_blocks_alloc(dz_buf *buf, size_t cap)
{
    dz_block *block = is_kept_size(cap) ? take(cap) : NULL;
    if (!block)
        block = new_block(cap);
    *buf = (dz_buf){0};
    if (!block)
        return DZ_E_NOMEM;
    atomic_init(&block->refs, 1);
    atomic_init(&DZ_CONTAINER(block, remembering, block)->hash, 0);
    *buf = dz_buf_of_block(block, 0);
    return 0;
}

int dz_blocks_reserve(dz_buf *buf, size_t cap)
{
    if (cap <= buf->cap)
        return 0;
    dz_buf grown;
    int rc = dz_blocks_alloc(&grown, cap > SIZE_MAX / 2 || cap > 2 * buf->cap ? cap : 2 * buf->cap);
    if (rc < 0)
        return rc;
    memcpy(grown.data, buf->data, buf->len);
    grown.len = buf->len;
    dz_buf_release(buf);
    *buf = grown;
    return 0;
}

uint64_t dz_blocks_hash(const dz_buf *value, bool *computed)
{
    bool remembers = value->block && value->block->release == release;
    _Atomic uint64_t *memo =
        remembers ? &DZ_CONTAINER(value->block, remembering, block)->hash : NULL;
    uint64_t hash = memo ? atomic_load_explicit(memo, memory_order_relaxed) : 0;
    *computed = hash == 0;
    if (hash != 0)
        return hash;
    hash = XXH3_64bits(value->data, value->len);
    if (memo)
        atomic_store_explicit(memo, hash, memory_order_relaxed);
    return hash;
}
