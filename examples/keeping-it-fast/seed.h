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
int seed_to_json(const seed *object, dz_buf *out);

/* Reference 3's middleware as it was, with its five faults, and with only the worst one mended.
 * Both want the response's object under "seed" in the request. */
void etagger_slow(dz_request *req, dz_response *res);
void etagger_fixed(dz_request *req, dz_response *res);

/* Before any request. */
void etagger_init(dz_app *app, bool slow);

#endif
