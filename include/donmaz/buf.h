/* buf.h: buffers that own their memory, share it, or borrow it, and transfer between owners.
 *
 * A dz_buf is a small value. What it shows is `data[0..len)`. Who owns that memory:
 *   - owning:   the only reference to a whole block (dz_buf_alloc, dz_buf_copy)
 *   - sharing:  one of several references to a block, or a part of it (dz_buf_share)
 *   - borrowed: memory that someone else keeps alive (dz_buf_borrow)
 *   - empty:    all zero; releasing it does nothing
 * One dz_buf is used by one thread at a time; the block's reference count is atomic, so buffers
 * that share a block may live on different threads. */
#ifndef DONMAZ_BUF_H
#define DONMAZ_BUF_H

#include <donmaz/error.h>
#include <donmaz/export.h>
#include <donmaz/slice.h>

typedef struct dz_block dz_block; /* a reference-counted allocation; private */

typedef struct dz_buf {
    char *data;
    size_t len;      /* bytes in use */
    size_t cap;      /* bytes that may be written from data; 0 when sharing or borrowed */
    dz_block *block; /* NULL when empty or borrowed */
} dz_buf;

/* Makes *buf an owning buffer with room for `cap` bytes, len 0. The memory is not touched, so a
 * large buffer costs only what is written to it. DZ_E_NOMEM: *buf is empty. */
DZ_API int dz_buf_alloc(dz_buf *buf, size_t cap);

/* Makes *buf an owning copy of `bytes`. DZ_E_NOMEM: *buf is empty. */
DZ_API int dz_buf_copy(dz_buf *buf, dz_slice bytes);

/* Gives an owning buffer room for at least `cap` bytes, keeping its contents; grows by doubling.
 * An empty buffer becomes an owning one. DZ_E_NOT_OWNED, DZ_E_NOMEM: *buf is unchanged. */
DZ_API int dz_buf_reserve(dz_buf *buf, size_t cap);

/* Appends to an owning or empty buffer. Errors as dz_buf_reserve. `bytes` must not lie in *buf. */
DZ_API int dz_buf_append(dz_buf *buf, dz_slice bytes);

/* A buffer that shows `bytes` without owning them: they must outlive it. */
DZ_API dz_buf dz_buf_borrow(dz_slice bytes);

/* Another reference to bytes [offset, offset+len) of *buf's block. Both buffers are sharing from
 * now on; neither can be written or transferred until the other is released.
 * DZ_E_INVALID when the range is outside *buf; DZ_E_NOT_OWNED when *buf is borrowed. */
DZ_API int dz_buf_share(dz_buf *out, dz_buf *buf, size_t offset, size_t len);

/* Moves ownership from *from to *to without copying; *from is empty (0 bytes) afterwards.
 * DZ_E_NOT_OWNED when *from is borrowed, is a part of a block, or shares it: the siblings would be
 * corrupted, so copy such a buffer first. Then both buffers are unchanged. */
DZ_API int dz_buf_transfer(dz_buf *to, dz_buf *from);

/* Drops this reference; the memory goes with the last one. *buf is empty afterwards. */
DZ_API void dz_buf_release(dz_buf *buf);

static inline dz_slice dz_buf_slice(const dz_buf *buf)
{
    return dz_slice_make(buf->data, buf->len);
}

#endif
