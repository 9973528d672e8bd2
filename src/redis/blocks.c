#include "redis/blocks.h"

#include "base/block.h"
#include "loop/sanitizer.h"

#include <pthread.h>
#include <stdlib.h>

enum { SLOTS = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static dz_block *kept[SLOTS];
static size_t kept_count, kept_bytes;

/* The sanitizer must see each string's memory freed, or it misses uses after that. */
#ifdef DZ_ASAN
static const bool keeping = false;
#else
static const bool keeping = true;
#endif

static void release(dz_block *block)
{
    bool keep = false;
    pthread_mutex_lock(&lock);
    if (keeping && kept_count < SLOTS && kept_bytes + block->cap <= DZ_BLOCKS_KEPT) {
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

int dz_blocks_alloc(dz_buf *buf, size_t cap)
{
    if (cap < DZ_BLOCKS_SMALLEST || cap > DZ_BLOCKS_LARGEST)
        return dz_buf_alloc(buf, cap);
    dz_block *block = take(cap);
    if (!block) {
        block = malloc(sizeof *block + cap);
        *buf = (dz_buf){0};
        if (!block)
            return DZ_E_NOMEM;
        block->cap = cap;
        block->memory = (char *)(block + 1);
        block->release = release;
    }
    atomic_init(&block->refs, 1);
    *buf = dz_buf_of_block(block, 0);
    return 0;
}
