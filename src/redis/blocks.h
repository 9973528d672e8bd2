/* blocks.h: memory for long strings, used again.
 *
 * A service that reads 100 KB values would otherwise have malloc give the pages back to the kernel
 * and fault them in again with each one. A few freed blocks are kept for the next string of about
 * that size; how much memory they hold is bounded. Any thread.
 *
 * Each block also remembers the hash of what it holds, so that everyone who shares a value, the
 * tracking cache included, has it computed once. */
#ifndef DZ_REDIS_BLOCKS_H
#define DZ_REDIS_BLOCKS_H

#include <donmaz/buf.h>

#include <stdbool.h>
#include <stdint.h>

enum {
    DZ_BLOCKS_SMALLEST = 16 << 10,
    DZ_BLOCKS_LARGEST = 1 << 20,
    DZ_BLOCKS_KEPT = 8 << 20,
    DZ_BLOCKS_HEADER = 48, /* bytes that a block needs besides its room */
};

/* As dz_buf_alloc; the buffer may have up to an eighth more room. */
int dz_blocks_alloc(dz_buf *buf, size_t cap);

/* As dz_buf_reserve, for one of these that nobody shares: it stays one. */
int dz_blocks_reserve(dz_buf *buf, size_t cap);

/* The XXH3 hash of a value that nobody writes to any more, and that is the whole of its block.
 * *computed tells whether it had to be computed; two threads that ask at the very same time may
 * both have to. */
uint64_t dz_blocks_hash(const dz_buf *value, bool *computed);

#endif
