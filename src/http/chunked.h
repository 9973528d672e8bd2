/* chunked.h: the chunked transfer coding (RFC 9112 7.1), decoded in place and without I/O.
 *
 *   size line --CRLF--> data --CRLF--> size line ... "0" --CRLF--> trailer lines --CRLF--> end
 */
#ifndef DZ_HTTP_CHUNKED_H
#define DZ_HTTP_CHUNKED_H

#include <donmaz/slice.h>

#include <stddef.h>
#include <stdint.h>

/* Bytes of chunk extensions ahead of the payload they came with, and of all trailer fields. */
enum { DZ_CHUNK_EXTENSION_MAX = 4 * 1024, DZ_CHUNK_TRAILER_MAX = 4 * 1024 };

enum dz_chunked_result {
    DZ_CHUNKED_MORE = 0, /* every byte was used; give the next ones */
    DZ_CHUNKED_DATA = 1, /* *payload holds body bytes; call again with what follows *used */
    DZ_CHUNKED_END = 2   /* the body is complete; what follows *used is not part of it */
};

typedef struct dz_chunked {
    uint64_t left;      /* of the chunk being read */
    uint32_t extension; /* bytes of extensions not yet paid for by payload */
    uint32_t trailer;   /* bytes of trailer fields */
    uint8_t state;
    uint8_t digits; /* of the size being read */
} dz_chunked;

/* Begins a body. */
void dz_chunked_init(dz_chunked *decoder);

/* Reads on at bytes[0..len), the bytes after those used so far, cut anywhere. Sets *used, and
 * *payload (a part of `bytes`, empty unless DZ_CHUNKED_DATA). Returns a dz_chunked_result, or minus
 * the status to answer before closing: 400 malformed or too many extension bytes, 431 trailers too
 * large. Extensions and trailer fields are checked and dropped. Only payload is progress: a caller
 * that restarts a timer for other bytes lets a client dribble them for ever. */
int dz_chunked_next(dz_chunked *decoder, const char *bytes, size_t len, size_t *used,
                    dz_slice *payload);

/* Room for dz_chunk_header: 16 digits and CRLF. */
enum { DZ_CHUNK_HEADER_MAX = 18 };

/* Writes the line before a chunk of `size` > 0 bytes; returns its length. After the chunk follows
 * CRLF; DZ_CHUNK_LAST ends the body. */
size_t dz_chunk_header(char out[DZ_CHUNK_HEADER_MAX], uint64_t size);

#define DZ_CHUNK_LAST "0\r\n\r\n"

#endif
