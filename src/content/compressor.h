/* compressor.h: what dz_use_compress keeps of an app. */
#ifndef DZ_CONTENT_COMPRESSOR_H
#define DZ_CONTENT_COMPRESSOR_H

#include "app/app.h"

#include <donmaz/compress.h>

#include <stdatomic.h>

struct libdeflate_compressor;
typedef struct dz_compressor dz_compressor;

enum { DZ_COMPRESSOR_SPARES = 4 };

struct dz_compressor {
    dz_part part;
    dz_compress_options options;
    dz_pool *pool;
    /* Compressors that nobody uses now: making one costs more than compressing a small body. */
    _Atomic(struct libdeflate_compressor *) spares[DZ_COMPRESSOR_SPARES];
    _Atomic uint64_t whole, streams, refused, bytes_in, bytes_out;
};

/* gzip_stream.c: an encoder for a stream; NULL: out of memory. */
dz_encoder *dz_gzip_stream_new(dz_compressor *compressor);

#endif
