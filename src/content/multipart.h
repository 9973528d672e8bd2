/* multipart.h: several ranges of a file in one body (multipart/byteranges, RFC 9110 14.6). */
#ifndef DZ_CONTENT_MULTIPART_H
#define DZ_CONTENT_MULTIPART_H

#include "content/range.h"
#include "http/request.h"

/* Makes the pieces that send `ranges` of `file`, which has `size` bytes; with more than one, each
 * as a part, and the response's Content-Type becomes multipart/byteranges. *length is what they
 * have together. They live in the request's arena. DZ_E_NOMEM: nothing of the file was used. */
int dz_multipart_pieces(dz_request *req, dz_out_file *file, uint64_t size, const dz_range *ranges,
                        int count, dz_list *pieces, uint64_t *length);

#endif
