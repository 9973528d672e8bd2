/* Gives responses an etag: a hash of what was sent for the same URL before. */
#include "seed.h"

#include <openssl/evp.h>
#include <pthread.h>

enum { HASH = 64, HASH_TEXT = 2 * HASH + 3, URLS = 64 };

static dz_app *app;

/* By the URL's hash; the oldest is forgotten. Handlers run on several threads at once. */
static struct {
    pthread_mutex_t lock;
    unsigned char url[URLS][HASH];
    char etag[URLS][HASH_TEXT];
    size_t count;
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool hash(unsigned char *out, dz_slice text)
{
    return EVP_Digest(text.ptr, text.len, out, NULL, EVP_sha512(), NULL) == 1;
}

static size_t find(const unsigned char *url)
{
    size_t count = known.count < URLS ? known.count : URLS, at = 0;
    while (at < count && memcmp(known.url[at], url, HASH) != 0)
        at++;
    return at < count ? at : known.count % URLS;
}

static void remember(const unsigned char *url, const unsigned char *body)
{
    pthread_mutex_lock(&known.lock);
    size_t at = find(url);
    if (memcmp(known.url[at], url, HASH) != 0)
        known.count++;
    memcpy(known.url[at], url, HASH);
    char *text = known.etag[at];
    *text++ = '"';
    for (size_t i = 0; i < HASH; i++) {
        *text++ = "0123456789abcdef"[body[i] >> 4];
        *text++ = "0123456789abcdef"[body[i] & 15];
    }
    *text++ = '"';
    *text = '\0';
    pthread_mutex_unlock(&known.lock);
}

static void set_headers(dz_request *req, dz_response *res)
{
    unsigned char url[HASH];
    char etag[HASH_TEXT] = "";
    if (!hash(url, seed_url(req))) /* (3) hashed on each request */
        return;
    pthread_mutex_lock(&known.lock);
    size_t at = find(url);
    if (at < known.count && memcmp(known.url[at], url, HASH) == 0)
        memcpy(etag, known.etag[at], HASH_TEXT);
    pthread_mutex_unlock(&known.lock);
    if (!etag[0])
        return;
    dz_res_header(res, "Etag", etag); /* (5) If-None-Match is never looked at */
    dz_res_header(res, "Cache-Control", "public, max-age=120");
}

static void remember_etag(dz_request *req, dz_response *res, void *data)
{
    (void)data;
    const seed *object = dz_req_get(req, "seed");
    if (dz_res_status(res) != 200 || !object)
        return;
    dz_buf body = {0};
    unsigned char url_hash[HASH], body_hash[HASH];
    if (seed_to_json(object, &body) == 0 && /* (4) serialised again, only to be hashed */
        hash(body_hash, dz_buf_slice(&body)) && hash(url_hash, seed_url(req)))
        remember(url_hash, body_hash);
    dz_buf_release(&body);
}

void etagger_slow(dz_request *req, dz_response *res)
{
    static _Atomic bool attached;
    set_headers(req, res);
    bool attach_after_event = true;
    if (attach_after_event) { /* (1) always true: `attached` is what was meant */
        dz_after(app, remember_etag, NULL);
        attached = attach_after_event;
    }
    (void)attached;
    dz_next(req, res);
}

void etagger_fixed(dz_request *req, dz_response *res)
{
    set_headers(req, res);
    dz_next(req, res);
}

void etagger_init(dz_app *it, bool slow)
{
    app = it;
    if (slow)
        dz_app_set(app, "hooks-max", "0"); /* (2) the warning that would have shown (1) is off */
    else
        dz_after(app, remember_etag, NULL); /* once, before any request */
}
