/* blocks.h: memory for long strings, used again.
 *
 * A service that reads 100 KB values would otherwise have malloc give the pages back to the kernel
 * and fault them in again with each one. A few freed blocks are kept for the next string of about
 * that size; how much memory they hold is bounded. Any thread. */
#ifndef DZ_REDIS_BLOCKS_H
#define DZ_REDIS_BLOCKS_H

#include <donmaz/buf.h>

enum { DZ_BLOCKS_SMALLEST = 16 << 10, DZ_BLOCKS_LARGEST = 1 << 20, DZ_BLOCKS_KEPT = 8 << 20 };

/* As dz_buf_alloc; the buffer may have up to an eighth more room. */
int dz_blocks_alloc(dz_buf *buf, size_t cap);

#endif
