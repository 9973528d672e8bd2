/* block.h: the allocation behind a dz_buf. Other kinds of memory (shared between processes, a
 * reply of a client library) become a dz_buf by making a block with a release function of theirs.
 */
#ifndef DZ_BASE_BLOCK_H
#define DZ_BASE_BLOCK_H

#include <donmaz/buf.h>

#include <stdatomic.h>

struct dz_block {
    atomic_uint refs;
    size_t cap; /* bytes at memory */
    char *memory;
    void (*release)(dz_block *); /* frees memory and the block; called once, on any thread */
};

/* Wraps a block whose one reference passes to the buffer. */
static inline dz_buf dz_buf_of_block(dz_block *block, size_t len)
{
    return (dz_buf){.data = block->memory, .len = len, .cap = block->cap, .block = block};
}

#endif
