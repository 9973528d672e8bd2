#include "content/compressor.h"
#include "content/offload.h"

#include <stdlib.h>
#include <zlib.h>

/* A streamed response compressed piece by piece: what the handler writes can be decoded by the
 * client at once (Z_SYNC_FLUSH), because a stream's pieces are news, not parts of a document. zlib
 * and not libdeflate, which knows whole bodies only. */

enum {
    WINDOW = 15 + 16, /* 32 KB of history; gzip's frame */
    OUT_STEP = 16 << 10,
    IN_STEP = 1 << 30, /* zlib counts in 32 bits */
};

typedef struct gzip_stream {
    dz_encoder encoder;
    dz_compressor *compressor;
    z_stream zlib;
} gzip_stream;

typedef struct step {
    gzip_stream *stream;
    dz_slice in;
    bool last;
    dz_buf out;
    int result;
} step;

/* All of in[0..len) through zlib. */
static int deflate_some(step *it, dz_slice in, int flush)
{
    z_stream *zlib = &it->stream->zlib;
    zlib->next_in = (Bytef *)(uintptr_t)in.ptr;
    zlib->avail_in = (uInt)in.len;
    do {
        int rc = dz_buf_reserve(&it->out, it->out.len + OUT_STEP);
        if (rc < 0)
            return rc;
        size_t room = it->out.cap - it->out.len;
        zlib->next_out = (Bytef *)it->out.data + it->out.len;
        zlib->avail_out = (uInt)(room > IN_STEP ? IN_STEP : room);
        uInt before = zlib->avail_out;
        (void)deflate(zlib, flush); /* Z_BUF_ERROR says that nothing was left to do */
        it->out.len += before - zlib->avail_out;
    } while (zlib->avail_out == 0);
    return 0;
}

static void run_step(void *arg)
{
    step *it = arg;
    dz_slice rest = it->in;
    while (rest.len > IN_STEP && it->result == 0) {
        it->result = deflate_some(it, dz_slice_make(rest.ptr, IN_STEP), Z_NO_FLUSH);
        rest = dz_slice_make(rest.ptr + IN_STEP, rest.len - IN_STEP);
    }
    if (it->result == 0)
        it->result = deflate_some(it, rest, it->last ? Z_FINISH : Z_SYNC_FLUSH);
}

static int write_piece(dz_encoder *encoder, dz_request *req, dz_slice bytes, bool last)
{
    gzip_stream *stream = DZ_CONTAINER(encoder, gzip_stream, encoder);
    dz_compressor *c = stream->compressor;
    step it = {.stream = stream, .in = bytes, .last = last};
    int rc = bytes.len > c->options.pool_bytes ? dz_offload(c->pool, run_step, &it) : -1;
    if (rc == DZ_E_CANCELLED)
        return DZ_E_CLOSED;
    if (rc < 0)
        run_step(&it); /* small, or no worker took it; what follows depends on it */
    if (it.result < 0)
        req->res.broken = true;
    if (it.result == 0) {
        atomic_fetch_add_explicit(&c->bytes_in, bytes.len, memory_order_relaxed);
        atomic_fetch_add_explicit(&c->bytes_out, it.out.len, memory_order_relaxed);
        it.result = dz_http_write_encoded(req, dz_buf_slice(&it.out));
    }
    dz_buf_release(&it.out);
    return it.result;
}

static void release(dz_encoder *encoder)
{
    gzip_stream *stream = DZ_CONTAINER(encoder, gzip_stream, encoder);
    deflateEnd(&stream->zlib);
    free(stream);
}

dz_encoder *dz_gzip_stream_new(dz_compressor *compressor)
{
    gzip_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    int level = compressor->options.level < 9 ? compressor->options.level : 9;
    if (deflateInit2(&stream->zlib, level, Z_DEFLATED, WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(stream);
        return NULL;
    }
    stream->encoder = (dz_encoder){.write = write_piece, .release = release};
    stream->compressor = compressor;
    return &stream->encoder;
}
