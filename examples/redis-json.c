/* redis-json: a JSON document of 100 KB out of Redis (docs/redis.md).
 *
 *   GET /data    the document, straight from Redis' reply to the client's socket
 *   GET /health  {"ok":true}
 *
 * --redis takes redis://, rediss:// (TLS), redis+cluster:// and unix://; embedded (the default)
 * starts a private redis-server and fills it. --redis-cache keeps the document in memory until
 * Redis says that it changed. --etag answers 304 to clients that have it already; only Redis knows
 * whether a value is still the one that was hashed, so it brings a cache of ETAG_CACHE unless
 * --redis-cache is given. */
#include <donmaz.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DOC_BYTES = 102400, ETAG_CACHE = 1 << 20 };

static const char *where = "embedded", *cache = NULL, *etag = NULL, *cache_control = NULL;
static const char *no_share = NULL;
static const char *ca, *cert, *key, *insecure; /* of rediss:// */
static dz_redis *redis;
static dz_redis_server *server;

/* {"items":["k3jf...", ...]} of exactly DOC_BYTES, the same each time. */
static char *make_document(void)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    static const char head[] = "{\"items\":[\"", tail[] = "\"]}";
    char *doc = malloc(DOC_BYTES);
    if (!doc)
        return NULL;
    uint64_t seed = 42;
    for (size_t i = 0; i < DOC_BYTES; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        doc[i] = letters[(seed >> 33) % (sizeof letters - 1)];
    }
    for (size_t i = 64; i + 64 < DOC_BYTES; i += 64) { /* the next item */
        doc[i] = doc[i + 2] = '"';
        doc[i + 1] = ',';
    }
    memcpy(doc, head, sizeof head - 1);
    memcpy(doc + DOC_BYTES - (sizeof tail - 1), tail, sizeof tail - 1);
    return doc;
}

/* The embedded server starts empty, and forgets when it is restarted. */
static int fill(void)
{
    char *doc = make_document();
    if (!doc)
        return DZ_E_NOMEM;
    int rc = dz_redis_set(redis, DZ_LIT("doc"), dz_slice_make(doc, DOC_BYTES), 0);
    free(doc);
    return rc;
}

static int get(dz_buf *doc, uint64_t *hash)
{
    return etag ? dz_redis_get_hash(redis, DZ_LIT("doc"), doc, hash)
                : dz_redis_get(redis, DZ_LIT("doc"), doc);
}

static int status_of(int rc)
{
    switch (rc) {
    case DZ_E_NOT_FOUND:
        return 404;
    case DZ_E_TIMEOUT:
        return 504;
    case DZ_E_UNAVAILABLE:
    case DZ_E_QUEUE_FULL:
        return 503;
    default:
        return 502;
    }
}

/* Whether the client has it already and was told so. */
static bool answered_304(dz_request *req, dz_response *res, uint64_t hash)
{
    char tag[24];
    snprintf(tag, sizeof tag, "%016llx", (unsigned long long)hash);
    return dz_res_etag(res, dz_slice_of(tag), false) == 0 && !dz_preconditions(req, res, true);
}

static void data(dz_request *req, dz_response *res)
{
    dz_buf doc;
    uint64_t hash = 0;
    int rc = get(&doc, &hash);
    if (rc == DZ_E_NOT_FOUND && server) {
        rc = fill();
        if (rc == 0)
            rc = get(&doc, &hash);
    }
    if (rc < 0) {
        dz_send_error(res, status_of(rc), rc);
        return;
    }
    if (cache_control)
        dz_res_header(res, "Cache-Control", cache_control);
    if (etag && answered_304(req, res, hash))
        dz_buf_release(&doc);
    else
        dz_send_buf(res, 200, "application/json", &doc);
}

static void health(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_json(res, 200, "{\"ok\":true}");
}

static void on_event(void *context, const char *text)
{
    (void)context;
    fprintf(stderr, "redis-json: redis: %s\n", text);
}

static int start(dz_app *app, void *unused)
{
    (void)unused;
    char url[128];
    char *end = NULL;
    dz_redis_options options = {.cache_bytes = cache  ? strtoull(cache, &end, 10)
                                               : etag ? ETAG_CACHE
                                                      : 0,
                                .no_sharing = no_share != NULL,
                                .tls_ca_file = ca,
                                .tls_cert_file = cert,
                                .tls_key_file = key,
                                .tls_insecure = insecure != NULL,
                                .on_event = on_event};
    if (cache && (*end || end == cache)) {
        fprintf(stderr, "redis-json: --redis-cache takes a number of bytes, not %s\n", cache);
        return DZ_E_INVALID;
    }
    if (strcmp(where, "embedded") == 0) {
        int rc = dz_redis_server_start(&server, url, sizeof url);
        if (rc < 0) {
            fprintf(stderr,
                    rc == -ENOENT ? "redis-json: redis-server is not installed (apt-get install "
                                    "redis-server); or name a server: --redis redis://HOST\n"
                                  : "redis-json: could not start redis-server: %s\n",
                    dz_strerror(rc));
            return rc;
        }
        where = url;
    }
    int rc = dz_redis_open(&redis, where, &options);
    if (rc < 0)
        fprintf(stderr, "redis-json: --redis %s: %s\n", where, dz_strerror(rc));
    return rc < 0 ? rc : dz_redis_register_metrics(redis, dz_app_metrics(app), "data");
}

static void stop(dz_app *app, void *unused)
{
    (void)unused;
    dz_metrics_forget(dz_app_metrics(app), redis);
    dz_redis_close(redis);
    dz_redis_server_stop(server);
}

int main(int argc, char **argv)
{
    dz_app *app = dz_app_new();
    dz_app_option(app, "redis", "URL",
                  "redis://, rediss://, redis+cluster:// or unix:// (embedded)", &where);
    dz_app_option(app, "redis-cache", "BYTES", "tracking cache of each loop (0: none)", &cache);
    dz_app_option(app, "redis-ca", "FILE", "authorities to trust (the system's)", &ca);
    dz_app_option(app, "redis-cert", "FILE", "certificate to show to Redis", &cert);
    dz_app_option(app, "redis-key", "FILE", "its key (in the same file)", &key);
    dz_app_option(app, "redis-insecure", NULL, "take any certificate of Redis", &insecure);
    dz_app_option(app, "no-share", NULL, "one GET a request, also for the same key", &no_share);
    dz_app_option(app, "etag", NULL, "send ETag, answer If-None-Match with 304", &etag);
    dz_app_option(app, "cache-control", "TEXT", "send this Cache-Control", &cache_control);
    dz_get(app, "/data", data);
    dz_get(app, "/health", health);
    dz_on_start(app, start);
    dz_on_stop(app, stop);
    return dz_run(app, argc, argv);
}
