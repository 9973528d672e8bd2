/* A service over Redis for the tests: values by key, and what the client counted. */
#include <donmaz.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *url = "", *cache = "0", *timeout = "20000", *connections = "1", *bytes = "0";
static const char *ca, *cert, *key, *name, *insecure, *waiting = "0";
static dz_redis *redis;

static int status_of(int rc)
{
    return rc == DZ_E_NOT_FOUND     ? 404
           : rc == DZ_E_TIMEOUT     ? 504
           : rc == DZ_E_UNAVAILABLE ? 503
                                    : 502;
}

static void get(dz_request *req, dz_response *res)
{
    dz_buf value;
    int rc = dz_redis_get(redis, dz_req_param(req, "key"), &value);
    if (rc < 0)
        dz_send_text(res, status_of(rc), dz_error_name(rc));
    else
        dz_send_buf(res, 200, "text/plain", &value);
}

static void set(dz_request *req, dz_response *res)
{
    dz_slice body = {NULL, 0};
    int rc = dz_req_body(req, &body);
    if (rc == 0)
        rc = dz_redis_set(redis, dz_req_param(req, "key"), body, 0);
    dz_send_text(res, rc < 0 ? status_of(rc) : 200, rc < 0 ? dz_error_name(rc) : "ok");
}

static void incr(dz_request *req, dz_response *res)
{
    int64_t value;
    int rc = dz_redis_incr(redis, dz_req_param(req, "key"), 1, &value);
    if (rc < 0)
        dz_send_text(res, status_of(rc), dz_error_name(rc));
    else
        dz_send_json(res, 200, "%lld", (long long)value);
}

/* a,b,c in the path. */
static size_t split(dz_slice text, dz_slice *parts, size_t most)
{
    size_t count = 0;
    while (count < most) {
        const char *comma = text.len > 0 ? memchr(text.ptr, ',', text.len) : NULL;
        size_t len = comma ? (size_t)(comma - text.ptr) : text.len;
        parts[count++] = dz_slice_make(text.ptr, len);
        if (!comma)
            break;
        text = dz_slice_make(comma + 1, text.len - len - 1);
    }
    return count;
}

/* Each value on a line, "-" for none. */
static void mget(dz_request *req, dz_response *res)
{
    dz_slice keys[200];
    dz_buf values[200], out = {0};
    size_t count = split(dz_req_param(req, "keys"), keys, 200);
    int rc = dz_redis_mget(redis, keys, count, values);
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = dz_buf_append(&out, values[i].block ? dz_buf_slice(&values[i]) : DZ_LIT("-"));
        if (rc == 0)
            rc = dz_buf_append(&out, DZ_LIT("\n"));
    }
    for (size_t i = 0; i < count; i++)
        dz_buf_release(&values[i]);
    if (rc == 0)
        dz_send_buf(res, 200, "text/plain", &out);
    else
        dz_send_text(res, status_of(rc), dz_error_name(rc));
    dz_buf_release(&out);
}

static void del(dz_request *req, dz_response *res)
{
    dz_slice keys[200];
    int64_t deleted = 0;
    int rc = dz_redis_del(redis, keys, split(dz_req_param(req, "keys"), keys, 200), &deleted);
    if (rc < 0)
        dz_send_text(res, status_of(rc), dz_error_name(rc));
    else
        dz_send_json(res, 200, "%lld", (long long)deleted);
}

/* Any command, its words between commas; the answer's text, or the error's. */
static void command(dz_request *req, dz_response *res)
{
    dz_slice words[50];
    dz_reply *reply;
    size_t count = split(dz_req_param(req, "words"), words, 50);
    int rc = dz_redis_command(redis, 0, words, count, &reply);
    char text[300];
    dz_slice theirs = reply ? dz_reply_text(reply) : DZ_LIT("");
    snprintf(text, sizeof text, "%s %.*s %lld", rc < 0 ? dz_error_name(rc) : "ok", (int)theirs.len,
             theirs.ptr ? theirs.ptr : "", reply ? (long long)dz_reply_integer(reply) : 0);
    dz_reply_free(reply);
    dz_send_text(res, rc < 0 ? status_of(rc) : 200, text);
}

