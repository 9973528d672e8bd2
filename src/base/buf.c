#include "base/block.h"

#include <stdint.h>
#include <stdlib.h>

/* The ordinary block: header and bytes in one allocation. */
static void free_heap_block(dz_block *block)
{
    free(block);
}

static dz_block *new_heap_block(size_t cap)
{
    if (cap > SIZE_MAX - sizeof(dz_block))
        return NULL;
    dz_block *block = malloc(sizeof *block + cap);
    if (!block)
        return NULL;
    atomic_init(&block->refs, 1);
    block->cap = cap;
    block->memory = (char *)(block + 1);
    block->release = free_heap_block;
    return block;
}

int dz_buf_alloc(dz_buf *buf, size_t cap)
{
    *buf = (dz_buf){0};
    dz_block *block = new_heap_block(cap);
    if (!block)
        return DZ_E_NOMEM;
    *buf = dz_buf_of_block(block, 0);
    return 0;
}

int dz_buf_copy(dz_buf *buf, dz_slice bytes)
{
    int rc = dz_buf_alloc(buf, bytes.len);
    if (rc < 0)
        return rc;
    if (bytes.len > 0)
        memcpy(buf->data, bytes.ptr, bytes.len);
    buf->len = bytes.len;
    return 0;
}

/* Whether buf is the one reference to its whole block. */
static bool owns(const dz_buf *buf)
{
    return buf->block && buf->data == buf->block->memory &&
           atomic_load_explicit(&buf->block->refs, memory_order_acquire) == 1 && buf->cap > 0;
}

static bool is_empty(const dz_buf *buf)
{
    return !buf->block && !buf->data;
}

int dz_buf_reserve(dz_buf *buf, size_t cap)
{
    if (is_empty(buf))
        return dz_buf_alloc(buf, cap);
    if (!owns(buf))
        return DZ_E_NOT_OWNED;
    if (cap <= buf->cap)
        return 0;
    size_t doubled = buf->cap > SIZE_MAX / 2 ? SIZE_MAX : buf->cap * 2;
    size_t want = cap > doubled ? cap : doubled;
    if (buf->block->release != free_heap_block) {
        dz_buf grown;
        if (dz_buf_alloc(&grown, want) < 0)
            return DZ_E_NOMEM;
        memcpy(grown.data, buf->data, buf->len);
        grown.len = buf->len;
        dz_buf_release(buf);
        *buf = grown;
        return 0;
    }
    if (want > SIZE_MAX - sizeof(dz_block))
        return DZ_E_NOMEM;
    /* realloc moves pages instead of copying them when the block is large. */
    dz_block *block = realloc(buf->block, sizeof *block + want);
    if (!block)
        return DZ_E_NOMEM;
    block->cap = want;
    block->memory = (char *)(block + 1);
    *buf = dz_buf_of_block(block, buf->len);
    return 0;
}

int dz_buf_append(dz_buf *buf, dz_slice bytes)
{
    if (bytes.len > SIZE_MAX - buf->len)
        return DZ_E_NOMEM;
    int rc = dz_buf_reserve(buf, buf->len + bytes.len);
    if (rc < 0)
        return rc;
    if (bytes.len > 0)
        memcpy(buf->data + buf->len, bytes.ptr, bytes.len);
    buf->len += bytes.len;
    return 0;
}

dz_buf dz_buf_borrow(dz_slice bytes)
{
    /* cap 0 and no block: nothing writes through this pointer. */
    return (dz_buf){.data = (char *)(uintptr_t)bytes.ptr, .len = bytes.len};
}

int dz_buf_share(dz_buf *out, dz_buf *buf, size_t offset, size_t len)
{
    if (!buf->block)
        return DZ_E_NOT_OWNED;
    if (offset > buf->len || len > buf->len - offset)
        return DZ_E_INVALID;
    atomic_fetch_add_explicit(&buf->block->refs, 1, memory_order_relaxed);
    *out = (dz_buf){.data = buf->data + offset, .len = len, .block = buf->block};
    return 0;
}

int dz_buf_transfer(dz_buf *to, dz_buf *from)
{
    if (!owns(from))
        return DZ_E_NOT_OWNED;
    *to = *from;
    *from = (dz_buf){0};
    return 0;
}

void dz_buf_release(dz_buf *buf)
{
    dz_block *block = buf->block;
    *buf = (dz_buf){0};
    if (block && atomic_fetch_sub_explicit(&block->refs, 1, memory_order_acq_rel) == 1)
        block->release(block);
}
