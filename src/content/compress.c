#include "content/compressor.h"
#include "content/encoding.h"
#include "content/fields.h"
#include "content/offload.h"
#include "content/prepare.h"
#include "content/types.h"

#include "http/split.h"

#include <libdeflate.h>
#include <stdlib.h>

/* A body above this is sent as it is: one call compresses it, and no worker should be held longer
 * than a fraction of a second by a client that may have gone. */
enum { WHOLE_MAX = 64 << 20 };

static dz_compressor *compressor_of(const dz_request *req)
{
    return dz_call_of(req)->core->compressor;
}

void dz_compress_options_init(dz_compress_options *options)
{
    *options = (dz_compress_options){
        .level = 1, .min_bytes = 1024, .pool_bytes = 16 << 10, .max_queue = 64};
}

static void count(_Atomic uint64_t *counter, uint64_t by)
{
    atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

/* --- is it worth it, and wanted? --- */

static bool forbids_transforming(const dz_response *res)
{
    dz_slice rest = dz_content_get(res, "cache-control"), directive;
    while (rest.ptr) {
        dz_split_take(&rest, ',', &directive);
        if (dz_slice_equal_nocase(directive, DZ_LIT("no-transform")))
            return true;
    }
    return false;
}

static bool is_eligible(const dz_compressor *c, const dz_response *res, const dz_buf *body,
                        bool stream)
{
    if (dz_status_bodiless(res->status) || res->status == 206)
        return false;
    if (stream ? c->options.leave_streams
               : !body || body->len < c->options.min_bytes || body->len > WHOLE_MAX)
        return false;
    return dz_type_compressible(res->content_type) && !dz_content_get(res, "content-range").ptr &&
           !dz_content_get(res, "content-encoding").ptr && !forbids_transforming(res);
}

bool dz_compress_wanted(dz_request *req, const dz_buf *body, bool stream)
{
    if (!is_eligible(compressor_of(req), &req->res, body, stream) || dz_content_vary(&req->res) < 0)
        return false;
    dz_slice accepted = dz_content_list(req, "accept-encoding");
    return dz_coding_choose(accepted, 1U << DZ_CODING_GZIP) == DZ_CODING_GZIP;
}

/* --- whole bodies --- */

static struct libdeflate_compressor *take_spare(dz_compressor *c)
{
    for (size_t i = 0; i < DZ_COMPRESSOR_SPARES; i++) {
        struct libdeflate_compressor *spare = atomic_exchange(&c->spares[i], NULL);
        if (spare)
            return spare;
    }
    return libdeflate_alloc_compressor(c->options.level);
}

static void put_spare(dz_compressor *c, struct libdeflate_compressor *spare)
{
    for (size_t i = 0; i < DZ_COMPRESSOR_SPARES && spare; i++)
        spare = atomic_exchange(&c->spares[i], spare);
    if (spare)
        libdeflate_free_compressor(spare);
}

typedef struct squeeze {
    dz_compressor *compressor;
    dz_slice in;
    dz_buf out; /* empty: it would not have become smaller, or memory was out */
    bool no_memory;
} squeeze;

static void run_squeeze(void *arg)
{
    squeeze *it = arg;
    struct libdeflate_compressor *libdeflate = take_spare(it->compressor);
    if (!libdeflate || dz_buf_alloc(&it->out, it->in.len) < 0) {
        it->no_memory = true;
    } else {
        it->out.len = libdeflate_gzip_compress(libdeflate, it->in.ptr, it->in.len, it->out.data,
                                               it->in.len - 1);
        if (it->out.len == 0)
            dz_buf_release(&it->out);
    }
    if (libdeflate)
        put_spare(it->compressor, libdeflate);
}

void dz_compress_whole(dz_request *req, dz_buf *body)
{
    dz_compressor *c = compressor_of(req);
    dz_response *res = &req->res;
    if (req->head.method == DZ_HEAD) {
        /* How long the body of GET would be is known only by doing the work (RFC 9110 9.3.2). */
        if (dz_res_header(res, "Content-Encoding", "gzip") == 0)
            res->no_length = true;
        return;
    }
    squeeze it = {.compressor = c, .in = dz_buf_slice(body)};
    int rc = 0;
    if (it.in.len > c->options.pool_bytes)
        rc = dz_offload(c->pool, run_squeeze, &it);
    else
        run_squeeze(&it);
    if (rc < 0 || it.no_memory)
        count(&c->refused, 1);
    if (it.out.len == 0 || dz_res_header(res, "Content-Encoding", "gzip") < 0) {
        dz_buf_release(&it.out);
        return;
    }
    count(&c->whole, 1);
    count(&c->bytes_in, body->len);
    count(&c->bytes_out, it.out.len);
    dz_buf_release(body);
    *body = it.out;
}

void dz_compress_stream(dz_request *req)
{
    dz_compressor *c = compressor_of(req);
    dz_response *res = &req->res;
    dz_encoder *encoder = NULL;
    if (req->head.method != DZ_HEAD && !(encoder = dz_gzip_stream_new(c))) {
        count(&c->refused, 1);
        return;
    }
    if (dz_res_header(res, "Content-Encoding", "gzip") < 0) {
        if (encoder)
            encoder->release(encoder);
        return;
    }
    res->encoder = encoder;
    if (encoder)
        count(&c->streams, 1);
}

/* --- the app's --- */

static void free_compressor(dz_part *part)
{
    dz_compressor *c = DZ_CONTAINER(part, dz_compressor, part);
    dz_pool_free(c->pool);
    for (size_t i = 0; i < DZ_COMPRESSOR_SPARES; i++)
        libdeflate_free_compressor(atomic_load(&c->spares[i]));
    free(c);
}

static dz_compressor *new_compressor(const dz_compress_options *options)
{
    dz_compressor *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->options = *options;
    c->part.free = free_compressor;
    c->pool = dz_offload_pool(options->workers, options->max_queue);
    if (!c->pool) {
        free(c);
        return NULL;
    }
    return c;
}

static void compress(dz_request *req, dz_response *res)
{
    dz_prepare_add(res, DZ_PREPARE_COMPRESS);
    dz_next(req, res);
}

void dz_use_compress(dz_app *app, const dz_compress_options *options)
{
    dz_compress_options chosen;
    if (!app)
        return;
    dz_compress_options_init(&chosen);
    if (options)
        chosen = *options;
    if (chosen.level < 1 || chosen.level > 12) {
        dz_core_fail_build(app->core, "dz_use_compress: level", DZ_E_INVALID);
        return;
    }
    dz_compressor *c = new_compressor(&chosen);
    if (!c) {
        dz_core_fail_build(app->core, "dz_use_compress", DZ_E_NOMEM);
        return;
    }
    dz_list_push(&app->core->parts, &c->part.link);
    app->core->compressor = c;
    dz_use(app, compress);
}

void dz_compress_get_stats(const dz_app *app, dz_compress_stats *stats)
{
    *stats = (dz_compress_stats){0};
    dz_compressor *c = app->core->compressor;
    if (!c)
        return;
    stats->whole = atomic_load(&c->whole);
    stats->streams = atomic_load(&c->streams);
    stats->refused = atomic_load(&c->refused);
    stats->bytes_in = atomic_load(&c->bytes_in);
    stats->bytes_out = atomic_load(&c->bytes_out);
}