static void why(dz_request *req, dz_response *res)
{
    (void)req;
    char text[512];
    dz_redis_why(redis, text, sizeof text);
    dz_send_text(res, 200, text);
}

static void on_event(void *context, const char *text)
{
    (void)context;
    fprintf(stderr, "redis: %s\n", text);
}

static void stats(dz_request *req, dz_response *res)
{
    (void)req;
    dz_redis_stats s;
    dz_redis_get_stats(redis, &s);
    dz_send_json(res, 200,
                 "{\"commands\":%llu,\"retries\":%llu,\"waiting\":%llu,\"connects\":%llu,"
                 "\"losses\":%llu,\"hits\":%llu,\"invalidations\":%llu,\"late\":%llu,"
                 "\"values\":%llu,\"connected\":%u,\"redirects\":%llu,\"maps\":%llu,"
                 "\"nodes\":%llu,\"waiting_bytes\":%llu,\"shared\":%llu,\"flushes\":%llu,"
                 "\"timeouts\":%llu}",
                 (unsigned long long)s.commands, (unsigned long long)s.retries,
                 (unsigned long long)s.waiting, (unsigned long long)s.connects,
                 (unsigned long long)s.losses, (unsigned long long)s.cache_hits,
                 (unsigned long long)s.cache_invalidations, (unsigned long long)s.cache_late,
                 (unsigned long long)s.cache_values, s.connected, (unsigned long long)s.redirects,
                 (unsigned long long)s.map_refreshes, (unsigned long long)s.nodes,
                 (unsigned long long)s.waiting_bytes, (unsigned long long)s.shared,
                 (unsigned long long)s.cache_flushes, (unsigned long long)s.timeouts);
}

static int start(dz_app *app, void *unused)
{
    (void)app;
    (void)unused;
    const dz_redis_options options = {.cache_bytes = strtoull(cache, NULL, 10),
                                      .timeout_ms = strtoull(timeout, NULL, 10),
                                      .connect_timeout_ms = strtoull(timeout, NULL, 10),
                                      .connections = (unsigned)strtoul(connections, NULL, 10),
                                      .max_waiting = (unsigned)strtoul(waiting, NULL, 10),
                                      .max_waiting_bytes = strtoull(bytes, NULL, 10),
                                      .tls_ca_file = ca,
                                      .tls_cert_file = cert,
                                      .tls_key_file = key,
                                      .tls_server_name = name,
                                      .tls_insecure = insecure != NULL,
                                      .on_event = on_event};
    int rc = dz_redis_open(&redis, url, &options);
    if (rc < 0)
        fprintf(stderr, "redis: open: %s\n", dz_error_name(rc));
    return rc;
}

static void stop(dz_app *app, void *unused)
{
    (void)app;
    (void)unused;
    dz_redis_close(redis);
}

int main(int argc, char **argv)
{
    dz_app *app = dz_app_new();
    dz_app_option(app, "redis", "URL", "the server", &url);
    dz_app_option(app, "redis-cache", "BYTES", "tracking cache", &cache);
    dz_app_option(app, "redis-timeout", "MS", "of a command and of connecting", &timeout);
    dz_app_option(app, "redis-connections", "N", "of each loop", &connections);
    dz_app_option(app, "redis-bytes", "BYTES", "that may wait", &bytes);
    dz_app_option(app, "redis-waiting", "N", "commands that may wait", &waiting);
    dz_app_option(app, "redis-ca", "FILE", "whom to trust", &ca);
    dz_app_option(app, "redis-cert", "FILE", "the client's certificate", &cert);
    dz_app_option(app, "redis-key", "FILE", "its key", &key);
    dz_app_option(app, "redis-name", "NAME", "that the server's certificate must have", &name);
    dz_app_option(app, "redis-insecure", NULL, "takes any certificate", &insecure);
    dz_get(app, "/mget/:keys", mget);
    dz_post(app, "/del/:keys", del);
    dz_post(app, "/command/:words", command);
    dz_get(app, "/why", why);
    dz_get(app, "/get/:key", get);
    dz_put(app, "/set/:key", set);
    dz_post(app, "/incr/:key", incr);
    dz_get(app, "/stats", stats);
    dz_on_start(app, start);
    dz_on_stop(app, stop);
    return dz_run(app, argc, argv);
}
