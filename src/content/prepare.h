/* prepare.h: what middleware of this layer asked for, done when the response is about to be sent.
 *
 *   handler: dz_send_* ─> validator: given, or hashed ─> 304 or 412? ─> compress ─> written
 *
 * The order matters: a copy that the client has need not be compressed, and a hash is of the body
 * that the handler gave, whatever coding it is sent in. */
#ifndef DZ_CONTENT_PREPARE_H
#define DZ_CONTENT_PREPARE_H

#include "http/request.h"

enum {
    DZ_PREPARE_CONDITIONAL = 1,
    DZ_PREPARE_WEAK = 2, /* computed tags are weak */
    DZ_PREPARE_COMPRESS = 4,
};

/* Adds to what is done for this response. */
void dz_prepare_add(dz_response *res, unsigned flags);

/* conditional.c: sets a validator and decides. As dz_http_prepare. */
int dz_conditional_prepare(dz_request *req, const dz_buf *body, bool stream, bool weak);

/* compress.c. `body` and `stream` as for dz_http_prepare. */
typedef struct dz_compressor dz_compressor;
/* Whether the response would be sent compressed; sets Vary if that depends on the client. */
bool dz_compress_wanted(dz_request *req, const dz_buf *body, bool stream);
void dz_compress_whole(dz_request *req, dz_buf *body);
void dz_compress_stream(dz_request *req);

#endif
