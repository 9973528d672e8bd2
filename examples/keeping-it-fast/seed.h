/* seed.h: what GET /seed/v1 answers with, and the middleware that gives it an etag. */
#ifndef KEEPING_IT_FAST_SEED_H
#define KEEPING_IT_FAST_SEED_H

#include <donmaz.h>

enum { SEED_BYTES = 5000, SEED_DIGITS = 2 * SEED_BYTES };

/* One answer, not yet text. */
typedef struct seed {
    dz_slice data, url;
    uint64_t ts;
} seed;

/* 5,000 random bytes as hex, made on the first call. Before any request. False: no random bytes. */
bool seed_make(void);
dz_slice seed_data(void);

/* Milliseconds since 1970, moving once a minute. */
uint64_t seed_timestamp(void);

/* The request's path and query, in the request's memory; empty when there is none left. */
dz_slice seed_url(dz_request *req);

/* The object as JSON, appended to *out. 0 or a negative error. */
static inline int seed_to_json(const seed *object, dz_buf *out)
{
    dz_json json;
    dz_json_init(&json, out, 0);
    dz_json_object_open(&json);
    dz_json_key(&json, "data");
    dz_json_string(&json, object->data);
    dz_json_key(&json, "url");
    dz_json_string(&json, object->url);
    dz_json_key(&json, "ts");
    dz_json_uint(&json, object->ts);
    dz_json_object_close(&json);
    return dz_json_finish(&json);
}

/* Reference 3's middleware as it was, with its five faults, and with only the worst one mended.
 * Both want the response's object under "seed" in the request. */
void etagger_slow(dz_request *req, dz_response *res);
void etagger_fixed(dz_request *req, dz_response *res);

/* Before any request. */
void etagger_init(dz_app *app, bool slow);

#endif
