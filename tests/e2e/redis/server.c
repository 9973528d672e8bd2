/* A service over Redis for the tests: values by key, and what the client counted. */
#include <donmaz.h>

#include <stdio.h>
#include <stdlib.h>

static const char *url = "", *cache = "0", *timeout = "1000";
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

static void stats(dz_request *req, dz_response *res)
{
    (void)req;
    dz_redis_stats s;
    dz_redis_get_stats(redis, &s);
    dz_send_json(res, 200,
                 "{\"commands\":%llu,\"retries\":%llu,\"waiting\":%llu,\"connects\":%llu,"
                 "\"losses\":%llu,\"hits\":%llu,\"invalidations\":%llu,\"late\":%llu,"
                 "\"values\":%llu,\"connected\":%u}",
                 (unsigned long long)s.commands, (unsigned long long)s.retries,
                 (unsigned long long)s.waiting, (unsigned long long)s.connects,
                 (unsigned long long)s.losses, (unsigned long long)s.cache_hits,
                 (unsigned long long)s.cache_invalidations, (unsigned long long)s.cache_late,
                 (unsigned long long)s.cache_values, s.connected);
}

static int start(dz_app *app, void *unused)
{
    (void)app;
    (void)unused;
    const dz_redis_options options = {.cache_bytes = strtoull(cache, NULL, 10),
                                      .timeout_ms = strtoull(timeout, NULL, 10),
                                      .connect_timeout_ms = strtoull(timeout, NULL, 10)};
    return dz_redis_open(&redis, url, &options);
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
    dz_get(app, "/get/:key", get);
    dz_put(app, "/set/:key", set);
    dz_post(app, "/incr/:key", incr);
    dz_get(app, "/stats", stats);
    dz_on_start(app, start);
    dz_on_stop(app, stop);
    return dz_run(app, argc, argv);
}
